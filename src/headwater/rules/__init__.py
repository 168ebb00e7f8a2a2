"""Decisions. No I/O, no clock, no randomness of their own."""
