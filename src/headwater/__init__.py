"""Headwater polls feeds, pages and timelines politely and hands over clean posts."""

__version__ = "0.3.0.dev0"
