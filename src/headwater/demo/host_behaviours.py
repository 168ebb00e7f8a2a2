"""Behaviours of simulated hosts: small sites that can wrap each other."""

import asyncio
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwater.demo import documents
from headwater.demo.demo_web import Reply, Request, Site, conditional

_FORMATS = {
    "rss": (documents.rss, documents.RSS_TYPE),
    "atom": (documents.atom, "application/atom+xml; charset=utf-8"),
    "json": (documents.json_feed, "application/feed+json; charset=utf-8"),
}


@dataclass
class GrowingFeed:
    """A feed that gains an entry every few seconds and replies 304 in between."""

    seed: str
    every_seconds: float = 30
    entries: int = 20
    sentences: int = 4
    kind: Literal["rss", "atom", "json"] = "rss"
    # the last document and what it was made for: a large one takes a while
    _cached: tuple[tuple[int, str], bytes] | None = field(default=None, init=False)

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        newest = documents.newest_number(request.clock.now(), self.every_seconds)
        write, content_type = _FORMATS[self.kind]
        base_url = request.base_url
        if self._cached is None or self._cached[0] != (newest, base_url):
            entries = documents.entries(
                self.seed,
                newest=newest,
                count=self.entries,
                every_seconds=self.every_seconds,
                base_url=base_url,
                sentences=self.sentences,
            )
            document = write(f"News of {self.seed}", f"{base_url}/", entries)
            self._cached = (newest, base_url), document
        reply = Reply(body=self._cached[1], content_type=content_type)
        modified_at = documents.moment_of(newest, self.every_seconds)
        return conditional(request, reply, modified_at=modified_at)


def changing_page(seed: str, *, every_seconds: float = 45) -> Site:
    """A page with another article every few seconds."""

    async def site(request: Request) -> Reply:
        edition = documents.newest_number(request.clock.now(), every_seconds)
        (entry,) = documents.entries(
            seed,
            newest=edition,
            count=1,
            every_seconds=every_seconds,
            base_url=request.base_url,
            sentences=12,
        )
        reply = Reply(body=documents.article_page(entry), content_type=documents.HTML_TYPE)
        modified_at = documents.moment_of(edition, every_seconds)
        return conditional(request, reply, modified_at=modified_at)

    return site


def ill_formed(feed: GrowingFeed) -> Site:
    """A feed with bare ampersands, a wrong end tag, and no end: readable up to there."""

    async def site(request: Request) -> Reply:
        whole = (await feed(request)).body
        broken = whole.replace(b" in ", b" & in ").replace(b"</channel></rss>", b"</chanel>")
        return Reply(body=broken, content_type=documents.RSS_TYPE)

    return site


def fixed(status: int, body: bytes = b"", content_type: str = "text/plain") -> Site:
    """The same reply to every request, such as an error or a document."""

    async def site(_: Request) -> Reply:
        return Reply(status=status, body=body, content_type=content_type)

    return site


def redirect(host: str, path: str = "/feed.xml", *, status: int = 302) -> Site:
    """Redirects every request to a path on another host of this web."""

    async def site(request: Request) -> Reply:
        return Reply(status=status, headers={"Location": request.locate(host, path)})

    return site


def paths(sites: Mapping[str, Site]) -> Site:
    """A site per path; 404 for the rest."""

    async def site(request: Request) -> Reply | None:
        found = sites.get(request.path)
        return await found(request) if found else Reply(status=404)

    return site


def many_feeds(users: Sequence[str], *, entries: int = 10) -> Site:
    """One host with a feed per user under `/<user>/rss`, like Nitter."""
    return paths(
        {
            f"/{user}/rss": GrowingFeed(user, every_seconds=60, entries=entries, sentences=2)
            for user in users
        }
    )


def slow(site: Site, *, seconds: float) -> Site:
    """Waits before every reply."""

    async def slowed(request: Request) -> Reply | None:
        await request.clock.sleep(seconds)
        return await site(request)

    return slowed


async def stuck(_: Request) -> Reply | None:
    """Accepts requests and never replies."""
    await asyncio.Event().wait()
    return None


@dataclass
class RateLimited:
    """Replies 429 with `Retry-After` to all but the first requests of every window."""

    site: Site
    requests: int
    window_seconds: float
    _window_ends: float = field(default=-math.inf, init=False)
    _count: int = field(default=0, init=False)

    async def __call__(self, request: Request) -> Reply | None:
        """Reply to one request."""
        now = request.clock.monotonic()
        if now >= self._window_ends:
            self._window_ends, self._count = now + self.window_seconds, 0
        self._count += 1
        if self._count <= self.requests:
            return await self.site(request)
        wait = math.ceil(self._window_ends - now)
        return Reply(status=429, headers={"Retry-After": str(wait)})


def flapping(site: Site) -> Site:
    """Fails every other request: with 500, then by closing the connection, in turn."""
    good = itertools.cycle([False, True])
    faults = itertools.cycle([Reply(status=500), None])

    async def flap(request: Request) -> Reply | None:
        return await site(request) if next(good) else next(faults)

    return flap
