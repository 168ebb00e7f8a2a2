"""Kills a real service at named points and at random times, and audits the database afterwards."""
