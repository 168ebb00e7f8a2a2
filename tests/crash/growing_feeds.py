"""Feeds that grow, respond correctly to conditional requests, and record what they served."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoWeb, Reply, Request, http_date
from headwater.rules.admission import content_hash, hash_prefix
from tests.scripted_host import ScriptedHost
from tests.system.conftest import rss

_WINDOW = 40  # maximum number of entries in a feed
_BALLAST = b"<!-- " + b"So it goes on and on. " * 3500 + b"-->"  # too large to be parsed inline
_LONGEST_ANSWER_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a feed at one time, and its validators."""

    number: int
    entries: tuple[int, ...]
    hash_prefixes: frozenset[str]  # keys of its entries that stay stored
    newest: datetime | None
    etag: str | None
    last_modified: str | None
    body: bytes
    body_hash: str


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """One request and its response, as recorded by the host."""

    at: float  # monotonic seconds
    status: int
    version: int
    known: int | None  # the version that the client sent validators of


@dataclass
class GrowingFeed:
    """A feed, its versions, and the versions that clients claim to have stored."""

    name: str
    host: str
    tagged: bool = False  # sends an ETag
    stamped: bool = False  # sends Last-Modified
    dated: bool = False  # its entries have dates
    large: bool = False  # is parsed in a worker process
    digested: bool = False  # its posts become one article
    began: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(hours=6))
    versions: list[Version] = field(default_factory=list)
    history: list[ServedVersion] = field(default_factory=list)
    claimed: set[int] = field(default_factory=set)  # versions whose validators were sent back
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
        """Add entries and thereby a new version."""
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
        """Respond as a correct server does, and record it."""
        current, known = self.now, self._known(request)
        if known is not None:
            self.claimed.add(
                known
            )  # the client must have stored the version whose validators it sends
        status = 304 if known == current.number else 200
        self.history.append(ServedVersion(time.monotonic(), status, current.number, known))
        validators = {"ETag": current.etag, "Last-Modified": current.last_modified}
        return Reply(
            status,
            current.body if status == 200 else b"",
            "application/rss+xml",
            {name: value for name, value in validators.items() if value is not None},
        )

    def version_with(self, **signs: object) -> int | None:
        """The newest version with these validators; None if there is none."""
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
            hash_prefixes=frozenset(
                hash_prefix(content_hash(self.text(entry))) for entry in entries
            ),
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
    """Serve feeds at their hosts, each response after a delay, while the gate is open.

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
