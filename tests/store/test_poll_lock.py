"""One process at a time has the right to poll a database (S10)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headwater.store import Store, open_database
from tests.postgres import PostgresServer
from tests.store.store_data import StoreClock

HOLDER = """
import sys
from headwater.store import open_database

database = open_database(sys.argv[1])
print(database.is_poll_locked(), database.take_poll_lock(), flush=True)
sys.stdin.readline()
database.release()
print("released", flush=True)
sys.stdin.readline()
"""


@asynccontextmanager
async def another_process(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that locks a database for polling, and releases it on request."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, url, stdin=pipe, stdout=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: asyncio.subprocess.Process, say: bytes = b"") -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(say)
    return (await process.stdout.readline()).strip()


async def becomes(wanted: bool, answer: Callable[[], bool]) -> bool:
    """Poll until a value is returned: a server notices a lost client late."""
    while answer() is not wanted:
        await asyncio.sleep(0.01)
    return True


async def test_s10_another_polling_process_is_detected(store: Store, url: str):
    database = store.database
    async with another_process(url) as process:
        assert await line(process) == b"False True"
        assert database.is_poll_locked()
        assert not database.take_poll_lock()
        assert database.is_poll_locked()

        assert await line(process, b"release\n") == b"released"
        assert await becomes(False, database.is_poll_locked)
        assert database.take_poll_lock()


async def test_s10_our_polling_is_detected_by_another_process(store: Store, url: str):
    assert store.database.take_poll_lock()

    async with another_process(url) as process:
        assert await line(process) == b"True False"


async def test_s10_a_killed_process_releases_the_right_to_poll(store: Store, url: str):
    async with another_process(url) as process:
        assert await line(process) == b"False True"
        process.kill()
        await process.wait()

        assert await becomes(True, store.database.take_poll_lock)


async def test_s10_two_stores_of_one_process_exclude_each_other(store: Store, url: str):
    async with Store(open_database(url), StoreClock()) as other:
        assert store.database.take_poll_lock()
        assert not store.database.is_poll_locked()  # by another process
        assert not other.database.take_poll_lock()
        assert other.database.is_poll_locked()

        store.database.release()
        store.database.release()
        assert await becomes(True, other.database.take_poll_lock)

    assert await becomes(True, store.database.take_poll_lock)  # closing a store releases the right


async def test_s10_locking_again_keeps_the_right(store: Store, url: str):
    assert store.database.take_poll_lock()
    assert store.database.take_poll_lock()

    other = open_database(url)
    assert other.is_poll_locked()
    store.database.release()
    assert await becomes(False, other.is_poll_locked)
    await other.close()


async def test_s10_polling_locks_leave_no_file_open(store: Store, url: str):
    store.database.take_poll_lock()
    store.database.release()
    before = os.listdir("/proc/self/fd")

    for _ in range(20):
        assert await becomes(True, store.database.take_poll_lock)
        assert not store.database.is_poll_locked()
        store.database.release()

    assert len(os.listdir("/proc/self/fd")) <= len(before)


async def test_s10_reading_and_writing_need_no_polling_lock(store: Store, url: str):
    async with Store(open_database(url), StoreClock()) as other:
        assert other.database.take_poll_lock()
        await store.key_values.set("paused", "true")
        assert await other.key_values.get("paused") == "true"


@pytest.mark.postgres
async def test_s10_a_lost_polling_lock_is_detected_and_acquired_again(
    postgres_server: PostgresServer, postgres_url: Callable[[], str]
):
    url = postgres_url()
    first, second = open_database(url), open_database(url)
    assert await first.acquire_poll_lock()
    postgres_server.cut_off(url)
    assert await first.renew_poll_lock()
    assert not await second.acquire_poll_lock()
    postgres_server.cut_off(url)
    assert await second.acquire_poll_lock()
    assert not await first.renew_poll_lock()
    for database in (first, second):
        database.release()
        await database.close()


async def test_s10_a_link_to_the_file_has_the_same_lock(new_sqlite: Callable[[], str], tmp_path):
    url = new_sqlite()
    link = tmp_path / "link.db"
    link.symlink_to(url.removeprefix("sqlite:///"))
    first, second = open_database(url), open_database(f"sqlite:///{link}")
    assert await first.acquire_poll_lock()
    assert second.is_poll_locked()
    assert not await second.acquire_poll_lock()
    first.release()
    assert await second.acquire_poll_lock()
    second.release()
    await first.close()
    await second.close()


async def test_s10_a_deleted_lock_file_is_locked_again_or_lost(new_sqlite: Callable[[], str]):
    url = new_sqlite()
    first, second = open_database(url), open_database(url)
    assert await first.acquire_poll_lock()
    os.unlink(f"{url.removeprefix('sqlite:///')}.lock")
    assert await first.renew_poll_lock()
    assert not await second.acquire_poll_lock(), "the new lock file is the first one's"
    os.unlink(f"{url.removeprefix('sqlite:///')}.lock")
    assert await second.acquire_poll_lock()
    assert not await first.renew_poll_lock(), "two would poll"
    second.release()
    await first.close()
    await second.close()
