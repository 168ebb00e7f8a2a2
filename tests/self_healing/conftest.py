"""A service on a real database and a scripted web, with a clock that tests set forward."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.app import App, open_app
from headwater.clock import SystemClock
from headwater.demo.demo_web import Reply, Request
from headwater.engine.local_service import LocalService
from headwater.model import Outcome, Post, Source, SourceType
from headwater.operations.source_views import SourceView, view_of
from headwater.operations.sources import add_source
from headwater.settings import load_settings
from tests.store.conftest import kind, new_postgres, new_sqlite, new_url, sqlite_template, url

# fixtures, created when a test requests them
__all__ = ["kind", "new_postgres", "new_sqlite", "new_url", "sqlite_template", "url"]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
Script = Callable[[Request], Reply]


class ForwardClock(SystemClock):
    """The machine's clock, set forward by a test."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self._ahead

    def forward(self, length: timedelta) -> None:
        self._ahead += length


@dataclass
class RunningService:
    """A service whose sources are polled when a test says so."""

    app: App
    service: LocalService
    clock: ForwardClock

    async def add(self, address: str, type_: SourceType = SourceType.RSS, **settings: Any) -> str:
        """Add a source that is due on request only, and return its id."""
        wanted = {"type": type_, "url": address, "poll_interval_minutes": 500_000} | settings
        source = await add_source(
            self.app.store, "default", wanted, self.clock.now(), most=1000, allowed=True
        )
        return source.id

    async def poll(self, source_id: str, *, after: timedelta = timedelta()) -> Outcome:
        self.clock.forward(after)
        outcome = await self.service.poll_now(source_id)
        assert outcome is not None
        return outcome

    async def tick(self, *, after: timedelta = timedelta()) -> None:
        """Run ticks until nothing is due any more."""
        self.clock.forward(after)
        while True:
            taken = await self.service.ticker.tick()
            while self.service.lanes.names():
                await asyncio.sleep(0.01)
            if not taken:
                return

    async def source(self, source_id: str) -> Source:
        return await self.app.store.sources.get(source_id)

    async def view(self, source_id: str) -> SourceView:
        return await view_of(self.app.store, source_id, self.clock.now(), self.app.policy)

    async def posts(self) -> list[Post]:
        return list((await self.app.store.posts.page(podcast_id="default", limit=100)).items)


@asynccontextmanager
async def running(url: str, **source_settings: Any) -> AsyncIterator[RunningService]:
    """A service with these settings of `app.source`; its loops do not run."""
    options = {
        "app.database-url": url,
        "app.fetch.allow-private-networks": True,
        **{f"app.source.{name.replace('_', '-')}": v for name, v in source_settings.items()},
    }
    clock = ForwardClock()
    settings = load_settings(options=options, environ={})
    async with open_app(settings, clock=clock) as app, app.service() as service:
        yield RunningService(app, service, clock)


def feed(*names: str, at: datetime, title: str = "River News", apart: timedelta = HOUR) -> bytes:
    """A feed of entries, the newest first."""
    items = "".join(
        f"<item><title>{name}</title><guid>{name}</guid><link>http://news.invalid/{name}</link>"
        f"<description>Body of {name}</description>"
        f"<pubDate>{at - number * apart:%a, %d %b %Y %H:%M:%S +0000}</pubDate></item>"
        for number, name in enumerate(names)
    )
    return f'<rss version="2.0"><channel><title>{title}</title>{items}</channel></rss>'.encode()


def rss(body: bytes) -> Reply:
    return Reply(200, body, "application/rss+xml")


def html(text: str, *, head: str = "", status: int = 200) -> Reply:
    page = f"<html><head><title>Page</title>{head}</head><body><article><p>{text}</p></article>"
    return Reply(status, f"{page}</body></html>".encode(), "text/html; charset=utf-8")


def link_to(address: str, title: str = "Feed") -> str:
    return f'<link rel="alternate" type="application/rss+xml" title="{title}" href="{address}">'


def redirect(status: int, to: str) -> Reply:
    return Reply(status, headers={"Location": to})
