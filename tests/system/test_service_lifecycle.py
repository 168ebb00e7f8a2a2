"""Lifecycle of a service: failures, cleanup, signals, kills, and a second process."""

import asyncio
import signal
import time

import pytest

from headwater.demo.demo_web import Reply, Request
from tests.system.conftest import Headwater, feed_site, get, rss, until, web_of

pytestmark = pytest.mark.system


async def test_f3_five_404s_disable_with_a_readable_reason(headwater: Headwater) -> None:
    async with web_of(gone=lambda _: Reply(404), other=feed_site()) as web:
        source = await headwater.add(web.url("gone"))
        await headwater.start()
        for _ in range(5):
            await headwater.cli("poll", "--source", source, code=1)
        shown = await headwater.json("show", source)
        # the tick that polls another source does not affect this one
        await headwater.add(web.url("other"))
        headwater.change("UPDATE sources SET last_polled = 1")
        await until(lambda: headwater.rows("SELECT 1 FROM posts"))
        await headwater.stop()
    assert shown["enabled"] is False
    assert shown["disabledReason"] == "Auto-disabled after 5 consecutive 404 errors"
    assert shown["health"] == "disabled"
    assert "[Polling] disabled" in headwater.log
    assert headwater.rows("SELECT count(*) FROM polls WHERE source_id = ?", source) == [(5,)]
    assert len(web.visits_to("gone")) <= 5 + 2  # a search for the lost feed (Y5)


async def test_f1_a_response_that_is_no_feed_is_reported_with_its_status_and_size(
    headwater: Headwater,
) -> None:
    page = b"<!doctype html><title>A page</title><p>No feed</p>"
    hosts = {"page": Reply(200, page, "text/html"), "gone": Reply(410, b"Gone for good")}
    async with web_of(**{name: lambda _, r=reply: r for name, reply in hosts.items()}) as web:
        for name in hosts:
            await headwater.add(web.url(name))
        await headwater.cli("poll", "--all", code=1)
    reported = headwater.rows("SELECT status, bytes, error FROM polls ORDER BY status")
    assert [row[:2] for row in reported] == [(200, len(page)), (410, len(hosts["gone"].body))]
    assert "HTML page, not a feed" in reported[0][2]


async def test_sources_that_match_a_url_are_listed(headwater: Headwater) -> None:
    added = [await headwater.add("http://twice.example/feed") for _ in range(2)]
    refused = await headwater.cli("show", "http://twice.example/feed", code=2)
    assert all(source in refused for source in added)


async def test_f5_re_enabling_clears_the_failures_and_polls_at_once(headwater: Headwater) -> None:
    async with web_of(host=feed_site()) as web:
        source = await headwater.add(web.url("host"))
        headwater.change(
            "UPDATE sources SET enabled = 0, disabled_reason = 'x', consecutive_failures = 5,"
            " permanent_failures = 5, last_polled = 1"
        )
        await headwater.start()
        await headwater.cli("enable", source)
        await until(lambda: headwater.rows("SELECT 1 FROM posts"))
        shown = await headwater.json("show", source)
        await headwater.stop()
    assert shown["enabled"] is True
    assert (shown["consecutiveFailures"], shown["disabledReason"]) == (0, None)


async def test_c2_d1_cleaned_up_posts_are_not_stored_again(headwater: Headwater) -> None:
    def undated(_: Request) -> Reply:
        return Reply(200, rss("demo", ("a", "Same old body", None)), "application/rss+xml")

    async with web_of(host=undated) as web:
        source = await headwater.add(web.url("host"))
        await headwater.start()
        await headwater.cli("poll", "--source", source)
        assert headwater.rows("SELECT count(*) FROM posts") == [(1,)]
        headwater.change("UPDATE posts SET created_at = created_at - 8 * 86400000")
        await until(lambda: headwater.rows("SELECT count(*) FROM posts") == [(0,)])
        headwater.change("UPDATE sources SET body_hash = NULL")
        polled = await headwater.json("poll", "--source", source)
        await headwater.stop()
    assert polled[0]["skipped"]["duplicate"] == 1
    assert headwater.rows("SELECT count(*) FROM posts") == [(0,)]


