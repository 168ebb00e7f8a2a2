"""What a row of the hostile web's table says: how a host misbehaves, and what must come of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.hostile.exchange import Exchange

Talk = bytes | Callable[[Exchange], bytes] | Callable[[Exchange], Awaitable[None]]
Fact = object | Callable[[Any], bool]  # a value, or what a value must satisfy


@dataclass(frozen=True)
class Failed:
    """The poll fails; of several kinds, any will do."""

    kind: str  # as in "timeout", or "connection|broken body"
    type: str = "transient"
    says: str = ""  # part of the error


@dataclass(frozen=True)
class Stored:
    """The poll stores so many posts; for each of `having` there is one with these values."""

    posts: int
    having: tuple[Mapping[str, Fact], ...] = ()


@dataclass(frozen=True)
class Unchanged:
    """The poll succeeds and stores nothing."""

    status: int = 200


@dataclass(frozen=True)
class Either:
    """Where the requirements leave a choice: to read it leniently, or to refuse it."""

    stored: Stored
    failed: Failed


Outcome = Failed | Stored | Unchanged | Either


@dataclass(frozen=True)
class Sight:
    """What the hosts of a row saw of the service."""

    requests: list[str]  # to its own host, whole heads
    elsewhere: list[str]  # to its second host
    connections: int
    sent: int  # bytes that went out
    busy: int = 0

    @cached_property
    def targets(self) -> list[str]:
        """The request targets, in order."""
        return [request.split(" ")[1] for request in self.requests]

    @cached_property
    def everything(self) -> str:
        """All requests as one lower-case text."""
        return "".join([*self.requests, *self.elsewhere]).lower()


@dataclass(frozen=True)
class Misbehaviour:
    """One host of the hostile web."""

    name: str
    ids: str  # of the requirements that settle its outcome
    talk: Talk
    outcomes: tuple[Outcome, ...]  # of its polls, one after another
    type: str = "rss"
    url: str = "{origin}/feed"
    secrets: tuple[str, ...] = ()  # which no log line, error or history may hold
    sight: Callable[[Sight], bool] | None = None
    seconds: float = 30  # the longest that one poll may take, from asked to stored
    megabytes: int = 150  # by which the service and its parsers may grow meanwhile (H1)
    heavy: bool = False  # it is polled while no other row is
    # http, bare, nobody, full (a queue that nobody empties), or how it speaks TLS
    listens: str = "http"
    at_accept: bool = False  # it does not wait for a request
    elsewhere: bool = False  # it has a second host
    settles: bool = False  # its connections end before it is polled again


def row(name: str, ids: str, talk: Talk, *outcomes: Outcome, **more: Any) -> Misbehaviour:
    """A row, in the order in which a table reads best."""
    return Misbehaviour(name, ids, talk, outcomes, **more)
