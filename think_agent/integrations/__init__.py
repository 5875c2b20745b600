"""Other systems, one file and one extra for each: OpenTelemetry, DBOS."""
