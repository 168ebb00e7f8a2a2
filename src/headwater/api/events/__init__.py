"""Server-sent events: the event log and its streams."""
