"""Foreign systems, one file for each, each behind its extra: OpenTelemetry, DBOS."""
