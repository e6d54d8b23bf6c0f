"""What subagents do, as OpenTelemetry spans and metrics, and as fields of log lines."""
