"""One process at a time has the right to poll a database (S10)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headwater.store import Store, open_database
from tests.postgres import PostgresServer
from tests.store.pieces import StoreClock

HOLDER = """
import sys
from headwater.store import open_database

database = open_database(sys.argv[1])
print(database.is_claimed(), database.claim(), flush=True)
sys.stdin.readline()
database.release()
print("released", flush=True)
sys.stdin.readline()
"""


@asynccontextmanager
async def another_process(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that claims a database, and releases it when told."""
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
    """Ask until the answer is the one wanted: a server needs a moment to miss a client."""
    while answer() is not wanted:
        await asyncio.sleep(0.01)
    return True


async def test_s10_another_process_that_polls_is_noticed(store: Store, url: str):
    database = store.database
    async with another_process(url) as process:
        assert await line(process) == b"False True"
        assert database.is_claimed()
        assert not database.claim()
        assert database.is_claimed()

        assert await line(process, b"release\n") == b"released"
        assert await becomes(False, database.is_claimed)
        assert database.claim()


async def test_s10_a_process_finds_that_we_poll(store: Store, url: str):
    assert store.database.claim()

    async with another_process(url) as process:
        assert await line(process) == b"True False"


async def test_s10_a_killed_process_leaves_the_right_to_others(store: Store, url: str):
    async with another_process(url) as process:
        assert await line(process) == b"False True"
        process.kill()
        await process.wait()

        assert await becomes(True, store.database.claim)


async def test_s10_two_stores_of_one_process_exclude_each_other(store: Store, url: str):
    async with Store(open_database(url), StoreClock()) as other:
        assert store.database.claim()
        assert not store.database.is_claimed()  # by somebody else
        assert not other.database.claim()
        assert other.database.is_claimed()

        store.database.release()
        store.database.release()
        assert await becomes(True, other.database.claim)

    assert await becomes(True, store.database.claim)  # closing a store gives the right back


async def test_s10_claiming_again_keeps_the_right(store: Store, url: str):
    assert store.database.claim()
    assert store.database.claim()

    other = open_database(url)
    assert other.is_claimed()
    store.database.release()
    assert await becomes(False, other.is_claimed)
    await other.close()


async def test_s10_claims_leave_no_file_open(store: Store, url: str):
    store.database.claim()
    store.database.release()
    before = os.listdir("/proc/self/fd")

    for _ in range(20):
        assert await becomes(True, store.database.claim)
        assert not store.database.is_claimed()
        store.database.release()

    assert len(os.listdir("/proc/self/fd")) <= len(before)


async def test_s10_reading_and_writing_need_no_claim(store: Store, url: str):
    async with Store(open_database(url), StoreClock()) as other:
        assert other.database.claim()
        await store.facts.set("paused", "true")
        assert await other.facts.get("paused") == "true"


@pytest.mark.postgres
async def test_s10_a_right_to_poll_that_was_cut_off_is_noticed_and_taken_again(
    postgres_server: PostgresServer, postgres_url: Callable[[], str]
):
    url = postgres_url()
    first, second = open_database(url), open_database(url)
    assert await first.try_claim()
    postgres_server.cut_off(url)
    assert await first.keep_claim()
    assert not await second.try_claim()
    postgres_server.cut_off(url)
    assert await second.try_claim()
    assert not await first.keep_claim()
    for database in (first, second):
        database.release()
        await database.close()


async def test_s10_a_link_to_the_file_is_no_way_around(new_sqlite: Callable[[], str], tmp_path):
    url = new_sqlite()
    link = tmp_path / "link.db"
    link.symlink_to(url.removeprefix("sqlite:///"))
    first, second = open_database(url), open_database(f"sqlite:///{link}")
    assert await first.try_claim()
    assert second.is_claimed()
    assert not await second.try_claim()
    first.release()
    assert await second.try_claim()
    second.release()
    await first.close()
    await second.close()


async def test_s10_a_deleted_lock_file_is_taken_anew_or_lost(new_sqlite: Callable[[], str]):
    url = new_sqlite()
    first, second = open_database(url), open_database(url)
    assert await first.try_claim()
    os.unlink(f"{url.removeprefix('sqlite:///')}.lock")
    assert await first.keep_claim()
    assert not await second.try_claim(), "the new lock file is the first one's"
    os.unlink(f"{url.removeprefix('sqlite:///')}.lock")
    assert await second.try_claim()
    assert not await first.keep_claim(), "two would poll"
    second.release()
    await first.close()
    await second.close()
