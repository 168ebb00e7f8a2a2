"""The rows of the hostile web's table: how a host misbehaves, and the expected result."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.hostile.exchange import Exchange

Talk = bytes | Callable[[Exchange], bytes] | Callable[[Exchange], Awaitable[None]]
Fact = object | Callable[[Any], bool]  # a value, or a predicate of the value


@dataclass(frozen=True)
class Failed:
    """The poll fails with one of these kinds."""

    kind: str  # as in "timeout", or "connection|broken body"
    type: str = "transient"
    says: str = ""  # part of the error


@dataclass(frozen=True)
class Stored:
    """The poll stores this many posts; for each of `having` there is one with these values."""

    posts: int
    having: tuple[Mapping[str, Fact], ...] = ()


@dataclass(frozen=True)
class Unchanged:
    """The poll succeeds and stores nothing."""

    status: int = 200


@dataclass(frozen=True)
class Either:
    """The requirements allow both: lenient parsing or refusal."""

    stored: Stored
    failed: Failed


@dataclass(frozen=True)
class Rejected:
    """The source cannot be added: its URL can never be visited (J2)."""


Outcome = Failed | Stored | Unchanged | Either | Rejected


@dataclass(frozen=True)
class ObservedRequests:
    """What the hosts of a row recorded."""

    requests: list[str]  # to its own host, complete heads
    elsewhere: list[str]  # to its second host
    connections: int
    sent: int  # bytes that were sent
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
    ids: str  # the requirements that decide its outcome
    talk: Talk
    outcomes: tuple[Outcome, ...]  # of its polls, one after another
    type: str = "rss"
    url: str = "{origin}/feed"
    secrets: tuple[str, ...] = ()  # may not appear in any log line, error or history
    sight: Callable[[ObservedRequests], bool] | None = None
    seconds: float = 30  # maximum duration of one poll, from request to stored
    megabytes: int = 150  # maximum growth of the service and its parsers (H1)
    heavy: bool = False  # polled while no other row is
    # http, bare, closed (not listening), full (backlog never emptied), or its kind of TLS
    listens: str = "http"
    at_accept: bool = False  # it does not wait for a request
    elsewhere: bool = False  # it has a second host
    settles: bool = False  # its connections end before it is polled again


def row(name: str, ids: str, talk: Talk, *outcomes: Outcome, **more: Any) -> Misbehaviour:
    """A row, with its parameters in the order of the tables."""
    return Misbehaviour(name, ids, talk, outcomes, **more)
