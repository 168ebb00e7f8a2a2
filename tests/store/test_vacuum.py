"""vacuum returns the space of deleted rows, also beside a service; metrics of storage."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.operations.storage import back_up_and_record, last_backup_at, storage_status
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from headwater.store.backup_file import restore
from headwater.store.sqlite import SqliteDatabase
from headwater.store.vacuum import database_size, vacuum
from tests.store.store_data import (
    DAY,
    NOW,
    StoreClock,
    a_post_of,
    a_success,
    everything,
    stored,
    with_posts,
)

POSTS = 400


async def with_deleted_posts(store: Store) -> int:
    """Store long posts, delete most of them, and return the number of those that are left."""
    source = await stored(store)
    long = [a_post_of(source, f"{n} {'x' * 9000}") for n in range(POSTS)]
    await with_posts(store, source, *long)
    await store.database.execute("DELETE FROM posts WHERE id NOT IN (SELECT min(id) FROM posts)")
    return await store.posts.count()


@asynccontextmanager
async def polling(url: str) -> AsyncIterator[Store]:
    """Another process's store, which has the right to poll."""
    async with Store(open_database(url), StoreClock()) as other:
        assert await other.database.acquire_poll_lock()
        yield other


async def test_a_vacuum_changes_no_row(store: Store):
    assert await with_deleted_posts(store) == 1
    before = await everything(store)
    report = await vacuum(store.database)
    assert await everything(store) == before
    assert report.before.total > 0
    assert report.after == await store.database.read(database_size)


async def test_a_sqlite_file_shrinks(new_sqlite: Callable[[], str]):
    async with Store(open_database(new_sqlite()), StoreClock()) as store:
        await with_deleted_posts(store)
        report = await vacuum(store.database)
        assert report.before.free is not None
        assert report.before.free > report.before.total / 2
        assert report.after.total < report.before.total / 2
        assert report.after.free == 0
        assert isinstance(store.database, SqliteDatabase)
        assert store.database.path.stat().st_size == report.after.total
        assert store.database.integrity_errors() == []


async def test_s10_while_a_service_runs_the_first_vacuum_is_refused(new_sqlite: Callable[[], str]):
    url = new_sqlite()
    async with Store(open_database(url), StoreClock()) as store, polling(url):
        await with_deleted_posts(store)
        before = await store.database.read(database_size)
        with pytest.raises(UsageError, match="stop it for the first vacuum"):
            await vacuum(store.database)
        assert await store.database.read(database_size) == before


async def test_later_vacuums_run_beside_a_service_that_stores_meanwhile(
    new_sqlite: Callable[[], str],
):
    url = new_sqlite()
    async with Store(open_database(url), StoreClock()) as store:
        await vacuum(store.database)
    async with Store(open_database(url), StoreClock()) as store, polling(url) as service:
        await with_deleted_posts(store)
        source = await stored(store)
        running = asyncio.create_task(vacuum(store.database))
        polls = 0
        while not running.done():
            current = await service.sources.get(source.id)
            assert (await service.record(a_success(current))).recorded
            polls += 1
        report = await running
        assert len(await store.polls.newest(source.id, limit=500)) == min(polls, 500)
        assert report.after.total < report.before.total / 2
        assert store.database.integrity_errors() == []


async def test_a_vacuum_without_enough_disk_space_is_refused(
    new_sqlite: Callable[[], str], monkeypatch: pytest.MonkeyPatch
):
    now = shutil.disk_usage("/")

    async with Store(open_database(new_sqlite()), StoreClock()) as store:
        await with_deleted_posts(store)
        before = await store.database.read(database_size)
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: now._replace(free=0))
        with pytest.raises(UsageError, match="MB of free disk space"):
            await vacuum(store.database)
        assert await store.database.read(database_size) == before


async def test_c3_the_backlog_counts_expired_rows_by_kind(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "old", created_at=NOW - 30 * DAY))
    current = await store.sources.get(source.id)
    await store.record(a_success(current, started_at=NOW - 20 * DAY))

    status = await storage_status(store, Policy(processed_retention_days=9), NOW)
    expected = {"articles": 0, "processed_articles": 0, "posts": 1, "polls": 1, "poll_days": 0}
    assert status.backlog == expected | {
        "audit": 0, "idempotency_keys": 0, "incidents": 0, "deliveries": 0,
    }  # fmt: skip
    assert status.size == await store.database.read(database_size)
    assert "processed_articles" not in (await storage_status(store, Policy(), NOW)).backlog


async def test_the_time_of_a_backup_is_stored_and_survives_a_restore(store: Store, tmp_path: Path):
    assert await last_backup_at(store) is None
    later = NOW + timedelta(hours=1)
    await back_up_and_record(store, tmp_path / "one.db", NOW)
    await back_up_and_record(store, tmp_path / "two.db", later)
    with pytest.raises(UsageError):  # the file exists
        await back_up_and_record(store, tmp_path / "two.db", later + DAY)
    await restore(store.database, tmp_path / "one.db")
    assert await last_backup_at(store) == later
