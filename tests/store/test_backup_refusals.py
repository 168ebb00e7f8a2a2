"""An invalid backup changes nothing, and no file is ever overwritten."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import StoreError, UsageError
from headwater.store import Store
from headwater.store.backup_file import TABLES, back_up, restore
from tests.store.filled_tables import fill
from tests.store.store_data import (
    everything,
)


async def test_a_backup_never_overwrites_a_file(store: Store, tmp_path: Path):
    file = tmp_path / "precious.txt"
    file.write_text("precious")

    with pytest.raises(UsageError, match="never overwrites"):
        await back_up(store.database, file)
    with pytest.raises(UsageError, match="no folder"):
        await back_up(store.database, tmp_path / "nowhere" / "backup.db")

    assert file.read_text() == "precious"
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [file]


async def test_a_backup_that_fails_leaves_no_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.store.backup_file.TABLES", (*TABLES, "nowhere"))
    folder = tmp_path / "backups"
    folder.mkdir()

    with pytest.raises(StoreError):
        await back_up(store.database, folder / "backup.db")

    assert list(folder.iterdir()) == []
    assert len(await store.accounts.users()) == 1  # the connection still works


def a_text(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)


def an_empty_file(path: Path) -> None:
    path.touch()


def a_foreign_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT)")


def cut_short(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def damaged(path: Path) -> None:
    with path.open("r+b") as file:
        for offset in range(4096, path.stat().st_size, 4096):
            file.seek(offset)
            file.write(b"\xa5" * 64)


def from_the_future(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO schema_version VALUES (99)")
        connection.commit()


@pytest.mark.parametrize(
    "spoil",
    [a_text, an_empty_file, a_foreign_database, cut_short, damaged, from_the_future],
    ids=lambda spoil: spoil.__name__,
)
async def test_a_file_that_is_no_complete_backup_is_refused(
    store: Store, tmp_path: Path, spoil: Callable[[Path], None]
):
    await fill(store)
    before, file = await everything(store), tmp_path / "backup.db"
    if spoil in (cut_short, damaged, from_the_future):
        await back_up(store.database, file)
    spoil(file)
    content = file.read_bytes()

    with pytest.raises(StoreError) as caught:
        await restore(store.database, file)

    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert await everything(store) == before
    assert file.read_bytes() == content


async def test_a_missing_backup_file_is_a_usage_error(store: Store, tmp_path: Path):
    with pytest.raises(UsageError, match="no backup"):
        await restore(store.database, tmp_path / "nowhere.db")


async def test_a_restore_that_fails_midway_changes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await fill(store)
    before, file = await everything(store), tmp_path / "backup.db"
    await back_up(store.database, file)
    with contextlib.closing(sqlite3.connect(file)) as backup:
        backup.execute("UPDATE polls SET source_id = 'nobody'")  # a dangling reference
        backup.commit()

    with pytest.raises(StoreError):
        await restore(store.database, file)

    assert await everything(store) == before
