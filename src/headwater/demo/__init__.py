"""A small simulated web on loopback, for people to try Headwater with and for system tests."""
