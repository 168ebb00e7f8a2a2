"""Cluster: workers that share one PostgreSQL database."""