async def test_s8_k4_sigterm_lets_a_running_poll_finish_and_stores_it(headwater: Headwater) -> None:
    async def slow(request: Request) -> Reply:
        asked.set()
        await asyncio.sleep(1)
        return feed_site()(request)

    asked = asyncio.Event()
    headwater.configure(shutdown_seconds=50)
    async with web_of(host=slow) as web:
        await headwater.add(web.url("host"))
        headwater.change("UPDATE sources SET requested_at = 1")
        await headwater.start()
        await asked.wait()
        assert await headwater.stop(signal.SIGTERM) == 0
    assert headwater.rows("SELECT count(*) FROM posts") == [(1,)]
    assert headwater.rows("SELECT requested_at FROM sources") == [(None,)]


async def test_k4_a_poll_that_does_not_end_is_cut_off_and_a_second_signal_ends_at_once(
    headwater: Headwater,
) -> None:
    async def stuck(_: Request) -> Reply:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    asked = asyncio.Event()
    headwater.configure(shutdown_seconds=1)
    async with web_of(host=stuck) as web:
        await headwater.add(web.url("host"))
        headwater.change("UPDATE sources SET requested_at = 1")
        await headwater.start()
        await asked.wait()
        assert await headwater.stop(signal.SIGTERM) == 0
        assert headwater.rows("SELECT requested_at IS NOT NULL FROM sources") == [(1,)]
        headwater.configure(shutdown_seconds=50)
        asked.clear()
        await headwater.start()
        await asked.wait()
        assert headwater.process is not None
        headwater.process.send_signal(signal.SIGTERM)
        await until(lambda: "stopping" in headwater.log.rpartition("serving")[2])
        started = time.monotonic()
        await headwater.stop(signal.SIGTERM)
        assert time.monotonic() - started < 20  # and not the fifty of a drain


async def test_s10_a_second_serve_reports_the_first_and_exits_2(headwater: Headwater) -> None:
    await headwater.start()
    said = await headwater.cli("serve", code=2)
    assert len(said.strip().splitlines()) == 1
    assert "polls this database" in said
    await headwater.stop()


async def test_s10_poll_works_alone_and_beside_a_running_service(headwater: Headwater) -> None:
    async with web_of(host=feed_site()) as web:
        source = await headwater.add(web.url("host"))
        alone = await headwater.json("poll", "--source", source)
        await headwater.start()
        beside = await headwater.json("poll", "--url", web.url("host"))
        await headwater.stop()
    assert alone[0]["newPosts"] == 1
    assert beside[0]["outcome"] == "unchanged"
    assert len(web.visits) == 2


async def test_k2_after_repeated_kills_nothing_is_lost_duplicated_or_stuck(
    headwater: Headwater,
) -> None:
    async with web_of(**{f"host{n}": feed_site(entries=5) for n in range(8)}) as web:
        for n in range(8):
            for path in ("/a", "/b"):
                await headwater.add(web.url(f"host{n}", path))
        for round_ in range(5):
            headwater.change("UPDATE sources SET requested_at = 1")
            before = len(web.visits)
            await headwater.start()
            # at a different time in each round: after this many requests
            await until(lambda b=before, r=round_: len(web.visits) >= b + 1 + 3 * r)  # type: ignore[misc]
            await headwater.stop(signal.SIGKILL)
            assert headwater.rows("PRAGMA integrity_check") == [("ok",)]
        await headwater.start()
        await until(
            lambda: (
                headwater.rows("SELECT count(*) FROM sources WHERE requested_at IS NOT NULL")
                == [(0,)]
            )
        )
        await headwater.stop()
    reported = headwater.rows("SELECT sum(new_posts) FROM polls WHERE outcome = 'stored'")
    stored = headwater.rows("SELECT count(*), count(DISTINCT source_id || url) FROM posts")
    assert stored == [(80, 80)]
    assert reported == [(80,)]


async def test_ready_lists_its_checks_and_the_host_header_is_checked(
    headwater: Headwater,
) -> None:
    await headwater.start()
    await until(lambda: _is_ready(headwater))
    status, health = await headwater.health()
    foreign, _ = await get(headwater.port, "/api/health", host="evil.example")
    await headwater.stop()
    assert status == 200
    assert health["status"] == "ok"
    assert health["schema"] >= 1
    assert foreign == 403


