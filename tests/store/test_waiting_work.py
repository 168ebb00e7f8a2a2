"""Results and queries that wait for the database are logged at growing intervals (K5)."""

import asyncio
import io
import sqlite3
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from headwater import logs
from headwater.store import Store, open_database
from headwater.store.sqlite import SqliteDatabase
from tests.store.store_data import StoreClock, a_post_of, a_success, stored


def reports(lines: io.StringIO) -> list[str]:
    """The log lines of the store, without time and level."""
    return [line.partition("[Store] ")[2] for line in lines.getvalue().splitlines()]


async def test_k5_results_that_wait_for_a_locked_file_are_logged(
    new_sqlite: Callable[[], str], clock: StoreClock, lines: io.StringIO
):
    logs.configure(stream=lines)
    database = open_database(new_sqlite())
    assert isinstance(database, SqliteDatabase)
    database.busy_seconds = 0.01
    async with Store(database, clock) as store:
        source = await stored(store)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            def on_sleep() -> None:
                store.waiting.report()
                if clock.seconds > 42 and other.in_transaction:
                    other.execute("ROLLBACK")

            clock.on_sleep = on_sleep
            await store.record(a_success(source, [a_post_of(source)]))
        assert store.waiting.oldest_seconds() == len(store.waiting) == 0
        clock.seconds += 60
        store.waiting.report()
    *waits, end = reports(lines)
    starts = [line.partition(" error=")[0] for line in waits]
    assert starts == [
        f"results are waiting to be stored count=1 seconds={seconds}" for seconds in (9, 19, 34)
    ]
    assert all("database is locked" in line for line in waits)
    assert end == "results are stored again after=44"


@pytest.mark.postgres
async def test_k5_a_write_without_an_answer_is_logged_too(
    new_postgres: Callable[[], str], clock: StoreClock, lines: io.StringIO
):
    logs.configure(stream=lines)
    url = new_postgres()
    async with Store(open_database(url), clock) as store:
        source = await stored(store)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE sources IN ACCESS EXCLUSIVE MODE")
            recording = asyncio.create_task(store.record(a_success(source)))
            while not len(store.waiting):
                await asyncio.sleep(0)
            clock.seconds += 11
            store.waiting.report()
            other.rollback()
        assert (await recording).recorded
    assert reports(lines) == [
        'results are waiting to be stored count=1 seconds=11 error="the database does not respond"',
        "results are stored again after=11",
    ]


@pytest.mark.postgres
async def test_k5_a_query_of_the_scheduler_without_an_answer_is_logged_too(
    new_postgres: Callable[[], str], clock: StoreClock, lines: io.StringIO
):
    logs.configure(stream=lines)
    url = new_postgres()
    async with Store(open_database(url), clock) as store:
        source = await stored(store)

        async def query() -> None:
            assert (await store.sources.get(source.id)).id == source.id

        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE sources IN ACCESS EXCLUSIVE MODE")
            querying = asyncio.create_task(store.queries.watch(query()))
            while not len(store.queries):
                await asyncio.sleep(0)
            clock.seconds += 11
            store.queries.report()
            assert (store.stalled_seconds(), store.waiting.oldest_seconds()) == (11, 0)
            other.rollback()
        await querying
        assert store.stalled_seconds() == 0
    assert [line.partition(" error=")[0] for line in reports(lines)] == [
        "the scheduler is waiting for the database count=1 seconds=11",
        "the database responds to the scheduler again after=11",
    ]


async def test_k5_a_result_that_was_given_up_does_not_end_the_stall(
    new_sqlite: Callable[[], str], clock: StoreClock, lines: io.StringIO
):
    logs.configure(stream=lines)
    async with Store(open_database(new_sqlite()), clock) as store:
        given_up = store.waiting.begin()
        clock.seconds += 300
        store.waiting.report()
        store.waiting.end(given_up)
        store.waiting.report()
        assert len(reports(lines)) == 1
        await store.record(a_success(await stored(store)))
    assert reports(lines)[-1] == "results are stored again after=300"
