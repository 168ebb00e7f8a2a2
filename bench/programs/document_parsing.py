"""Parsing documents without a network: parse + text + insert, and parsing alone."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import feedparser
import uvloop

from bench import feeds
from bench.programs.driver import Counts, MeasuredProgram, serve
from headwater.app import App, open_app
from headwater.fetch.feed.feed_document import parse_feed
from headwater.model import Post, Source, SourceType
from headwater.rules.admission import content_hash, timed_id
from headwater.settings import load_settings
from headwater.store.database import Session
from headwater.store.row_mapping import row_of_post

_FEEDS_PER_COMMIT = 50


class Reading:
    """Documents in memory, new ones for every round."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._documents: list[bytes] = []
        self._began = datetime.now(UTC)
        self._generation = 0
        self._entries = 0

    async def open(self) -> None: ...

    async def prepare(self) -> None:
        self._documents = [
            feeds.document(index, self._generation, self._began)
            for index in range(self._config["feeds"])
        ]
        self._generation += 1

    async def run(self) -> int:
        raise NotImplementedError

    async def counts(self) -> Counts:
        return {"entries": self._entries}

    async def close(self) -> None: ...


class Ours(Reading):
    """Our parser, including text conversion."""

    async def run(self) -> int:
        for document in self._documents:
            feed = parse_feed(document, content_type="application/rss+xml", url="http://a.example/")
            self._entries += len(feed.entries)
        return len(self._documents)


class Feedparser(Reading):
    """feedparser, which keeps HTML unchanged."""

    async def run(self) -> int:
        for document in self._documents:
            self._entries += len(feedparser.parse(document).entries)
        return len(self._documents)


class Inserting(Reading):
    """Parse, convert and insert, in transactions as large as the service's."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._open = AsyncExitStack()
        self._app: App

    async def open(self) -> None:
        settings = load_settings(options={"app.database-url": self._config["database"]}, environ={})
        self._app = await self._open.enter_async_context(open_app(settings))
        sources = [
            Source(
                id=f"source-{index}",
                podcast_id="default",
                type=SourceType.RSS,
                url=f"http://{feeds.address(index)}/",
                created_at=self._began - timedelta(days=3),
                host=feeds.address(index),
            )
            for index in range(self._config["feeds"])
        ]
        await self._app.store.sources.add_many(sources)

    async def run(self) -> int:
        for first in range(0, len(self._documents), _FEEDS_PER_COMMIT):
            rows = []
            for index in range(first, min(first + _FEEDS_PER_COMMIT, len(self._documents))):
                rows += _rows(f"source-{index}", self._documents[index], self._began)
            self._entries += len(rows)
            await self._app.store.database.write(partial(_insert, rows))
        return len(self._documents)

    async def counts(self) -> Counts:
        return {"entries": self._entries, "posts": await self._app.store.posts.count()}

    async def close(self) -> None:
        await self._open.aclose()


def _rows(source_id: str, document: bytes, now: datetime) -> list[dict[str, Any]]:
    rows = []
    feed = parse_feed(document, content_type="application/rss+xml", url="http://a.example/")
    for entry in feed.entries:
        digest = content_hash(entry.body)
        post = Post(
            id=timed_id(now, source_id, digest),
            source_id=source_id,
            title=entry.title,
            body=entry.body,
            url=entry.url or "",
            published_at=entry.published_at,
            author=entry.author,
            content_hash=digest,
            created_at=now,
        )
        rows.append(row_of_post(post) | {"podcast_id": "default"})
    return rows


def _insert(rows: list[dict[str, Any]], session: Session) -> None:
    session.insert_rows("posts", rows, "ON CONFLICT (source_id, content_hash) DO NOTHING")


_PROGRAMS: Mapping[str, Callable[[dict[str, Any]], MeasuredProgram]] = {
    "parse": Ours,
    "feedparser": Feedparser,
    "insert": Inserting,
}


if __name__ == "__main__":
    serve(lambda config: _PROGRAMS[config["program"]](config), uvloop.new_event_loop)
    sys.exit(0)
