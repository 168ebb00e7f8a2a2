"""EventLog: the newest events, numbered, for streams that follow and those that come back."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from sys import getsizeof
from typing import NamedTuple, TypeAlias

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind, Events
from headwater.model import Failure, Outcome, OutcomeKind, Post, SkipReason

_EVENT_BYTES = 800  # what is kept of one event: the tuples, ids, moments and short texts
_POST_BYTES = 500  # the same of a post
_POSTS_TOGETHER = 100
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How far the log reaches back, and how patient streams are."""

    most_events: int = 10_000
    most_bytes: int = 16_777_216
    heartbeat_seconds: float = 15
    ask_seconds: float = 2  # how often a stream asks whether its token is still good (U1)
    send_seconds: float = 15  # a client that takes nothing for this long is dropped
    gather_seconds: float = 0.02  # a busy service would wake every stream for every event


class KeptPoll(NamedTuple):
    """What is told of a poll's outcome."""

    kind: OutcomeKind
    new_posts: int
    skipped: Mapping[SkipReason, int]
    status: int | None
    failure: Failure | None
    duration_ms: int


class KeptPost(NamedTuple):
    """What is told of a new post: all but its body."""

    id: str
    source_id: str
    title: str
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime


Told: TypeAlias = "KeptPoll | tuple[KeptPost, ...] | str | None"


class Kept(NamedTuple):
    """An event as it is kept: no outcome, source or body stays in memory for its sake.

    Tuples, because every poll pays for it. New posts of one poll are kept together, and each
    counts as an event.
    """

    last: int  # the number of its event, or of the last one
    kind: EventKind
    at: datetime
    told: Told
    size: int
    user_id: str | None = None
    podcast_id: str | None = None
    source_id: str | None = None
    host: str | None = None
    url: str | None = None


class EventLog:
    """A bounded window on what happened; older events fall out of it."""

    def __init__(self, events: Events, clock: Clock, limits: EventLimits | None = None) -> None:
        self.limits = limits or EventLimits()
        self.run = str(round(clock.now().timestamp() * 1000))  # tells this process from others
        self.newest = 0  # the number of the newest event
        self.size = 0
        self.news = asyncio.Event()
        self.closed = asyncio.Event()
        self._gone = 0  # the number of the newest event that fell out
        self._kept: deque[Kept] = deque()
        self._stop_listening = events.listen(self._hear)

    def __len__(self) -> int:
        """How many events can be had."""
        return self.newest - self._gone

    def close(self) -> None:
        """End every stream: nothing more will happen."""
        self._stop_listening()
        self.closed.set()

    def id_of(self, number: int) -> str:
        """An event's id as clients know it."""
        return f"{self.run}-{number}"

    def place_of(self, last_id: str | None) -> tuple[int, str | None]:
        """The number after which a client goes on, and why it missed something, if it did."""
        if not last_id:
            return self.newest, None
        run, _, digits = last_id.partition("-")
        known = digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER
        if run != self.run or not known or int(digits) > self.newest:
            return self.newest, "the id is not known here; the service may have been restarted"
        if not self.reaches(int(digits)):
            return self.newest, "not all events after this id are kept any more"
        return int(digits), None

    def reaches(self, number: int) -> bool:
        """Whether everything that happened after an event can still be had."""
        return number >= self._gone

    def after(self, number: int, most: int) -> Sequence[Kept]:
        """What is kept of the events after this one, oldest first."""
        kept = self._kept
        first = bisect_right(kept, number, key=_last)
        return [kept[place] for place in range(first, min(first + most, len(kept)))]

    def _hear(self, event: Event) -> None:
        outcome = event.outcome
        if outcome is None:
            self._keep(event, event.text)
        elif event.kind is EventKind.POLL_FINISHED:
            self._keep(event, _poll(outcome))
        elif event.kind is EventKind.POST_CREATED:
            self._keep_posts(event, outcome.posts)
        else:
            self._keep(event, outcome.source.disabled_reason)

    def _keep_posts(self, event: Event, posts: Sequence[Post]) -> None:
        beyond = len(posts) - self.limits.most_events
        if beyond > 0:  # more than are ever kept: to look at them all would hold up the loop (H2)
            self._skip(beyond)
            posts = posts[beyond:]
        for first in range(0, len(posts), _POSTS_TOGETHER):
            some = [KeptPost._make(_brief(p)) for p in posts[first : first + _POSTS_TOGETHER]]
            size = sum(_POST_BYTES + getsizeof(post.title) + getsizeof(post.url) for post in some)
            self._keep(event, tuple(some), size, count=len(some))

    def _keep(self, event: Event, told: Told, size: int = _EVENT_BYTES, *, count: int = 1) -> None:
        kind, at, subject = event.kind, event.at, event.subject
        last = self.newest + count
        if subject is None:
            kept = Kept(last, kind, at, told, size)
        else:
            source = subject.source
            size += getsizeof(source.url)
            owner, podcast = subject.user_id, source.podcast_id
            kept = Kept(
                last, kind, at, told, size, owner, podcast, source.id, source.host, source.url
            )
        self._kept.append(kept)
        self.newest = last
        self.size += size
        self._let_go()
        self.news.set()

    def _skip(self, count: int) -> None:
        """Count events that nobody can have, nor anything before them."""
        self._kept.clear()
        self.size = 0
        self.newest += count
        self._gone = self.newest

    def _let_go(self) -> None:
        limits = self.limits
        while self.newest - self._gone > limits.most_events or self.size > limits.most_bytes:
            fallen = self._kept.popleft()
            self._gone = fallen.last
            self.size -= fallen.size


_last = attrgetter("last")
_brief = attrgetter(*KeptPost._fields)


def _poll(outcome: Outcome) -> KeptPoll:
    return KeptPoll(
        outcome.kind,
        len(outcome.posts),
        outcome.skipped,
        outcome.status,
        outcome.failure,
        outcome.duration_ms,
    )
