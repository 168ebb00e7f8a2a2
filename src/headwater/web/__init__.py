"""The dashboard: a file per screen."""
