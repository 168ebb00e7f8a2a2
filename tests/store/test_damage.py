"""A damaged SQLite file stops the start with one line and is left unchanged (K6)."""

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import DatabaseCorrupt, DatabaseUnavailable, HeadwaterError, StoreError
from headwater.store import Store, open_database
from tests.store.store_data import StoreClock, a_polled_source, a_post_of, stored, with_posts

PAGE = 4096


@pytest.fixture(scope="module")
def whole(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with some rows, closed cleanly."""
    path = tmp_path_factory.mktemp("whole") / "whole.db"
    shutil.copyfile(sqlite_template, path)

    async def fill() -> None:
        async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
            for number in range(20):
                source = await stored(store)
                posts = [a_post_of(source, f"{number} {n} " * 50) for n in range(5)]
                await with_posts(store, source, *posts)

    asyncio.run(fill())
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copyfile(whole, tmp_path / "headwater.db"))


async def started(path: Path) -> None:
    """Open and migrate the database, as every start does."""
    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        await store.prepare()


async def refused(path: Path) -> HeadwaterError:
    """The one-line error of a start; the file is unchanged."""
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        await started(path)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(5 * PAGE))


def a_text(path: Path) -> None:
    path.write_text("Dear diary, this is no database. " * 100)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def the_header_alone(path: Path) -> None:
    os.truncate(path, 100)


def a_first_page_of_zeros(path: Path) -> None:
    overwrite(path, 0, bytes(PAGE))


def a_broken_root(path: Path) -> None:
    overwrite(path, 100, b"\xff" * 8)


def a_word_of_the_schema(path: Path) -> None:
    overwrite(path, path.read_bytes().index(b"CREATE TABLE sources"), b"CREATE TABLE s\nurces")


def a_name_that_is_no_text(path: Path) -> None:
    at = path.read_bytes().index(b"CREATE INDEX sources_host")
    overwrite(path, at, b"CREATE INDEX \xff\xfe\xff\xfe")


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.parametrize(
    "spoil",
    [
        garbage,
        a_text,
        half,
        the_header_alone,
        a_first_page_of_zeros,
        a_broken_root,
        a_word_of_the_schema,
        a_name_that_is_no_text,
    ],
    ids=lambda spoil: spoil.__name__,
)
async def test_k6_a_damaged_file_stops_the_start_and_is_left_unchanged(
    path: Path, spoil: Callable[[Path], None]
):
    spoil(path)

    error = await refused(path)

    assert isinstance(error, DatabaseCorrupt)
    assert "run `headwater doctor`" in str(error)


async def test_k6_a_flipped_bit_is_either_detected_or_harmless_to_the_start(path: Path):
    content, rng = path.read_bytes(), random.Random(6)
    schema = content.index(b"CREATE TABLE sources") // PAGE * PAGE
    offsets = [*rng.choices(range(100), k=30), *rng.choices(range(schema, schema + PAGE), k=60)]
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            await started(path)
        except StoreError as error:
            assert str(error).isprintable()
        assert path.read_bytes() == bytes(damaged), offset


async def test_k6_damage_among_the_rows_is_reported_when_it_is_read_and_by_the_check(path: Path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'sources_backoff_due'"
        ((root,),) = connection.execute(sql)
    overwrite(path, (root - 1) * PAGE, random.Random(2).randbytes(PAGE))
    before = path.read_bytes()

    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        await store.prepare()
        with pytest.raises(DatabaseCorrupt, match="headwater doctor"):
            await store.database.read(
                lambda s: s.fetch("SELECT id FROM sources WHERE enabled AND backoff_due_at < 9")
            )
        with pytest.raises(DatabaseCorrupt):  # and again, with a new connection
            await store.sources.add_many([a_polled_source() for _ in range(3)])
        assert len(await store.accounts.users()) == 1  # undamaged rows can be read
        assert store.database.integrity_errors()

    assert path.read_bytes() == before


async def test_k6_the_check_finds_no_fault_in_an_undamaged_file(path: Path):
    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        assert await asyncio.to_thread(store.database.integrity_errors) == []


async def test_k6_the_check_detects_a_truncated_file(path: Path):
    os.truncate(path, path.stat().st_size - PAGE // 2)

    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        assert await asyncio.to_thread(store.database.integrity_errors)


async def test_k6_the_check_finds_rows_without_an_owner(path: Path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM podcasts")
        connection.commit()

    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        faults = await asyncio.to_thread(store.database.integrity_errors)

    assert set(faults) == {"sources: row without owner"}


async def test_an_empty_file_is_a_new_database(tmp_path: Path):
    path = tmp_path / "empty.db"
    path.touch()

    await started(path)

    assert path.stat().st_size > 0


async def test_a_folder_in_place_of_the_file_is_one_clear_error(tmp_path: Path):
    path = tmp_path / "headwater.db"
    path.mkdir()

    with pytest.raises(DatabaseUnavailable, match="unable to open") as caught:
        await started(path)

    assert str(path) in str(caught.value)


async def test_a_file_in_place_of_the_folder_is_one_clear_error(tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(HeadwaterError) as caught:
        await started(tmp_path / "file" / "headwater.db")

    assert str(tmp_path / "file") in str(caught.value)
    assert "\n" not in str(caught.value)


START = """
import asyncio, os, sys
from headwater.errors import HeadwaterError
from headwater.store import Store, open_database
from tests.store.store_data import StoreClock

async def main():
    async with Store(open_database(sys.argv[1]), StoreClock()) as store:
        await store.prepare()
        await store.key_values.set("paused", "true")

if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
try:
    asyncio.run(main())
except HeadwaterError as error:
    print(error)
"""


@pytest.mark.parametrize("state", ["no folder", "no file", "a file"])
def test_a_read_only_folder_is_one_clear_error(whole: Path, state: str):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "data" / "headwater.db"
        if state != "no folder":
            path.parent.mkdir()
        if state == "a file":
            shutil.copyfile(whole, path)
            path.chmod(0o444)
        for place in (path.parent, folder):
            if place.exists():
                place.chmod(0o555)

        command = [sys.executable, "-c", START, f"sqlite:///{path}"]
        reported = subprocess.run(command, capture_output=True, text=True, check=False)

        assert reported.stderr == ""
        assert str(folder) in reported.stdout
        assert reported.stdout.count("\n") == 1
        if state == "a file":
            assert path.read_bytes() == whole.read_bytes()
        folder.chmod(0o700)
        if path.parent.exists():
            path.parent.chmod(0o700)
