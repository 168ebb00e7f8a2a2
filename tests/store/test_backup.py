"""A backup is one consistent file, and a restore is complete or not applied."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import StoreError
from headwater.model import Hold
from headwater.store import Session, Store, open_database
from headwater.store.backup_file import TABLES, back_up, restore
from headwater.store.expired_rows import old_posts
from headwater.store.sqlite import SqliteDatabase
from tests.store.conftest import BOTH
from tests.store.filled_tables import fill
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    StoreClock,
    a_polled_source,
    a_post_of,
    a_success,
    bodies,
    everything,
    rows,
    stored,
    with_posts,
)


@pytest.fixture(params=BOTH)
async def other(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A second database, of either kind."""
    make: Callable[[], str] = request.getfixturevalue(f"new_{request.param}")
    async with Store(open_database(make()), StoreClock()) as store:
        yield store


async def test_a_backup_restores_to_the_same_rows_on_either_kind(
    store: Store, other: Store, tmp_path: Path
):
    await fill(store)
    await fill_differently(other)
    before, file = await everything(store), tmp_path / "backup.db"

    written = await back_up(store.database, file)
    read = await restore(other.database, file)

    assert written == read == sum(map(len, before.values()))
    assert await everything(other) == before
    assert await everything(store) == before
    # and it works: the next poll continues from there
    source = a_polled_source()
    await other.sources.add_many([source])
    await with_posts(other, source, a_post_of(source))
    (poll,) = await other.polls.newest(source.id, limit=1)
    assert poll.id > max(row[0] for row in before["polls"])


async def fill_differently(store: Store) -> None:
    """Rows that a restore must replace."""
    source = await stored(store)
    for number in range(5):
        source = await with_posts(store, source, a_post_of(source, f"to be replaced {number}"))
    await store.key_values.set("paused", "false")


async def test_a_backup_is_one_plain_file_that_a_restore_does_not_touch(
    store: Store, tmp_path: Path
):
    await fill(store)
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "backup.db"
    await back_up(store.database, file)
    content = file.read_bytes()

    await restore(store.database, file)

    assert [path.name for path in folder.iterdir()] == ["backup.db"]
    assert file.read_bytes() == content
    assert sorted(TABLES) == sorted(await everything(store))


async def test_the_polling_process_is_not_part_of_a_backup(
    store: Store, other: Store, tmp_path: Path
):
    await store.key_values.set("poller", "since eight")
    await store.key_values.set("paused", "true")

    await back_up(store.database, tmp_path / "backup.db")
    await restore(other.database, tmp_path / "backup.db")

    assert await rows(other, "SELECT name, value FROM facts") == [("paused", "true")]
    assert await store.key_values.get("poller") == "since eight"


async def test_p9_a_hold_that_is_newer_than_the_backup_survives_a_restore(
    store: Store, tmp_path: Path
):
    await back_up(store.database, tmp_path / "backup.db")
    hold = Hold(NOW + HOUR, NOW, "HTTP 429")
    source = await stored(store)
    await store.record(replace(a_success(source), hold=hold, hold_lane="a.org"))
    await store.key_values.set("poller", "since eight")

    await restore(store.database, tmp_path / "backup.db")

    assert (await store.hosts.get("a.org")).hold == hold
    assert await store.key_values.get("poller") == "since eight"


async def test_a_backup_of_many_rows_misses_none(store: Store, other: Store, tmp_path: Path):
    sources = [a_polled_source() for _ in range(3)]
    await store.sources.add_many(sources)
    for source in sources:
        posts = [a_post_of(source, f"{n}", created_at=NOW - 30 * DAY) for n in range(2100)]
        await with_posts(store, source, *posts)
    await store.clean(old_posts(7), NOW, 5000)
    before = await everything(store)
    assert len(before["tombstones"]) == 5000
    assert len(before["posts"]) == 1300

    await back_up(store.database, tmp_path / "backup.db")
    await restore(other.database, tmp_path / "backup.db")

    assert await everything(other) == before


async def test_a_backup_is_consistent_during_writes(store: Store, tmp_path: Path):
    sources = [a_polled_source() for _ in range(10)]
    await store.sources.add_many(sources)
    stop = asyncio.Event()

    async def keep_writing() -> int:
        rounds = 0
        while not stop.is_set():
            for source in sources:
                current = await store.sources.get(source.id)
                await with_posts(store, current, a_post_of(current, f"{source.id} {rounds}"))
            rounds += 1
        return rounds

    writer = asyncio.create_task(keep_writing())
    files = [tmp_path / f"{number}.db" for number in range(5)]
    for file in files:
        while await store.posts.count() == 0:
            await asyncio.sleep(0)
        await back_up(store.database, file)
    stop.set()
    assert await writer > 0

    for file in files:
        with contextlib.closing(sqlite3.connect(file)) as backup:
            ((polls, posts, states),) = backup.execute(
                """SELECT (SELECT count(*) FROM polls), (SELECT count(*) FROM posts),
                (SELECT sum(generation) FROM sources)"""
            ).fetchall()
        assert polls == posts == states


async def test_k7_a_backup_of_an_older_schema_is_upgraded_by_the_restore(
    store: Store, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await fill(store)
    before, file = await everything(store), tmp_path / "backup.db"
    await back_up(store.database, file)
    content = file.read_bytes()
    folders = tmp_path / "migrations"
    shutil.copytree(SqliteDatabase.migrations.parent, folders)
    for folder in folders.iterdir():
        script = "ALTER TABLE sources ADD COLUMN stars INTEGER NOT NULL DEFAULT 3;\n"
        (folder / "0099_stars.sql").write_text(script)
    monkeypatch.setattr(SqliteDatabase, "migrations", folders / "sqlite")
    monkeypatch.setattr(store.database, "migrations", folders / kind)
    await store.prepare()
    await store.database.write(lambda s: s.execute("UPDATE sources SET stars = 5"))

    await restore(store.database, file)

    assert await rows(store, "SELECT DISTINCT stars FROM sources") == [(3,)]
    after = await everything(store)
    assert len(after.pop("sources")) == len(before.pop("sources"))
    assert after == before
    assert file.read_bytes() == content


async def test_a_restored_database_has_all_constraints(store: Store, other: Store, tmp_path: Path):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source))
    await back_up(store.database, tmp_path / "backup.db")
    await restore(other.database, tmp_path / "backup.db")

    def twice(session: Session) -> Any:
        return session.execute("INSERT INTO posts SELECT * FROM posts")

    with pytest.raises(StoreError):
        await other.database.write(twice)
    await other.sources.remove(source.id)
    assert await bodies(other, source) == []
