"""Kills of a real service, at named places and at any instant, and what they may not cost."""
