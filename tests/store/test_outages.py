"""A temporarily unavailable database causes delays only (K3, K5)."""

import asyncio
import contextlib
import gc
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headwater.errors import DatabaseUnavailable
from headwater.model import Entry
from headwater.rules.admission import Known, new_by_date
from headwater.rules.policy import Policy
from headwater.store import Session, Store, open_database
from headwater.store.sqlite import SqliteDatabase, SqliteSession
from tests.postgres import PostgresServer
from tests.store.store_data import (
    StoreClock,
    a_post_of,
    a_success,
    bodies,
    everything,
    rows,
    stored,
)


@pytest.fixture
async def file_store(new_sqlite: Callable[[], str], clock: StoreClock) -> AsyncIterator[Store]:
    """A SQLite store with a short lock timeout."""
    database = open_database(new_sqlite())
    assert isinstance(database, SqliteDatabase)
    database.busy_seconds = 0.01
    async with Store(database, clock) as store:
        yield store


@contextlib.contextmanager
def locked(store: Store) -> Iterator[sqlite3.Connection]:
    """Another program with an open write transaction."""
    assert isinstance(store.database, SqliteDatabase)
    path = store.database.path
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


async def test_k5_a_result_waits_for_a_locked_file_and_is_stored(
    file_store: Store, clock: StoreClock
):
    sources = [await stored(file_store) for _ in range(3)]
    reported: list[str | None] = []
    with locked(file_store) as other:

        def record_error() -> None:
            reported.append(file_store.database_error)
            if len(reported) == 9:  # three results, three attempts each
                other.execute("ROLLBACK")

        clock.on_sleep = record_error
        results = await asyncio.gather(
            *(file_store.record(a_success(s, [a_post_of(s)])) for s in sources)
        )

    assert all(result.recorded for result in results)
    assert [await bodies(file_store, source) for source in sources] == [["Some news"]] * 3
    assert {text is not None and "locked" in text for text in reported} == {True}
    assert file_store.database_error is None


async def test_k5_readers_are_not_blocked_by_a_writer(file_store: Store):
    source = await stored(file_store)
    with locked(file_store):
        assert await file_store.sources.get(source.id) == source
        with pytest.raises(DatabaseUnavailable, match="locked"):
            await file_store.key_values.set("paused", "true")


async def test_k5_after_the_retry_limit_the_source_is_still_due(
    file_store: Store, clock: StoreClock
):
    source = await stored(file_store)
    before = await everything(file_store)
    with locked(file_store):
        with pytest.raises(DatabaseUnavailable):
            await file_store.record(a_success(source, [a_post_of(source)]))
        assert file_store.database_error

    assert 300 <= clock.monotonic() < 310
    assert await everything(file_store) == before
    assert (await file_store.record(a_success(source))).recorded
    assert file_store.database_error is None


