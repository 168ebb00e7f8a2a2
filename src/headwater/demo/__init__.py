"""A small simulated web on loopback, for people to try Headwater with and for system tests."""

from headwater.demo.catalogue import demo_hosts
from headwater.demo.exchange import Reply, Request
from headwater.demo.web import DemoHost, DemoSource, DemoWeb, ScriptedHost, Visit

__all__ = [
    "DemoHost",
    "DemoSource",
    "DemoWeb",
    "Reply",
    "Request",
    "ScriptedHost",
    "Visit",
    "demo_hosts",
]
