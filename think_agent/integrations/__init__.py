"""Integrations with other systems: DBOS, MCP and OpenTelemetry. Each needs an extra."""
