"""Old polls are counted by source and day, each exactly once (C4)."""

import asyncio
import subprocess
import sys
from datetime import date, timedelta
from typing import Any

import pytest

from headwater.model import Source
from headwater.rules.admission import content_hash
from headwater.store import Session, Store, open_database, poll_days
from headwater.store.expired_rows import old_poll_days, old_polls
from headwater.store.row_mapping import to_ms
from tests.store.store_data import DAY, HOUR, NOW, StoreClock, rows, stored

LIMIT = 1000
NOON = NOW.replace(hour=12)
STEPS = 8  # statements of a batch on PostgreSQL, and the commit


async def with_polls(store: Store, source: Source, *polls: dict[str, Any]) -> None:
    """Insert polls with these values; `age` is a timedelta before noon."""
    plain = {
        "source_id": source.id, "duration_ms": 100, "outcome": "unchanged", "bytes": 10,
        "new_posts": 0, "failure_type": None, "failure_kind": None,
    }  # fmt: skip
    made = [
        plain
        | {"started_at": to_ms(NOON - poll["age"])}
        | {name: value for name, value in poll.items() if name != "age"}
        for poll in polls
    ]
    await store.database.write(lambda session: session.insert_rows("polls", made))


def failure(kind: str, age: timedelta) -> dict[str, Any]:
    return {"age": age, "outcome": "failed", "failure_type": "transient", "failure_kind": kind}


async def counted(store: Store, source: Source) -> int:
    """All polls of a source: in the history, and in the days of the table."""
    sql = """SELECT (SELECT count(*) FROM polls WHERE source_id = :id) + coalesce((SELECT
        sum(stored + unchanged + failed) FROM poll_days WHERE source_id = :id), 0)"""
    return int((await rows(store, sql, id=source.id))[0][0])


async def test_c4_old_polls_are_counted_by_day_outcome_and_kind_of_failure(store: Store):
    source, other = await stored(store), await stored(store)
    await with_polls(
        store,
        source,
        {"age": 20 * DAY, "outcome": "stored", "new_posts": 3},
        {"age": 20 * DAY - HOUR},
        failure("503", 20 * DAY - 2 * HOUR),
        failure("503", 20 * DAY - 3 * HOUR),
        failure("DNS", 20 * DAY - 4 * HOUR),
        {"age": 19 * DAY},
        {"age": DAY},
    )
    await with_polls(store, other, {"age": 20 * DAY, "bytes": 99})

    assert await store.clean(old_polls(14), NOON, LIMIT) == 7
    assert await store.clean(old_polls(14), NOON, LIMIT) == 0

    recent, later, first = await store.poll_days.newest(source.id, limit=10)
    assert (recent.day, recent.unchanged) == ((NOON - DAY).date(), 1)  # still in the history
    assert (later.day, later.unchanged) == ((NOON - 19 * DAY).date(), 1)
    assert first.day == (NOON - 20 * DAY).date()
    assert (first.stored, first.unchanged, first.failed) == (1, 1, 3)
    assert first.failures == {"503": 2, "DNS": 1}
    assert (first.new_posts, first.size, first.duration_ms) == (3, 50, 500)
    assert (first.first_at, first.last_at) == (NOON - 20 * DAY, NOON - 20 * DAY + 4 * HOUR)
    (of_other,) = await store.poll_days.newest(other.id, limit=10)
    assert of_other.size == 99
    assert len(await store.polls.newest(source.id, limit=10)) == 1


async def test_c4_a_day_grows_with_each_batch_until_all_of_it_is_old(store: Store):
    source = await stored(store)
    old = [failure(kind, 14 * DAY - hour * HOUR) for hour, kind in enumerate(["503", "DNS", "503"])]
    await with_polls(store, source, *old)

    for hour in (0, 1, 2):
        now = NOON + hour * HOUR + timedelta(minutes=1)
        assert await store.clean(old_polls(14), now, LIMIT) == 1
        (day,) = await store.poll_days.newest(source.id, limit=9)  # counts both tables
        assert (day.failed, dict(day.failures)) == (3, {"503": 2, "DNS": 1})
    assert await rows(store, "SELECT failed, failures FROM poll_days") == [
        (3, '{"503": 2, "DNS": 1}')
    ]


class BrokenOffError(Exception):
    """Ends a transaction."""


class FailingSession:
    """A session that raises right before its n-th statement."""

    def __init__(self, session: Session, step: int) -> None:
        self._session = session
        self._left = step

    def __getattr__(self, name: str) -> Any:
        if name in ("execute", "execute_many", "fetch"):
            if self._left == 0:
                raise BrokenOffError
            self._left -= 1
        return getattr(self._session, name)


