"""What a podcast maker does with Headwater, described once for every interface (E1, V4)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from headwater.demo.demo_web import Reply, Request
from tests.system.conftest import rss, until

EPISODE = "episode 1"
RIVER = {
    "Flood": "The river rose by two metres during the night, and the old bridge is closed.",
    "Fish": "Anglers count more salmon upstream than in any spring of the last decade.",
    "Boots": "Sponsored: these rubber boots keep your feet dry whatever the weather brings.",
}
COUNCIL = {
    "Budget": "The town council voted for a smaller budget after a debate of seven hours.",
    "School": "A second primary school opens in autumn near the railway station.",
}
SHOWN = {"Flood", "Fish", *COUNCIL}


@dataclass(frozen=True)
class Material:
    """An article as a podcast maker sees it."""

    id: str
    title: str
    score: float | None


class PodcastMaker(Protocol):
    """One interface of Headwater: the API, a client, a browser."""

    async def add_source(self, url: str, *, digest: bool) -> None:
        """Add a feed with its history; its posts become single articles or a digest."""

    async def titles(self) -> set[str]:
        """The titles of the posts that are not hidden."""

    async def search(self, query: str) -> set[str]:
        """The titles of the posts that match a query."""

    async def block(self, query: str) -> None:
        """Hide the posts that match a query."""

    async def aggregate(self) -> None:
        """Make articles of new posts."""

    async def unprocessed(self, min_score: float | None = None) -> list[Material]:
        """The articles that are in no episode yet."""

    async def set_score(self, article_id: str, score: float) -> None:
        """Rate an article."""

    async def mark(self, article_ids: list[str], batch: str) -> None:
        """Mark articles as processed in an episode."""

    async def undo(self, batch: str) -> None:
        """Take that back."""

    async def batches(self) -> dict[str, int]:
        """The number of articles by episode."""


def feeds(request: Request) -> Reply:
    """A host with two feeds, whose entries link to pages that are gone."""
    entries = {"/river": RIVER, "/council": COUNCIL}.get(request.path)
    if entries is None:
        return Reply(404)
    now = datetime.now(UTC)
    items = [
        (title, body, now - timedelta(minutes=number))
        for number, (title, body) in enumerate(entries.items())
    ]
    return Reply(200, rss(request.base_url.removeprefix("http://"), *items), "application/rss+xml")


async def make_an_episode(maker: PodcastMaker, url_of: Callable[[str], str]) -> None:
    """Add, wait, search, filter, aggregate, score, mark as `episode 1`, undo, mark again."""
    await maker.add_source(url_of("/river"), digest=False)
    await maker.add_source(url_of("/council"), digest=True)
    await eventually(maker.titles, {*RIVER, *COUNCIL})
    await eventually(lambda: maker.search("river OR school"), {"Flood", "School"})

    await maker.block("sponsored")
    await eventually(maker.titles, SHOWN)

    await maker.aggregate()
    material = {one.title: one for one in await maker.unprocessed()}
    assert {"Flood", "Fish"} < set(material)
    assert len(material) == 3  # and one digest

    await maker.set_score(material["Flood"].id, 0.9)
    (best,) = await maker.unprocessed(min_score=0.5)
    assert (best.title, best.score) == ("Flood", 0.9)

    await maker.mark([one.id for one in material.values()], EPISODE)
    assert await maker.unprocessed() == []
    assert await maker.batches() == {EPISODE: 3}

    await maker.undo(EPISODE)
    assert await maker.batches() == {}
    await maker.aggregate()  # the posts of the digest were freed
    again = {one.title: one for one in await maker.unprocessed()}
    assert set(again) == set(material)
    assert again["Flood"] == best  # the same article, with its score

    await maker.mark([one.id for one in again.values()], EPISODE)
    assert await maker.unprocessed() == []
    assert await maker.batches() == {EPISODE: 3}


async def eventually(read: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Wait until the interface shows what is expected."""
    shown: Any = None

    async def is_shown() -> bool:
        nonlocal shown
        shown = await read()
        return bool(shown == expected)

    try:
        await until(is_shown)
    except AssertionError as error:
        raise AssertionError(f"{shown} instead of {expected}") from error