async def _is_ready(headwater: Headwater) -> bool:
    status, _ = await get(headwater.port, "/api/ready")
    return status == 200


async def test_backup_and_restore_work_while_serving(headwater: Headwater) -> None:
    async with web_of(host=feed_site(entries=3)) as web:
        source = await headwater.add(web.url("host"))
        await headwater.start()
        await headwater.cli("poll", "--source", source)
        await headwater.cli("backup", "copy.db")
        await headwater.cli("remove", source, "--yes")
        assert headwater.rows("SELECT count(*) FROM posts") == [(0,)]
        await headwater.cli("restore", "copy.db", "--yes")
        assert headwater.rows("SELECT count(*) FROM posts") == [(3,)]
        polled = await headwater.json("poll", "--source", source)
        await headwater.stop()
    assert polled[0]["outcome"] == "unchanged"


async def test_g2_paused_nothing_is_polled_but_by_hand(headwater: Headwater) -> None:
    headwater.configure(source={"paused": True})
    async with web_of(host=feed_site()) as web:
        source = await headwater.add(web.url("host"))
        headwater.change("UPDATE sources SET last_polled = 1")
        await headwater.start()
        await until(lambda: _is_ready(headwater))
        assert web.visits == []
        await headwater.cli("poll", "--source", source)
        await headwater.stop()
    assert len(web.visits) == 1


async def test_h4_no_host_behaviour_causes_a_traceback(headwater: Headwater) -> None:
    def odd(request: Request) -> Reply | None:
        answers: dict[str, Reply | None] = {
            "/hang-up": None,
            "/no-feed": Reply(200, b"<html><body>hello</body></html>", "text/html"),
            "/nothing": Reply(200, b"", "application/rss+xml"),
            "/loop": Reply(302, headers={"Location": "/loop"}),
            "/away": Reply(302, headers={"Location": "ftp://example.org/"}),
            "/teapot": Reply(418),
        }
        return answers[request.path]

    async with web_of(host=odd) as web:
        for path in ("/hang-up", "/no-feed", "/nothing", "/loop", "/away", "/teapot"):
            await headwater.add(web.url("host", path))
        await headwater.start()
        await headwater.cli("poll", "--all", code=1)
        rows = headwater.rows("SELECT last_failure_type, last_error FROM sources")
        await headwater.stop()
    assert [kind for kind, _ in rows] == ["transient"] * 6
    assert all(error and "\n" not in error for _, error in rows)
    assert "Traceback" not in headwater.log


async def test_l1_every_poll_is_one_line_with_the_masked_url(headwater: Headwater) -> None:
    async with web_of(host=feed_site()) as web:
        url = web.url("host", "/feed?token=geheim").replace("http://", "http://me:secret@")
        source = await headwater.add(url)
        await headwater.start()
        await headwater.cli("poll", "--source", source)
        await headwater.stop()
    lines = [line for line in headwater.log.splitlines() if "[Polling] stored" in line]
    assert len(lines) == 1
    assert web.address("host") in lines[0]
    assert source not in lines[0]
    assert "geheim" not in headwater.log
    assert "secret" not in headwater.log


async def test_k6_a_damaged_database_stops_the_start_with_one_line_and_is_left_unchanged(
    headwater: Headwater,
) -> None:
    async with web_of(host=feed_site(entries=200)) as web:
        source = await headwater.add(web.url("host"))
        await headwater.cli("poll", "--source", source)
    headwater.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    path = headwater.folder / "test.db"
    damaged = bytearray(path.read_bytes())
    damaged[30_000:60_000] = b"\x5a" * 30_000
    path.write_bytes(damaged)
    said = await headwater.cli("serve", code=1, complaint=True)
    complaints = [line for line in said.splitlines() if line.startswith("headwater:")]
    assert len(complaints) == 1
    assert "headwater doctor" in complaints[0]
    assert path.read_bytes()[30_000:60_000] == b"\x5a" * 30_000
