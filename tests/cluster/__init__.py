"""Several real workers on a real PostgreSQL, polling a web that records their requests."""
