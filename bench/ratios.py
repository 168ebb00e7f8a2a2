"""Ratios of times that were taken in turns: what should be far apart, or should not grow."""

import asyncio
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import feedparser

from bench import feeds, tick
from headwater.fetch.feed import parse_feed

_ROUNDS = 5
_FEW, _MANY = 1_000, 100_000
# far enough from what is measured on a quiet machine that a busy one passes
LIMITS = {
    "our parser to feedparser, time ratio": 0.125,
    "look-up among 100,000 sources to among 1,000, time ratio": 4.0,
}


def figures(folder: Path) -> dict[str, float]:
    """All ratios; the smaller the better."""
    parser, look_up = LIMITS
    return {parser: parsing(), look_up: asyncio.run(look_ups(folder))}


def parsing() -> float:
    """CPU of our parser, text included, as a share of feedparser's."""
    document = feeds.document(0, 0, datetime(2026, 1, 1, tzinfo=UTC))
    ours = [_cpu(lambda: parse_feed(document, url="http://a.example/"), 20)]
    theirs = [_cpu(lambda: feedparser.parse(document), 2)]
    for _ in range(_ROUNDS):
        ours.append(_cpu(lambda: parse_feed(document, url="http://a.example/"), 20))
        theirs.append(_cpu(lambda: feedparser.parse(document), 2))
    return min(ours) / min(theirs)


async def look_ups(folder: Path) -> float:
    """Time to find what is due among many, as a multiple of among few."""
    few, _ = await tick.measure(_FEW, tick.DUE, _ROUNDS, folder)
    many, _ = await tick.measure(_MANY, tick.DUE, _ROUNDS, folder)
    return statistics.median(many) / statistics.median(few)


def _cpu(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times
