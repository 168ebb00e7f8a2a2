"""Counts what a poll does: calls of functions, SQL statements, memory blocks that stay."""

import gc
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench import feeds
from bench.calls import Calls
from bench.sites import Site, open_site
from bench.subjects.ours import WholePath
from headwater.engine import metrics
from headwater.fetch.feed import parse_feed

FEEDS = 100
_ROUNDS = 6
_STRETCHES, _STRETCH = 5, 8


async def figures(folder: Path) -> dict[str, float]:
    """All counts, per poll or per entry."""
    found = {"parsing, an entry: calls": parsing_calls()}
    for kind, name in (("still", "304"), ("bytes", "same bytes"), ("new", "twenty new")):
        place = folder / kind
        place.mkdir()
        with open_site(place, kind, FEEDS, own=True) as site:
            found |= {f"{name}, {what}": n for what, n in (await counts(site)).items()}
    return found


async def counts(site: Site) -> dict[str, float]:
    """Calls of polls that go one by one; statements and blocks of polls as they come."""
    found = {}
    found["one by one: calls"] = await calls_of_a_poll(site)
    async with whole_path(site, slots=site.hosts) as path:
        found["together: statements"] = await _statements(path, site)
        if site.kind != "new":
            found["together: blocks"] = await _blocks(path, site)
    return found


async def calls_of_a_poll(site: Site, rounds: int = _ROUNDS) -> float:
    """The fewest of some rounds: what else goes on only ever adds to it.

    Looks at the event loop are left out: they go by time, and a busy machine takes its time.
    """
    with Calls() as calls, patch.object(metrics, "_LOOK_SECONDS", 60.0):
        async with whole_path(site, slots=1) as path:
            return min([await _calls(calls, path, site) for _ in range(rounds)])


@asynccontextmanager
async def whole_path(site: Site, slots: int) -> AsyncIterator[WholePath]:
    """Our whole path in this process, every source polled once already."""
    path = WholePath(
        {
            "database": f"sqlite:///{site.folder / f'{slots}.db'}",
            "kind": site.kind,
            "port": site.port,
            "scheme": site.scheme,
            "feeds": site.hosts,
            "slots": slots,
        }
    )
    await path.open()
    try:
        await path.run()
        yield path
    finally:
        await path.close()
    assert site.server.answers(0)


async def _calls(calls: Calls, path: WholePath, site: Site) -> float:
    await _renew(path, site)
    with calls.counted() as found:
        await path.run()
    return found[0] / site.hosts


async def _statements(path: WholePath, site: Site) -> float:
    await _renew(path, site)
    count = 0

    def note(_: str) -> None:
        nonlocal count
        count += 1

    database: Any = path.app.store.database
    connections: list[sqlite3.Connection] = [s.connection for s in database._sessions]
    for connection in connections:
        connection.set_trace_callback(note)
    await path.run()
    for connection in connections:
        connection.set_trace_callback(None)
    return count / site.hosts


async def _blocks(path: WholePath, site: Site) -> float:
    """Memory blocks that a poll leaves behind, once caches are full: a leak never pauses."""
    taken, before = [], 0
    for _ in range(_STRETCHES):
        for _ in range(_STRETCH):
            await path.prepare()
            await path.run()
        gc.collect()
        now = sys.getallocatedblocks()
        taken.append(now - before)
        before = now
    return max(min(taken), 0) / site.hosts / _STRETCH


async def _renew(path: WholePath, site: Site) -> None:
    if site.kind == "new":
        site.publish()
    await path.prepare()


def parsing_calls() -> float:
    """Calls per entry of a feed."""
    document = feeds.document(0, 0, datetime(2026, 1, 1, tzinfo=UTC))
    parse_feed(document, url="http://a.example/")
    with Calls() as calls, calls.counted() as found:
        feed = parse_feed(document, url="http://a.example/")
    assert len(feed.entries) == feeds.ENTRIES
    return found[0] / feeds.ENTRIES
