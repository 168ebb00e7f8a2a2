"""Counts per poll: SQL statements, and memory blocks that are not freed."""

import gc
import sqlite3
import sys
from pathlib import Path
from typing import Any

from bench.polled_site import Site, open_site
from bench.programs.headwater_polls import WholePath, whole_path

FEEDS = 100
_SAMPLES, _POLLS_PER_SAMPLE = 5, 8


async def figures(folder: Path) -> dict[str, float]:
    """All counts, per poll."""
    found = {}
    for kind, name in (("still", "304"), ("bytes", "same bytes"), ("new", "twenty new")):
        place = folder / kind
        place.mkdir()
        with open_site(place, kind, FEEDS, own=True) as site:
            async with whole_path(site, slots=site.hosts) as path:
                found[f"polling, {name}: statements"] = await _statements(path, site)
                if kind != "new":
                    found[f"polling, {name}: blocks"] = await _blocks(path, site)
    return found


async def _statements(path: WholePath, site: Site) -> float:
    if site.kind == "new":
        site.publish()
    await path.prepare()
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
    """Memory blocks that a poll does not free once caches are full: the minimum of all samples."""
    taken, before = [], 0
    for _ in range(_SAMPLES):
        for _ in range(_POLLS_PER_SAMPLE):
            await path.prepare()
            await path.run()
        gc.collect()
        now = sys.getallocatedblocks()
        taken.append(now - before)
        before = now
    return max(min(taken), 0) / site.hosts / _POLLS_PER_SAMPLE