@pytest.mark.parametrize("step", range(STEPS))
async def test_c4_a_batch_that_fails_between_two_steps_changes_nothing(store: Store, step: int):
    source = await stored(store)
    await with_polls(store, source, *(failure("503", 20 * DAY) for _ in range(9)))
    await store.clean(old_polls(14), NOON, 4)
    batch = old_polls(14)
    found = await store.database.read(lambda s: batch.find(s, NOON, LIMIT))

    def failing(session: Session) -> int:
        broken: Any = FailingSession(session, step)
        batch.remove(broken, found, LIMIT)
        raise BrokenOffError  # before the commit

    with pytest.raises(BrokenOffError):
        await store.database.write(failing)

    assert await counted(store, source) == 9
    assert len(await store.polls.newest(source.id, limit=10)) == 5
    assert await store.clean(batch, NOON, LIMIT) == 5
    (day,) = await store.poll_days.newest(source.id, limit=2)
    assert (day.failed, dict(day.failures)) == (9, {"503": 9})


@pytest.mark.slow  # kills a process at every step
async def test_c4_a_killed_process_neither_loses_nor_double_counts_polls(store: Store, url: str):
    source = await stored(store)
    await with_polls(store, source, *(failure("503", 20 * DAY) for _ in range(50)))

    for step in range(STEPS + 2):
        process = subprocess.run(
            [sys.executable, "-m", "tests.store.killed_cleanup", url, str(step)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (process.returncode, process.stderr) == (-9, "")
        assert await counted(store, source) == 50

    left = len(await store.polls.newest(source.id, limit=99))
    assert 0 < left < 50  # some processes were killed after their commit
    assert await store.clean(old_polls(14), NOON, LIMIT) == left
    assert await counted(store, source) == 50


async def test_c4_two_processes_that_clean_up_at_once_count_each_poll_once(store: Store, url: str):
    sources = [await stored(store) for _ in range(5)]
    for source in sources:
        await with_polls(store, source, *(failure("503", 20 * DAY) for _ in range(40)))
    batch = old_polls(14)
    found = await store.database.read(lambda s: batch.find(s, NOON, LIMIT))

    async with Store(open_database(url), StoreClock()) as other:
        removed = await asyncio.gather(
            store.database.write(lambda s: batch.remove(s, found[:150], LIMIT)),
            other.database.write(lambda s: batch.remove(s, found[50:], LIMIT)),
            store.database.write(lambda s: batch.remove(s, found, LIMIT)),
        )

    assert sum(removed) == 200
    for source in sources:
        (day,) = await store.poll_days.newest(source.id, limit=2)
        assert (day.failed, dict(day.failures)) == (40, {"503": 40})


async def test_c4_polls_that_cannot_be_read_are_deleted_and_hold_up_no_others(store: Store):
    source = await stored(store)
    await with_polls(store, source, {"age": 20 * DAY, "outcome": "vanished"}, {"age": 20 * DAY})

    assert await store.clean(old_polls(14), NOON, LIMIT) == 2
    (day,) = await store.poll_days.newest(source.id, limit=2)
    assert day.unchanged == 1


async def test_c4_days_past_their_retention_and_days_in_the_future_are_deleted(store: Store):
    source = await stored(store)
    for age in (500, 401, 400, 20, -30):
        await with_polls(store, source, {"age": age * DAY})
    assert await store.clean(old_polls(14), NOON, LIMIT) == 5

    assert await store.clean(old_poll_days(400), NOON, 2) == 2
    assert await store.clean(old_poll_days(400), NOON, LIMIT) == 1
    assert await store.clean(old_poll_days(400), NOON, LIMIT) == 0
    kept = [day.day for day in await store.poll_days.newest(source.id, limit=9)]
    assert kept == [(NOON - age * DAY).date() for age in (20, 400)]


async def test_days_are_listed_in_pages_across_history_and_counts(store: Store):
    source = await stored(store)
    ages = [30, 16, 15, 14, 13, 2, 0]
    await with_polls(store, source, *({"age": age * DAY + HOUR} for age in ages))
    assert await store.clean(old_polls(14), NOON, LIMIT) == 4

    found: list[date] = []
    before = None
    while page := await store.poll_days.newest(source.id, limit=2, before=before):
        assert len(page) <= 2
        found += [day.day for day in page]
        before = poll_days.day_number(page[-1].day)
    assert found == [(NOON - age * DAY).date() for age in reversed(ages)]


async def test_a_source_whose_polls_are_all_old_was_still_polled(store: Store):
    source = await stored(store)
    await with_polls(store, source, {"age": 30 * DAY})
    await store.clean(old_polls(14), NOON, LIMIT)
    assert await store.polls.last_started([source.id]) == {source.id: NOON - 30 * DAY}


async def test_days_go_with_their_source(store: Store):
    source = await stored(store, id=content_hash("x"))
    await with_polls(store, source, {"age": 30 * DAY})
    await store.clean(old_polls(14), NOON, LIMIT)
    await store.sources.remove(source.id)
    assert await rows(store, "SELECT * FROM poll_days") == []
