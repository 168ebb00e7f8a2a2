"""X timelines over the X API v2."""
