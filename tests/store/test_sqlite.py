"""The SQLite file itself."""

import io
import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from headwater import logs
from headwater.clock import SystemClock
from headwater.errors import DatabaseReplaced, DatabaseUnavailable
from headwater.store import Session, Store, open_database
from headwater.store.backup_file import back_up
from headwater.store.sqlite import SqliteDatabase
from headwater.store.sqlite_files import changed_files, identity_of, is_replaced
from tests.store.store_data import StoreClock, a_polled_source, a_success, stored


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_u6_the_database_and_its_copies_are_readable_by_the_owner_only(tmp_path):
    path, copy = tmp_path / "headwater.db", tmp_path / "copy.db"
    async with Store(open_database(f"sqlite:///{path}"), SystemClock()) as store:
        await store.prepare()
        assert mode(path) == mode(tmp_path / "headwater.db-wal") == 0o600
        await back_up(store.database, copy)
    assert mode(copy) == 0o600


@pytest.mark.parametrize("successor", [False, True], ids=["deleted", "replaced"])
async def test_k5_writes_are_refused_if_the_file_was_deleted_or_replaced(
    tmp_path, clock: StoreClock, lines: io.StringIO, successor: bool
):
    logs.configure(stream=lines)
    path, aside = tmp_path / "headwater.db", tmp_path / "aside.db"
    async with Store(open_database(f"sqlite:///{path}"), clock) as store:
        await store.prepare()
        source = await stored(store)
        path.rename(aside)
        if successor:
            shutil.copyfile(aside, tmp_path / "new.db")
            (tmp_path / "new.db").rename(path)
        for write in (store.sources.add_many([a_polled_source()]), store.record(a_success(source))):
            with pytest.raises(DatabaseReplaced, match=r"deleted or replaced .* put the file back"):
                await write
        with pytest.raises(DatabaseReplaced):
            await store.schema()
        assert path.exists() is successor  # no connection creates it
        aside.rename(path)  # another process may have changed it or its log
        with pytest.raises(DatabaseReplaced):
            await store.record(a_success(source))
    assert lines.getvalue().count("error [Store] the database file") == 1


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("successor", [False, True], ids=["deleted", "replaced"])
def test_k5_writes_are_refused_if_the_log_was_deleted_or_replaced(tmp_path, suffix, successor):
    database, file = filled_database(tmp_path), tmp_path / f"headwater.db{suffix}"
    file.unlink()
    if successor:
        file.touch()
    for _ in range(2):
        with pytest.raises(
            DatabaseReplaced, match=rf"headwater\.db{suffix} was deleted or replaced"
        ):
            database.run_transaction(insert)
    with pytest.raises(DatabaseReplaced):
        database.connect()  # would create another log
    database.shut_down()
    assert numbers_in(database.path) == [(1,)]


def test_k5_commits_in_a_deleted_log_are_saved_before_a_kill(tmp_path):
    database, copy = filled_database(tmp_path), tmp_path / "copy.db"
    (tmp_path / "headwater.db-wal").unlink()
    with pytest.raises(DatabaseReplaced):
        database.run_transaction(insert)
    shutil.copyfile(database.path, copy)  # all that a kill would leave
    assert numbers_in(copy) == [(1,)]
    database.shut_down()


def test_k5_a_log_that_sqlite_deletes_with_the_last_connection_is_not_missed(tmp_path):
    database = filled_database(tmp_path)
    with pytest.raises(DatabaseUnavailable):
        database.run_transaction(fail)  # the broken connection is closed, and it is the only one
    assert not (tmp_path / "headwater.db-wal").exists()
    database.refuse_replaced()
    database.run_transaction(insert)
    database.shut_down()
    assert len(numbers_in(database.path)) == 2


def test_k5_a_log_that_is_deleted_with_its_connection_during_the_check_is_not_missed(
    tmp_path, monkeypatch
):
    def after_a_close(opened):
        files = list(opened)
        monkeypatch.undo()  # the other thread checks as usual
        with pytest.raises(DatabaseUnavailable):
            other_thread.submit(database.run_transaction, fail).result()
        assert not (tmp_path / "headwater.db-wal").exists()
        return changed_files(files)

    with ThreadPoolExecutor(1) as other_thread:
        database = other_thread.submit(filled_database, tmp_path).result()
        monkeypatch.setattr("headwater.store.sqlite.changed_files", after_a_close)
        database.refuse_replaced()
    database.run_transaction(insert)
    database.shut_down()


def test_k5_a_path_that_cannot_be_looked_up_is_not_a_replaced_file(tmp_path):
    file, loop = tmp_path / "file", tmp_path / "loop"
    file.touch()
    loop.symlink_to(loop)  # ELOOP, also for root
    identity = identity_of(file)
    assert identity is not None
    assert not is_replaced(file, identity)
    assert not is_replaced(loop, identity)
    assert is_replaced(tmp_path / "missing", identity)
    assert is_replaced(tmp_path, identity)


def filled_database(folder: Path) -> SqliteDatabase:
    """A new file with one row, which is only in its log."""
    database = SqliteDatabase(folder / "headwater.db")
    database.run_transaction(lambda s: s.execute("CREATE TABLE numbers (n INTEGER)"))
    database.run_transaction(insert)
    return database


def insert(session: Session) -> int:
    return session.execute("INSERT INTO numbers VALUES (1)")


def fail(_session: Session) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


def numbers_in(path: Path) -> list[tuple[int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT n FROM numbers").fetchall()