async def test_k5_a_response_waits_until_the_database_can_be_read(
    file_store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
):
    source = await stored(file_store)
    subject = await file_store.sources.subject(source.id)
    assert subject is not None
    read, reported = file_store.database.read, list[tuple[int, str | None]]()

    async def away(_: object) -> None:
        raise DatabaseUnavailable("the server is away")

    def recover() -> None:
        reported.append((file_store.results_waiting, file_store.database_error))
        if len(reported) == 3:
            monkeypatch.setattr(file_store.database, "read", read)

    monkeypatch.setattr(file_store.database, "read", away)
    clock.on_sleep = recover
    entry = Entry(None, "News", "https://a.example/1", None, None, "Some news")
    known = await file_store.known(subject, new_by_date(source, [entry], clock.now(), Policy()))

    assert known == Known()
    assert reported == [(1, "the server is away")] * 3
    assert file_store.results_waiting == 0


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int = 2) -> Iterator[Path]:
    """A disk of some megabytes, if this machine allows one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_k5_storing_waits_while_the_disk_is_full(tmp_path: Path, clock: StoreClock):
    with small_disk(tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        async with Store(open_database(f"sqlite:///{disk}/headwater.db"), clock) as store:
            await store.prepare()
            source = await stored(store)
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            reported: list[str | None] = []

            def make_room() -> None:
                reported.append(store.database_error)
                if len(reported) == 3:
                    ballast.unlink()

            clock.on_sleep = make_room
            posts = [a_post_of(source, f"{n} " * 3000) for n in range(100)]
            assert (await store.record(a_success(source, posts))).recorded

            assert len(reported) == 3
            assert await store.posts.count() == 100
            assert store.database.integrity_errors() == []
        assert all(text and "full" in text for text in reported), reported


async def test_k3_a_commit_is_on_disk_before_it_is_reported(file_store: Store):
    found = await file_store.database.write(
        lambda s: [
            s.fetch(f"PRAGMA {name}")[0][0]
            for name in ("synchronous", "journal_mode", "foreign_keys")
        ]
    )

    assert found == [2, "wal", 1]


@pytest.fixture
async def server_store(
    new_postgres: Callable[[], str], clock: StoreClock
) -> AsyncIterator[tuple[Store, str]]:
    """A store on PostgreSQL and its URL."""
    url = new_postgres()
    async with Store(open_database(url), clock) as store:
        yield store, url


async def warmed_up(store: Store) -> None:
    """Use the writer's and every reader's connection once; a dead one may raise."""
    await store.key_values.set("warm", "yes")
    for _ in range(2):
        work = (rows(store, "SELECT pg_sleep(0.02)") for _ in range(12))
        for result in await asyncio.gather(*work, return_exceptions=True):
            assert isinstance(result, list | DatabaseUnavailable)


@pytest.mark.postgres
async def test_k5_cut_connections_are_replaced(
    server_store: tuple[Store, str], postgres_server: PostgresServer, clock: StoreClock
):
    store, url = server_store
    sources = [await stored(store) for _ in range(3)]
    await warmed_up(store)
    assert postgres_server.cut_off(url) >= 3

    results = await asyncio.gather(*(store.record(a_success(s, [a_post_of(s)])) for s in sources))

    assert all(result.recorded for result in results)
    assert clock.monotonic() > 0  # the first attempt met a dead connection
    await warmed_up(store)  # every reader detects it once, and recovers
    counts = await asyncio.gather(*(store.posts.count() for _ in range(8)))
    assert counts == [3] * 8


@pytest.mark.postgres
async def test_k5_a_connection_lost_within_a_transaction_leaves_nothing_of_it(
    server_store: tuple[Store, str], postgres_server: PostgresServer
):
    store, url = server_store
    source = await stored(store)
    before = await everything(store)

    def cut_in_the_middle(session: Session) -> None:
        session.execute("UPDATE sources SET label = 'half'")
        postgres_server.cut_off(url)
        session.execute("UPDATE sources SET url = 'half'")

    with pytest.raises(DatabaseUnavailable) as caught:
        await store.database.write(cut_in_the_middle)

    assert "\n" not in str(caught.value)
    await warmed_up(store)
    before["facts"] = [("warm", "yes")]
    assert await store.sources.get(source.id) == source
    assert await everything(store) == before


@pytest.mark.postgres
async def test_k5_storing_waits_for_a_restarted_server(
    server_store: tuple[Store, str], postgres_server: PostgresServer, clock: StoreClock
):
    store, _ = server_store
    source = await stored(store)
    await warmed_up(store)
    postgres_server.stop()
    reported: list[str | None] = []

    def start_again() -> None:
        reported.append(store.database_error)
        if len(reported) == 4:
            postgres_server.start()

    clock.on_sleep = start_again
    try:
        result = await store.record(a_success(source, [a_post_of(source)]))
    finally:
        postgres_server.start()

    assert result.recorded
    assert len(reported) == 4
    assert all(reported)
    assert store.database_error is None
    await warmed_up(store)
    assert await bodies(store, source) == ["Some news"]


@pytest.mark.postgres
async def test_k5_storing_waits_for_a_read_only_server(
    server_store: tuple[Store, str], postgres_server: PostgresServer, clock: StoreClock
):
    store, url = server_store
    source = await stored(store)
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        postgres_server.cut_off(url)
    reported: list[str | None] = []

    def let_write() -> None:
        reported.append(store.database_error)
        if len(reported) == 4:
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("SET default_transaction_read_only = off")
                other.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

    clock.on_sleep = let_write
    assert (await store.record(a_success(source, [a_post_of(source)]))).recorded

    assert any(text and "read-only" in text for text in reported), reported
    assert await bodies(store, source) == ["Some news"]


@pytest.mark.postgres
async def test_an_unreachable_server_is_one_clear_error(tmp_path: Path):
    url = f"postgresql://nobody@/nowhere?host={tmp_path}"
    async with Store(open_database(url), StoreClock()) as store:
        with pytest.raises(DatabaseUnavailable) as caught:
            await store.prepare()

    assert "\n" not in str(caught.value)


def test_k5_a_connection_that_fails_to_open_is_closed(tmp_path: Path):
    path = tmp_path / "text.db"
    path.write_text("no database " * 100)
    gc.collect()  # leftovers of other tests would be collected during the test
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        with pytest.raises(sqlite3.DatabaseError):
            SqliteSession(path)

    assert len(os.listdir("/proc/self/fd")) <= before
