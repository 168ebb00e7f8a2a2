"""The REST API: a file of routes per noun, problem documents for errors."""
