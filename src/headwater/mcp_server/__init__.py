"""The Model Context Protocol: tools for language models, which call the API (V5)."""
