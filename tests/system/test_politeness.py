"""What a host observes: spacing, one request at a time, holds, conditional requests."""

import asyncio
import itertools
import signal
from datetime import UTC, datetime

import pytest

from headwater.demo.demo_web import DemoWeb, Reply, Request
from tests.system.conftest import Headwater, feed_site, rss, until, web_of

pytestmark = pytest.mark.system


def gaps(web: DemoWeb, host: str) -> list[float]:
    """Seconds from the end of each visit to the start of the next."""
    visits = [v for v in web.visits_to(host) if v.ended is not None]
    return [b.started - (a.ended or 0) for a, b in itertools.pairwise(visits)]


def recorded(headwater: Headwater) -> int:
    """How many polls are finished and stored."""
    return int(headwater.rows("SELECT count(*) FROM polls")[0][0])


def overlaps(web: DemoWeb, host: str) -> int:
    return sum(gap < 0 for gap in gaps(web, host))


async def test_p2_p3_no_gap_is_shorter_than_the_delay_over_ticks_and_manual_polls(
    headwater: Headwater,
) -> None:
    delay = 1
    async with web_of(polite=feed_site()) as web:
        for n in range(3):
            await headwater.add(web.url("polite", f"/feed{n}"), poll_delay_seconds=delay)
        await headwater.start()
        # manual polls beside the scheduler
        await headwater.cli("poll", "--all")
        await until(lambda: recorded(headwater) >= 3)
        # a later tick
        headwater.make_due()
        await until(lambda: recorded(headwater) >= 6)
        await headwater.stop()
    measured = gaps(web, "polite")
    assert len(measured) >= 5
    assert min(measured) >= delay, measured


async def test_p3_the_delay_survives_a_clean_restart_and_a_kill(headwater: Headwater) -> None:
    async def polite(request: Request) -> Reply:
        if len(web.visits_to("polite")) == 2:
            await asyncio.Event().wait()  # until we are killed
        return feed_site()(request)

    async def run_past_a_tick() -> None:
        """Start, and wait until everything that may be polled at once has been."""
        done = recorded(headwater)
        headwater.change("UPDATE sources SET requested_at = 1 WHERE id = ?", other)
        await headwater.start()
        await until(lambda: recorded(headwater) > done)

    hour = 3600  # far longer than a start takes: a lane that forgot its delay would poll too early
    async with web_of(polite=polite, other=feed_site()) as web:
        for n in range(2):
            await headwater.add(web.url("polite", f"/{n}"), poll_delay_seconds=hour)
        headwater.change("UPDATE sources SET requested_at = 1")
        other = await headwater.add(web.url("other"), poll_interval_minutes=100_000)
        await headwater.start()
        await until(lambda: recorded(headwater) == 1)
        assert await headwater.stop(signal.SIGTERM) == 0
        await run_past_a_tick()
        assert await headwater.stop(signal.SIGTERM) == 0
        assert len(web.visits_to("polite")) == 1
        # the hour passes
        headwater.change(
            "UPDATE hosts SET next_allowed_at = next_allowed_at - ?1,"
            " next_allowed_set_at = next_allowed_set_at - ?1",
            hour * 1000,
        )
        await headwater.start()
        await until(lambda: len(web.visits_to("polite")) == 2)
        await headwater.stop(signal.SIGKILL)  # this visit is not recorded
        await run_past_a_tick()
        assert await headwater.stop(signal.SIGTERM) == 0
        assert len(web.visits_to("polite")) == 2
    assert headwater.rows("SELECT count(*) FROM sources WHERE requested_at IS NOT NULL") == [(1,)]


