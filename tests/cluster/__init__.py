"""Several real workers on a real PostgreSQL, before a web that notices what they do."""
