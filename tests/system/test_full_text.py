"""Full text of pages, as their hosts observe it: spacing, blocks, and a kill midway (T4)."""

import asyncio
import itertools
import signal
from collections import Counter

import pytest

from headwater.demo.demo_web import Reply, Request
from headwater.source_settings import FullText
from tests.story_texts import TextGenerator
from tests.system.conftest import Headwater, rss_of_links, until, web_of

pytestmark = pytest.mark.system

PAGES = 6
DELAY = 1
TEASER = "The council approved the harbour bridge on Tuesday, said the mayor"
STORY = "Opponents had asked for a tunnel, which is three times as expensive. " * 8
BLOCK = "Sorry, you have been blocked. This site is protected by a security service. " * 8


def page(text: str) -> Reply:
    html = f"<html><title>News</title><body><article><p>{text}</p></article></body></html>"
    return Reply(200, html.encode(), "text/html; charset=utf-8")


async def test_t4_p3_s8_pages_are_read_once_with_pauses_and_a_kill_loses_none(
    headwater: Headwater,
) -> None:
    answered: Counter[str] = Counter()
    hangs = asyncio.Event()

    async def news(request: Request) -> Reply:
        number = int(request.path[1:])
        if not hangs.is_set() and len(answered) == PAGES // 2:
            hangs.set()
            await asyncio.Event().wait()  # until the service is killed
        answered[request.path] += 1
        return page(BLOCK if number == 0 else f"{TEASER} {number}. {STORY}")

    def feed(request: Request) -> Reply:
        links = {
            request.locate("news", f"/{number}"): f"{TEASER} {number}." for number in range(PAGES)
        }
        return Reply(200, rss_of_links(links), "application/rss+xml")

    def pending() -> int:
        return int(headwater.rows("SELECT count(*) FROM page_visits")[0][0])

    headwater.configure(source={"poll-delay-seconds": {"rss": DELAY}})
    async with web_of(feed=feed, news=news) as web:
        await headwater.add(web.url("feed"), full_text=FullText.ON)
        headwater.make_due()
        await headwater.start()
        await asyncio.wait_for(hangs.wait(), 60)
        await headwater.stop(signal.SIGKILL)
        assert pending() == PAGES - PAGES // 2
        await headwater.start()
        await until(lambda: pending() == 0)
        await headwater.stop()
        visits = web.visits_to("news")
    assert set(answered.values()) == {1}
    assert len(answered) == PAGES
    assert len(visits) == PAGES + 1  # the one that was killed
    assert len(web.visits_to("feed")) == 1
    ended = [visit for visit in visits if visit.ended is not None]
    gaps = [later.started - (one.ended or 0) for one, later in itertools.pairwise(ended)]
    assert min(gaps) >= DELAY, gaps
    sql = "SELECT url, text_from, page_text, full_text_error FROM posts"
    for url, text_from, text, error in headwater.rows(sql):
        if url.endswith("/0"):
            assert (text_from, text) == ("feed", None)
            assert "something else" in error
        else:
            assert (text_from, error) == ("page", None)
            assert STORY.strip() in text


async def test_i1_t4_a_teaser_joins_the_story_of_sources_with_the_full_text(
    headwater: Headwater,
) -> None:
    text = TextGenerator(1).text(120)

    def full(request: Request) -> Reply:
        link = request.locate("full", "/story")
        return Reply(200, rss_of_links({link: text}), "application/rss+xml")

    def teasers(request: Request) -> Reply:
        link = request.locate("news", "/story")
        return Reply(200, rss_of_links({link: text[:90]}), "application/rss+xml")

    def found() -> list[tuple[str, str | None]]:
        return [tuple(row) for row in headwater.rows("SELECT text_from, story_id FROM posts")]

    headwater.configure(source={"poll-delay-seconds": {"rss": DELAY}})
    async with web_of(full=full, teasers=teasers, news=lambda _: page(text)) as web:
        await headwater.add(web.url("full"))
        await headwater.add(web.url("teasers"), full_text=FullText.ON)
        headwater.make_due()
        await headwater.start()
        await until(lambda: len(found()) == 2 and all(story for _, story in found()))
        await headwater.stop()
    assert sorted(origin for origin, _ in found()) == ["feed", "page"]
    assert len({story for _, story in found()}) == 1
    await headwater.cli("aggregate")
    assert headwater.rows("SELECT count(*) FROM articles")[0][0] == 1
