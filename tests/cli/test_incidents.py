"""The commands status and incidents (Y2)."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta

from headwater.clock import SystemClock
from headwater.engine.cleanup import Cleanup
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from tests.store.store_data import StoreClock

ADDED = ("add", "http://127.0.0.1:9/feed", "--type", "rss")


def give_up(cli):
    """Make a source look as if failures had disabled it."""
    assert cli(*ADDED, "--label", "Rivers").code == 0
    since = round((SystemClock().now() - timedelta(days=2)).timestamp() * 1000)
    with closing(sqlite3.connect(cli.folder / "data" / "headwater.db")) as connection, connection:
        connection.execute(
            "UPDATE sources SET enabled = FALSE, consecutive_failures = 5, failing_since = ?, "
            "disabled_reason = 'Auto-disabled after 5 consecutive 404 errors'",
            (since,),
        )


def test_y2_without_problems_status_says_so(cli):
    assert cli("migrate").code == 0
    said = cli("status")
    assert (said.code, said.out) == (0, "Everything is fine.\n")
    assert cli.json("status", "--json") == {
        "ok": True,
        "incidents": [],
        "cleanupPausedUntil": None,
    }
    assert cli("incidents").out == "severity\topened\tclosed\twhat is wrong\twhat to do\n"


def test_c3_status_reports_that_cleanup_is_paused(cli):
    assert cli(*ADDED).code == 0
    cli("poll", "--all")  # fails
    until = pause_cleanup(cli)
    said = cli("status")
    assert said.code == 0
    paused, advice, failing = said.out.splitlines()
    assert paused.startswith(f"note: cleanup is paused until {until:%Y-%m-%d %H:%M:%S} UTC")
    assert advice == "  Check the clock before cleanup resumes."
    assert "1 source is failing" in failing
    found = cli.json("status", "--json")
    assert found["ok"] is True
    assert datetime.fromisoformat(found["cleanupPausedUntil"]) == until


def pause_cleanup(cli) -> datetime:
    """Start a cleanup with a clock that is a month ahead of the newest poll of the database."""
    now = SystemClock().now().replace(microsecond=0)
    path = cli.folder / "data" / "headwater.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE polls SET started_at = started_at - 30 * 86400000")
    clock = StoreClock()
    clock.at = now

    async def start() -> None:
        async with Store(open_database(f"sqlite:///{path}"), clock) as store:
            await Cleanup(store, clock, Policy()).check_start()

    asyncio.run(start())
    return now + timedelta(hours=1)


def test_y2_sources_that_fail_without_an_incident_are_counted(cli):
    assert cli(*ADDED).code == 0
    cli("poll", "--all")
    said = cli("status")
    assert said.code == 0
    assert said.out.startswith("Nothing needs you now. 1 source is failing")
    assert "headwater list --health failing" in said.out


def test_y2_status_shows_problems_and_exits_1_until_they_are_over(cli):
    give_up(cli)
    said = cli("status")
    assert said.code == 1
    assert said.out.startswith("error: Headwater has given up on “Rivers”")
    found = cli.json("status", "--json", code=1)
    assert found["ok"] is False
    (incident,) = found["incidents"]
    assert incident["kind"] == "disabled"
    assert incident["closedAt"] is None
    assert cli("enable", ADDED[1]).code == 0
    assert cli("status").code == 0
    assert cli.json("incidents", "--json") == []
    (closed,) = cli.json("incidents", "--all", "--json")
    assert closed["id"] == incident["id"]
    assert closed["closedAt"] is not None


def test_y2_a_source_that_a_person_disabled_is_no_problem(cli):
    assert cli(*ADDED).code == 0
    assert cli("disable", ADDED[1]).code == 0
    assert cli("status").code == 0
