"""A search for a lost feed, as its hosts observe it: few requests, and a kill midway (Y5)."""

import asyncio
import json
import signal

import pytest

from headwater.demo.demo_web import Reply, Request
from tests.system.conftest import Headwater, feed_site, rss_of_links, until, web_of

pytestmark = pytest.mark.system


async def test_y5_p3_s8_a_kill_during_a_search_loses_and_repeats_nothing(
    headwater: Headwater,
) -> None:
    is_lost, hangs = asyncio.Event(), asyncio.Event()

    def linking(path: str) -> Reply:
        head = f'<link rel="alternate" type="application/rss+xml" href="{path}">'
        return Reply(200, f"<html><head>{head}</head><body>Moved".encode(), "text/html")

    async def site(request: Request) -> Reply:
        if request.path == "/feed" and not is_lost.is_set():
            return feed_site()(request)
        if request.path == "/feed":
            return Reply(404)
        if request.path == "/":
            return linking(request.locate("other", "/new.xml"))
        return Reply(404)

    async def other(_: Request) -> Reply:
        if not hangs.is_set():
            hangs.set()
            await asyncio.Event().wait()  # until the service is killed
        return Reply(200, rss_of_links({"https://a.example/1": "One"}), "application/rss+xml")

    def searches() -> list[tuple[object, ...]]:
        return headwater.rows("SELECT not_before IS NULL, result FROM feed_searches")

    async with web_of(site=site, other=other) as web:
        id_ = await headwater.add(web.url("site", "/feed"))
        headwater.make_due()
        await headwater.start()
        await until(lambda: headwater.rows("SELECT 1 FROM sources WHERE first_poll_done"))
        is_lost.set()
        web.visits.clear()
        headwater.make_due()
        await asyncio.wait_for(hangs.wait(), 60)
        await headwater.stop(signal.SIGKILL)
        assert searches() == [(0, None)]
        await headwater.start()
        await until(lambda: searches()[0][0])
        await headwater.stop()
        assert [visit.path for visit in web.visits_to("site")] == ["/feed", "/feed", "/"]
        assert len(web.visits_to("other")) == 2  # one was killed before its response
        url = web.url("other", "/new.xml")
    found = headwater.rows("SELECT kind, state, detail FROM suggestions WHERE source_id = ?", id_)
    assert [(kind, state, json.loads(detail)["url"]) for kind, state, detail in found] == [
        ("feed", "open", url)
    ]
    assert "found 1 feed" in str(searches()[0][1])
