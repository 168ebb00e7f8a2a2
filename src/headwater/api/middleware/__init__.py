"""Middleware: authentication, request limits, response headers."""
