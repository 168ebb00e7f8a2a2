"""Ratios of CPU times measured in alternating rounds of one run.

A ratio compares Headwater with a library that does similar work on the same machine at the same
time, so it does not depend on how fast or how busy the machine is.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import feedparser

from bench import feeds, simulation, tick
from bench.polled_site import Site, open_site
from bench.programs.headwater_polls import WholePath, whole_path
from bench.programs.request_loops import Aiohttp
from headwater.fetch.feed.feed_document import parse_feed

FEEDS = 200
_ROUNDS = 7
_FEW, _MANY = 1_000, 100_000
_URL = "http://a.example/"


def figures(folder: Path) -> dict[str, float]:
    """All ratios; smaller is better."""
    return {
        "parsing a feed to feedparser: ratio": parsing(),
        "finding due among 100,000 sources to among 1,000: growth": asyncio.run(due_lookup(folder)),
        **asyncio.run(polls(folder)),
        "simulating a poll to parsing with feedparser: ratio": simulated_poll(),
    }


def parsing() -> float:
    """CPU of our parser, text conversion included, to feedparser's."""
    document = _document()
    ours, theirs = list[float](), list[float]()
    for _ in range(_ROUNDS):
        ours.append(_cpu(lambda: parse_feed(document, url=_URL), 20))
        theirs.append(_cpu(lambda: feedparser.parse(document), 2))
    return min(ours) / min(theirs)


async def due_lookup(folder: Path) -> float:
    """Time to find the due sources among many, to the time among few."""
    few, _ = await tick.measure(_FEW, tick.DUE, _ROUNDS, folder)
    many, _ = await tick.measure(_MANY, tick.DUE, _ROUNDS, folder)
    return statistics.median(many) / statistics.median(few)


async def polls(folder: Path) -> dict[str, float]:
    """CPU of a poll, from the tick to the stored outcome, to one request with aiohttp.

    Polls with new entries are compared with feedparser reading the same document.
    """
    found = {}
    for kind, name in (("still", "304"), ("bytes", "same bytes"), ("new", "twenty new")):
        place = folder / f"ratio-{kind}"
        place.mkdir()
        with open_site(place, kind, FEEDS, own=True) as site:
            to = "feedparser" if kind == "new" else "an aiohttp request"
            found[f"polling, {name}, to {to}: ratio"] = await poll_ratio(site)
    return found


async def poll_ratio(site: Site) -> float:
    """CPU of one poll to that of its baseline, both the least of several rounds."""
    document, requests = _document(), Aiohttp(_config(site))
    ours, theirs = list[float](), list[float]()
    await requests.open()
    try:
        async with whole_path(site, slots=site.hosts) as path:
            for _ in range(_ROUNDS):
                ours.append(await _poll_cpu(path, site))
                if site.kind == "new":
                    theirs.append(_cpu(lambda: feedparser.parse(document), 2))
                else:
                    theirs.append(await _async_cpu(requests.run) / site.hosts)
    finally:
        await requests.close()
    return min(ours) / min(theirs)


def simulated_poll() -> float:
    """CPU of a poll in the simulator to feedparser reading one feed."""
    document = _document()
    theirs = min(_cpu(lambda: feedparser.parse(document), 2) for _ in range(_ROUNDS))
    return simulation.cpu_of_a_poll() / theirs


async def _poll_cpu(path: WholePath, site: Site) -> float:
    if site.kind == "new":
        site.publish()
    await path.prepare()
    return await _async_cpu(path.run) / site.hosts


async def _async_cpu(work: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await work()
    return time.process_time() - began


def _cpu(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def _config(site: Site) -> dict[str, object]:
    return {"kind": site.kind, "port": site.port, "scheme": site.scheme, "feeds": site.hosts}


def _document() -> bytes:
    return feeds.document(0, 0, datetime(2026, 1, 1, tzinfo=UTC))
