"""Ten users with one feed: the host gets one request for all of them (Y7)."""

import asyncio
import signal

import pytest

from headwater.app import open_app
from headwater.demo.demo_web import Reply, Request
from headwater.model import SourceType
from headwater.operations.sources import add_source
from headwater.operations.users_and_podcasts import add_podcast, add_user
from headwater.settings import load_settings
from tests.system.conftest import Headwater, get, rss_of_links, until, web_of

pytestmark = pytest.mark.system
USERS = 10


async def add_for_all(headwater: Headwater, url: str) -> None:
    """Add a feed to a podcast of each user."""
    async with open_app(load_settings(environ={}, cwd=headwater.folder)) as app:
        for number in range(USERS):
            now = app.clock.now()
            user = await add_user(app.store, f"user{number}", now)
            podcast = await add_podcast(app.store, user, f"podcast{number}", now)
            wanted = {"type": SourceType.RSS, "url": url, "poll_interval_minutes": 100_000}
            await add_source(app.store, podcast.id, wanted, now, most=100, allowed=True)


async def test_y7_ten_users_share_one_request_and_a_kill_midway_loses_nothing(
    headwater: Headwater,
) -> None:
    entries, hangs = 3, asyncio.Event()

    async def feed(request: Request) -> Reply:
        if entries == 5 and not hangs.is_set():
            hangs.set()
            await asyncio.Event().wait()  # until the service is killed
        etag = f'"{entries}"'
        if request.headers.get("if-none-match") == etag:
            return Reply(304, headers={"ETag": etag})
        links = {request.locate("host", f"/{n}"): f"Text {n}" for n in range(entries)}
        return Reply(200, rss_of_links(links), "application/rss+xml", {"ETag": etag})

    def posts() -> list[int]:
        sql = "SELECT count(*) FROM posts GROUP BY source_id"
        return [row[0] for row in headwater.rows(sql)]

    def polls() -> int:
        return int(headwater.rows("SELECT count(*) FROM polls")[0][0])

    async with web_of(host=feed) as web:
        await add_for_all(headwater, web.url("host"))
        headwater.make_due()
        await headwater.start()
        await until(lambda: posts() == [3] * USERS)
        assert len(web.visits) == 1
        headwater.make_due()
        await until(lambda: polls() == 2 * USERS)
        assert [visit.status for visit in web.visits] == [200, 304]
        entries = 5
        headwater.make_due()
        await asyncio.wait_for(hangs.wait(), 60)
        await headwater.stop(signal.SIGKILL)
        await headwater.start()
        await until(lambda: posts() == [5] * USERS)
        assert len(web.visits) == 4  # the one that was killed, and its repetition
        _, host = await get(headwater.port, f"/api/hosts/{web.address('host')}")
        await headwater.stop()
    assert host["sharedRequests"] == 3 * (USERS - 1)
    assert headwater.rows("SELECT count(*), sum(consecutive_failures) FROM sources") == [(10, 0)]
