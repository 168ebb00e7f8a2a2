"""Routes of the REST API, one file per noun."""