async def test_p1_s6_hosts_run_in_parallel_and_a_stuck_one_delays_no_other(
    headwater: Headwater,
) -> None:
    arrived = asyncio.Event()

    async def meet(request: Request) -> Reply:
        """Respond only once both hosts are requested."""
        waiting.append(request.base_url)
        if len(set(waiting)) == 2:
            arrived.set()
        await arrived.wait()
        return feed_site()(request)

    async def stuck(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    waiting: list[str] = []
    async with web_of(one=meet, two=meet, stuck=stuck) as web:
        for host in ("stuck", "one", "two"):
            await headwater.add(web.url(host))
        headwater.change("UPDATE sources SET requested_at = 1")
        await headwater.start()
        await until(lambda: len(headwater.rows("SELECT 1 FROM posts")) == 2)
        # later ticks neither wait for the stuck lane nor request it twice
        headwater.change("UPDATE sources SET requested_at = 1 WHERE last_success_at IS NOT NULL")
        await until(lambda: len(web.visits_to("one")) == 2)
        assert len(web.visits_to("stuck")) == 1
        await headwater.stop(signal.SIGKILL)


async def test_p1_requests_to_one_host_never_overlap(headwater: Headwater) -> None:
    async def slow(request: Request) -> Reply:
        await asyncio.sleep(0.05)
        return feed_site()(request)

    async with web_of(host=slow) as web:
        for n in range(10):
            await headwater.add(web.url("host", f"/feed{n}"))
        await headwater.start()
        await headwater.cli("poll", "--all")
        await headwater.cli("poll", "--all")
        await headwater.stop()
    assert len(web.visits) >= 20
    assert overlaps(web, "host") == 0


async def test_p3_a_redirect_to_another_host_waits_for_access(headwater: Headwater) -> None:
    async def slow(request: Request) -> Reply:
        await asyncio.sleep(0.3)
        return feed_site()(request)

    def away(request: Request) -> Reply:
        return Reply(302, headers={"Location": request.locate("target", request.path)})

    async with web_of(target=slow, a=away, b=away) as web:
        for host in ("target", "a", "b"):
            await headwater.add(web.url(host, f"/{host}"))
        headwater.change("UPDATE sources SET requested_at = 1")
        await headwater.start()
        await until(lambda: len(headwater.rows("SELECT 1 FROM posts")) == 3)
        redirected = headwater.rows("SELECT count(*) FROM polls WHERE redirected_to IS NOT NULL")
        await headwater.stop()
    assert redirected == [(2,)]
    assert overlaps(web, "target") == 0


async def test_p8_requests_are_conditional_and_304_stores_nothing(headwater: Headwater) -> None:
    async with web_of(host=feed_site(etag=True)) as web:
        source = await headwater.add(web.url("host"))
        await headwater.start()
        first = await headwater.json("poll", "--source", source)
        second = await headwater.json("poll", "--source", source)
        await headwater.stop()
    assert [v.headers.get("if-none-match") for v in web.visits] == [None, '"v1"']
    assert web.visits[0].headers["user-agent"].startswith("Headwater/")
    assert "+http" in web.visits[0].headers["user-agent"]
    assert {"gzip", "deflate", "br", "zstd"} <= set(
        web.visits[0].headers["accept-encoding"].replace(" ", "").split(",")
    )
    assert first[0]["newPosts"] == 1
    assert second[0]["outcome"] == "unchanged"
    assert second[0]["status"] == 304


async def test_p9_p10_retry_after_holds_the_lane_over_a_restart(headwater: Headwater) -> None:
    def limited(request: Request) -> Reply:
        return Reply(429, headers={"Retry-After": "3600"})

    async with web_of(limited=limited, other=feed_site()) as web:
        first = await headwater.add(web.url("limited", "/one"))
        second = await headwater.add(web.url("limited", "/two"))
        await headwater.start()
        await headwater.cli("poll", "--source", first, code=1)
        answer = await headwater.json("poll", "--source", second, code=1)
        assert "on hold until" in answer[0]["error"]
        await headwater.cli("preview", web.url("limited", "/three"), code=1)
        await headwater.stop(signal.SIGKILL)
        await headwater.start()
        headwater.change("UPDATE sources SET last_polled = 1 WHERE id = ?", second)
        other = await headwater.add(web.url("other"))
        await headwater.cli("poll", "--source", other)
        await headwater.stop()
    assert len(web.visits_to("limited")) == 1
    held = headwater.rows(
        "SELECT consecutive_failures, last_polled FROM sources WHERE id = ?", second
    )
    assert held == [(0, 1)]


async def test_p6_p7_jitter_survives_a_restart_and_is_no_poll(headwater: Headwater) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)

    def history(request: Request) -> Reply:
        return Reply(200, rss("demo", ("old", "Old body", old)), "application/rss+xml")

    async with web_of(host=history) as web:
        for n in range(20):
            await headwater.add(web.url("host", f"/{n}"), poll_interval_minutes=100_000)
        await headwater.start()
        drawn_sql = "SELECT id, last_polled FROM sources WHERE last_polled IS NOT NULL ORDER BY id"
        await until(lambda: len(headwater.rows(drawn_sql)) == 20)
        drawn = headwater.rows(drawn_sql)
        assert len({moment for _, moment in drawn}) == 20
        await headwater.stop(signal.SIGKILL)
        await headwater.start()
        polled = await headwater.json("poll", "--source", drawn[0][0])
        again = dict(headwater.rows(drawn_sql))
        await headwater.stop()
    assert all(again[id_] == moment for id_, moment in drawn[1:])
    # the synthetic last_polled did not make it a later poll: the old entry is skipped
    skipped = polled[0]["skipped"]
    assert skipped["tooOld"] + skipped["beforeCreation"] == 1
    assert headwater.rows("SELECT count(*) FROM posts") == [(0,)]
