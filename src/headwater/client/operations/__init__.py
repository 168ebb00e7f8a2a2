"""The calls of the API, each declared once for both clients."""
