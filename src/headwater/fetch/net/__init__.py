"""The HTTP client: name resolution, address guard, TLS, connections, redirects and limits."""
