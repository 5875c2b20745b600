"""Other systems, one extra for each: MCP servers, a gate in front of them, OpenTelemetry, DBOS."""
