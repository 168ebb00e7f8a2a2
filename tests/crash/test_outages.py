"""K5, O1: a service whose database, disk or descriptors are away for a while, and come back.

Results that were fetched meanwhile are kept and stored, nobody is asked twice or blamed, readiness
says what is wrong, and nobody has to do anything.
"""

import asyncio
import contextlib
import os
import resource
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from tests.crash.audit import audit, failed_polls, missing
from tests.crash.books import Books, PostgresBooks, SqliteBooks
from tests.crash.door import KeptConnection
from tests.crash.life import DEADLINE_SECONDS, Life
from tests.crash.nest import Hatched, Nest, nest
from tests.postgres import PostgresServer
from tests.store.test_outages import small_disk
from tests.system.conftest import until

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]
HOSTS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there() -> AsyncIterator[Nest]:
    async with nest() as one:
        yield one


@pytest.fixture
def life(there: Nest, tmp_path: Path) -> Callable[[Books], Life]:
    return lambda books: Life(books, tmp_path, there, Random(5))


patiently = partial(until, seconds=DEADLINE_SECONDS)


@contextlib.asynccontextmanager
async def polling(life: Life) -> AsyncIterator[Hatched]:
    """A service that is ready."""
    async with life.begun():
        life.begin_with_first_schema()
        async with life.serving() as process:
            await patiently(lambda: is_ready(life))
            yield process


@contextlib.asynccontextmanager
async def amid_polls(life: Life) -> AsyncIterator[Hatched]:
    """A service whose hosts have all been asked and none has answered."""
    async with polling(life) as process:
        life.gate.clear()
        asked = len(life.web.visits)
        life.request_all()
        await patiently(lambda: len(life.web.visits) >= asked + HOSTS)
        yield process


async def wrong_checks(life: Life) -> dict[str, str]:
    """What readiness finds wrong, and how it says so."""
    status, told = await life.door.call("GET", "/api/ready")
    checks: dict[str, Any] = told["checks"] if told else {}
    wrong = {name: check["detail"] for name, check in checks.items() if not check["ok"]}
    assert (status == 200) == (not wrong), told
    wrong.pop("loop", None)  # how late that is is the machine's business
    return wrong


async def is_ready(life: Life) -> bool:
    return not await wrong_checks(life)


async def recovered(life: Life) -> None:
    """By itself: all is polled, once; nothing is lost, nobody blamed, and it says it is ready."""
    await life.until_polled()
    await patiently(lambda: is_ready(life))
    asked = Counter(len(feed.history) for feed in life.feeds)
    assert asked == {1: len(life.feeds)}, "what was fetched was fetched again"
    found = audit(life.books, life.feeds, life.log) + failed_polls(life.books)
    assert found + missing(life.books, life.feeds) == []
    assert "Traceback" not in life.log


async def test_k5_a_database_locked_by_another_program(
    life: Callable[[Books], Life], tmp_path: Path
):
    here = life(SqliteBooks(tmp_path / "test.db"))
    async with amid_polls(here):
        other = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
        with contextlib.closing(other):
            other.execute("BEGIN IMMEDIATE")
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert "database" in await wrong_checks(here)
            other.execute("ROLLBACK")
        await recovered(here)


async def test_k5_a_full_disk(life: Callable[[Books], Life], tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=64) as disk:
        here = life(SqliteBooks(disk / "test.db"))
        async with amid_polls(here):
            fill(disk / "ballast")
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert {"database", "disk"} <= (await wrong_checks(here)).keys()
            (disk / "ballast").unlink()
            await recovered(here)


def fill(ballast: Path) -> None:
    """Take all the room that there is."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def mentions(life: Life, check: str, words: str) -> bool:
    """Whether readiness finds this wrong, in these words."""
    return words in (await wrong_checks(life)).get(check, "")


async def test_o1_descriptors_used_up(life: Callable[[Books], Life], tmp_path: Path):
    here = life(SqliteBooks(tmp_path / "test.db"))
    async with polling(here) as process, KeptConnection(here.door.port) as kept:
        usual = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        await patiently(lambda: in_want_of_files(here, process, kept))
        status, told = await kept.get("/api/ready")
        assert (status, told["checks"]["files"]["ok"]) == (503, False)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, usual)
        await patiently(lambda: is_ready(here))
        await here.until_polled()
        kinds = "SELECT DISTINCT failure_kind FROM polls WHERE outcome = 'failed'"
        assert here.books.rows(kinds) == [("local",)]
        assert audit(here.books, here.feeds, here.log) == []  # nobody's counters moved
        here.request_all()
        await here.until_polled()
        assert audit(here.books, here.feeds, here.log) + missing(here.books, here.feeds) == []
        assert "Traceback" not in here.log


async def in_want_of_files(life: Life, process: Hatched, kept: KeptConnection) -> bool:
    """Leave it no descriptor but those it has, and news to fetch; whether it says so.

    Again and again: what it has open for a moment is one that it can use afterwards. And the
    connection would be closed if nobody used it.
    """
    assert (await kept.get("/api/health"))[0] == 200
    _, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    open_files = len(os.listdir(f"/proc/{process.pid}/fd"))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (open_files, most))
    if not await life.waiting():
        life.request_all()
    return "too many open files" in life.log


@pytest.mark.postgres
async def test_k5_a_server_that_is_restarted(
    life: Callable[[Books], Life], postgres_server: PostgresServer
):
    here = life(PostgresBooks(postgres_server.new_database()))
    async with amid_polls(here):
        await asyncio.to_thread(postgres_server.stop)
        try:
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert "database" in await wrong_checks(here)
        finally:
            await asyncio.to_thread(postgres_server.start)
        await recovered(here)


@pytest.mark.postgres
async def test_k5_connections_cut_in_the_middle_of_everything(
    life: Callable[[Books], Life], postgres_server: PostgresServer
):
    books = PostgresBooks(postgres_server.new_database())
    here = life(books)
    async with amid_polls(here):
        here.gate.set()
        cut = [await asyncio.to_thread(postgres_server.cut_off, books.url) for _ in range(5)]
        assert sum(cut) > 0, "nobody was cut off"
        await recovered(here)
