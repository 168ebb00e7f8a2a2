"""Simulation: the real engine on a virtual clock, web and in-memory store, from a seed."""
