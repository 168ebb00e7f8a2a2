"""Reads on the event loop: immediate, and never waiting for a lock (H3)."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from headwater.errors import DatabaseUnavailable, StoreError
from headwater.store import Session, Store, open_database
from headwater.store.sqlite import SqliteDatabase
from tests.store.store_data import StoreClock


def where_and_what(session: Session) -> tuple[bool, str]:
    on_the_loop = threading.current_thread() is threading.main_thread()
    return on_the_loop, str(session.fetch("SELECT name FROM users ORDER BY name")[0][0])


async def rename(store: Store, name: str) -> None:
    await store.database.write(lambda s: s.execute("UPDATE users SET name = :n", {"n": name}))


async def test_an_inline_read_sees_earlier_commits(store: Store, kind: str):
    for name in ("ann", "ben"):
        await rename(store, name)
        assert await store.database.read_inline(where_and_what) == (kind == "sqlite", name)


async def test_h3_a_locked_file_is_read_by_a_thread_that_waits(new_sqlite):
    async with Store(open_database(new_sqlite()), StoreClock()) as store:
        assert isinstance(store.database, SqliteDatabase)
        await rename(store, "ann")
        path = store.database.path
    other = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(other):
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        database = SqliteDatabase(path)
        looking = asyncio.create_task(database.read_inline(where_and_what))
        await asyncio.sleep(0)
        assert not looking.done()
    assert await looking == (False, "ann")
    assert await database.read_inline(where_and_what) == (True, "ann")
    await database.close()


async def test_an_inline_read_raises_the_same_errors_as_a_read(store: Store):
    def nonsense(session: Session) -> object:
        return session.fetch("SELECT * FROM nowhere")

    with pytest.raises(StoreError, match="refused this"):
        await store.database.read_inline(nonsense)
    assert (await store.database.read_inline(where_and_what))[1]


async def test_k5_a_file_that_cannot_be_opened_is_unavailable(tmp_path):
    database = SqliteDatabase(tmp_path / "folder" / "file.db")
    (tmp_path / "folder" / "file.db").mkdir()
    with pytest.raises(DatabaseUnavailable):
        await database.read_inline(where_and_what)
    await database.close()
