"""Accuracy of the parsers on real documents."""
