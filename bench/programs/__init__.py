"""The measured programs: each runs rounds on request in a separate process."""
