"""How simulated hosts behave: small sites that can be put around each other."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from headwater.demo import pages
from headwater.demo.exchange import Reply, Request, Site, conditional
from headwater.model import Entry


class FeedFormat(StrEnum):
    """The formats an invented feed can have."""

    RSS = "rss"
    ATOM = "atom"
    JSON = "json"


_Writer = Callable[[str, str, Sequence[Entry]], bytes]
_FORMATS: Mapping[FeedFormat, tuple[_Writer, str]] = {
    FeedFormat.RSS: (pages.rss, pages.RSS_TYPE),
    FeedFormat.ATOM: (pages.atom, pages.ATOM_TYPE),
    FeedFormat.JSON: (pages.json_feed, pages.JSON_FEED_TYPE),
}


class GrowingFeed:
    """A feed that gains an entry every so many seconds and answers 304 in between."""

    def __init__(
        self,
        seed: str,
        *,
        every_seconds: float = 30,
        entries: int = 20,
        sentences: int = 4,
        kind: FeedFormat = FeedFormat.RSS,
    ) -> None:
        self._seed = seed
        self._every_seconds = every_seconds
        self._entries = entries
        self._sentences = sentences
        self._write, self._content_type = _FORMATS[kind]
        self._written: tuple[tuple[int, str], bytes] | None = None  # large ones take a while

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        newest = pages.newest_number(request.clock.now(), self._every_seconds)
        reply = Reply(
            body=self._document(newest, request.base_url), content_type=self._content_type
        )
        modified_at = pages.moment_of(newest, self._every_seconds)
        return conditional(request, reply, modified_at=modified_at)

    def _document(self, newest: int, base_url: str) -> bytes:
        if self._written is None or self._written[0] != (newest, base_url):
            entries = pages.entries(
                self._seed,
                newest=newest,
                count=self._entries,
                every_seconds=self._every_seconds,
                base_url=base_url,
                sentences=self._sentences,
            )
            document = self._write(f"News of {self._seed}", f"{base_url}/", entries)
            self._written = (newest, base_url), document
        return self._written[1]


class ManyFeeds:
    """One host with a feed per user under `/<user>/rss`, as Nitter has them."""

    def __init__(self, users: Sequence[str], *, every_seconds: float = 60, entries: int = 10):
        self._feeds = {
            f"/{user}/rss": GrowingFeed(
                user, every_seconds=every_seconds, entries=entries, sentences=2
            )
            for user in users
        }

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        feed = self._feeds.get(request.path)
        return await feed(request) if feed else Reply(status=404)


class ChangingPage:
    """A page whose article is another one every so many seconds."""

    def __init__(self, seed: str, *, every_seconds: float = 45, sentences: int = 12) -> None:
        self._seed = seed
        self._every_seconds = every_seconds
        self._sentences = sentences

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        edition = pages.newest_number(request.clock.now(), self._every_seconds)
        (entry,) = pages.entries(
            self._seed,
            newest=edition,
            count=1,
            every_seconds=self._every_seconds,
            base_url=request.base_url,
            sentences=self._sentences,
        )
        reply = Reply(body=pages.article_page(entry), content_type=pages.HTML_TYPE)
        modified_at = pages.moment_of(edition, self._every_seconds)
        return conditional(request, reply, modified_at=modified_at)


class IllFormedFeed:
    """A feed with bare ampersands, a wrong end tag, and no end: readable up to there."""

    def __init__(self, feed: GrowingFeed) -> None:
        self._feed = feed

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        whole = (await self._feed(request)).body
        broken = whole.replace(b" in ", b" & in ").replace(b"</channel></rss>", b"</chanel>")
        return Reply(body=broken, content_type=pages.RSS_TYPE)


class Fixed:
    """The same reply to everything: gone, missing, forbidden, or any document."""

    def __init__(self, status: int, body: bytes = b"", content_type: str = "text/plain") -> None:
        self._reply = Reply(status=status, body=body, content_type=content_type)

    async def __call__(self, _: Request) -> Reply:
        """Reply to one request."""
        return self._reply


class Redirect:
    """Sends everybody to a path on another host of this web."""

    def __init__(self, host: str, path: str = "/feed.xml", *, status: int = 302) -> None:
        self._host = host
        self._path = path
        self._status = status

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        location = request.locate(self._host, self._path)
        return Reply(status=self._status, headers={"Location": location})


class Paths:
    """A site per path; 404 for the rest."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = dict(sites)

    async def __call__(self, request: Request) -> Reply | None:
        """Reply to one request."""
        site = self._sites.get(request.path)
        return await site(request) if site else Reply(status=404)


class Slow:
    """Takes its time before every reply."""

    def __init__(self, site: Site, *, seconds: float) -> None:
        self._site = site
        self._seconds = seconds

    async def __call__(self, request: Request) -> Reply | None:
        """Reply to one request."""
        await request.clock.sleep(self._seconds)
        return await self._site(request)


class Stuck:
    """Takes the request and never replies."""

    async def __call__(self, _: Request) -> Reply | None:
        """Reply to one request."""
        await asyncio.Event().wait()
        return None


class RateLimited:
    """Answers 429 with `Retry-After` to all but the first requests of every window."""

    def __init__(
        self,
        site: Site,
        *,
        requests: int,
        window_seconds: float,
        retry_after_seconds: int | None = None,
    ) -> None:
        self._site = site
        self._requests = requests
        self._window_seconds = window_seconds
        self._retry_after_seconds = retry_after_seconds  # None: the rest of the window
        self._window_ends = -math.inf
        self._count = 0

    async def __call__(self, request: Request) -> Reply | None:
        """Reply to one request."""
        now = request.clock.monotonic()
        if now >= self._window_ends:
            self._window_ends, self._count = now + self._window_seconds, 0
        self._count += 1
        if self._count <= self._requests:
            return await self._site(request)
        wait = self._retry_after_seconds
        wait = math.ceil(self._window_ends - now) if wait is None else wait
        return Reply(status=429, headers={"Retry-After": str(wait)})


class Flapping:
    """Fails every other request, by each fault in turn; no reply at all is one of them."""

    def __init__(
        self, site: Site, *, faults: Sequence[Reply | None] = (Reply(status=500), None)
    ) -> None:
        self._site = site
        self._faults = faults
        self._count = 0

    async def __call__(self, request: Request) -> Reply | None:
        """Reply to one request."""
        turn, is_good = divmod(self._count, 2)
        self._count += 1
        if is_good:
            return await self._site(request)
        return self._faults[turn % len(self._faults)]
