"""A web that grows, answers conditional requests honestly, and remembers what it served."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from headwater.clock import SystemClock
from headwater.demo import DemoWeb, Reply, Request, ScriptedHost
from headwater.demo.exchange import http_date
from headwater.rules.admission import content_hash, mark
from tests.system.conftest import rss

_WINDOW = 40  # entries that a feed shows at most
_BALLAST = b"<!-- " + b"So it goes on and on. " * 3500 + b"-->"  # too much to be parsed at once
_LONGEST_ANSWER_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Version:
    """What a feed held at one time, and by what that is known again."""

    number: int
    entries: tuple[int, ...]
    marks: frozenset[str]  # what is remembered of its entries for ever
    newest: datetime | None
    etag: str | None
    last_modified: str | None
    body: bytes
    body_hash: str


@dataclass(frozen=True, slots=True)
class Served:
    """One request and its answer, as the host saw them."""

    at: float  # monotonic seconds
    status: int
    version: int
    known: int | None  # the version that the client said it had


@dataclass
class GrowingFeed:
    """A feed, its past, and what others say they have of it."""

    name: str
    host: str
    tagged: bool = False  # sends an ETag
    stamped: bool = False  # sends Last-Modified
    dated: bool = False  # its entries have dates
    large: bool = False  # is parsed in a process of its own
    digested: bool = False  # its posts become one article
    began: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(hours=6))
    versions: list[Version] = field(default_factory=list)
    history: list[Served] = field(default_factory=list)
    claimed: set[int] = field(default_factory=set)  # versions that were said to be stored
    published: int = 0

    def __post_init__(self) -> None:
        self.publish(2)

    @property
    def now(self) -> Version:
        return self.versions[-1]

    @property
    def source_id(self) -> str:
        return f"source-{self.name}"

    def publish(self, count: int) -> None:
        """Add entries, which makes a new version."""
        old = self.versions[-1].entries if self.versions else ()
        new = range(self.published, self.published + count)
        self.published += count
        self.versions.append(self._version(len(self.versions), (*old, *new)[-_WINDOW:]))

    def text(self, entry: int) -> str:
        """The body of an entry."""
        return f"{self.name} has news number {entry}."

    def date(self, entry: int) -> datetime | None:
        """When an entry was published."""
        if not self.dated:
            return None
        return self.began.replace(microsecond=0) + timedelta(seconds=entry)

    def answer(self, request: Request) -> Reply:
        """Answer as an honest server does, and write it down."""
        current, known = self.now, self._known(request)
        if known is not None:
            self.claimed.add(known)  # what they say they have they must not have lost
        status = 304 if known == current.number else 200
        self.history.append(Served(time.monotonic(), status, current.number, known))
        validators = {"ETag": current.etag, "Last-Modified": current.last_modified}
        return Reply(
            status,
            current.body if status == 200 else b"",
            "application/rss+xml",
            {name: value for name, value in validators.items() if value is not None},
        )

    def version_with(self, **signs: object) -> int | None:
        """The newest version with these signs; None if there is none."""
        for version in reversed(self.versions):
            if all(getattr(version, name) == value for name, value in signs.items()):
                return version.number
        return None

    def _version(self, number: int, entries: tuple[int, ...]) -> Version:
        dates = [self.date(entry) for entry in entries]
        items = [(f"e{n}", self.text(n), date) for n, date in zip(entries, dates, strict=True)]
        body = rss(f"{self.host}/{self.name}", *items) + (_BALLAST if self.large else b"")
        return Version(
            number=number,
            entries=entries,
            marks=frozenset(mark(content_hash(self.text(entry))) for entry in entries),
            newest=max((date for date in dates if date is not None), default=None),
            etag=f'"{self.name}-{number}"' if self.tagged else None,
            last_modified=http_date(self.began + timedelta(seconds=number))
            if self.stamped
            else None,
            body=body,
            body_hash=hashlib.sha256(body).hexdigest(),
        )

    def _known(self, request: Request) -> int | None:
        tag = request.headers.get("if-none-match")
        if tag is not None:
            return self.version_with(etag=tag)
        since = request.headers.get("if-modified-since")
        return None if since is None else self.version_with(last_modified=since)


def some_feeds() -> list[GrowingFeed]:
    """Feeds of every kind, two on a host."""
    return [
        GrowingFeed("tagged", "one", tagged=True, dated=True),
        GrowingFeed("undated", "one", tagged=True),
        GrowingFeed("stamped", "two", stamped=True, dated=True),
        GrowingFeed("plain", "two"),
        GrowingFeed("digest", "three", tagged=True, dated=True, digested=True),
        GrowingFeed("bare", "three", dated=True),
        GrowingFeed("both", "four", tagged=True, stamped=True, dated=True),
        GrowingFeed("large", "four", tagged=True, large=True),
    ]


@asynccontextmanager
async def web_of_feeds(
    feeds: Sequence[GrowingFeed], rng: Random, gate: asyncio.Event, noticed: Callable[[], None]
) -> AsyncIterator[DemoWeb]:
    """Serve feeds at their hosts, each answer after a moment, and while the gate is open.

    `noticed` is called at every request.
    """
    found = {(feed.host, f"/{feed.name}"): feed for feed in feeds}

    def script_of(host: str) -> ScriptedHost:
        async def script(request: Request) -> Reply:
            noticed()
            await asyncio.sleep(rng.uniform(0, _LONGEST_ANSWER_SECONDS))
            await gate.wait()
            return found[host, request.path].answer(request)

        return ScriptedHost(script, name=host)

    hosts = [script_of(host) for host in dict.fromkeys(feed.host for feed in feeds)]
    async with DemoWeb(hosts, clock=SystemClock()) as web:
        yield web
