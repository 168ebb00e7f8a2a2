"""K5, O1: a service whose database, disk or descriptors are unavailable for a while.

Results fetched during the outage are stored later, no source is polled twice or counted as
failing, readiness reports the cause, and the service recovers without help.
"""

import asyncio
import contextlib
import os
import resource
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from tests.crash.audit import audit, failed_polls, missing
from tests.crash.fork_server import ForkedProcess, ForkServer, fork_server
from tests.crash.raw_database import RawDatabase, RawPostgres, RawSqlite
from tests.crash.restarted_service import DEADLINE_SECONDS, RestartedService
from tests.crash.service_client import KeptConnection
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
async def there() -> AsyncIterator[ForkServer]:
    async with fork_server() as one:
        yield one


@pytest.fixture
def service(there: ForkServer, tmp_path: Path) -> Callable[[RawDatabase], RestartedService]:
    return lambda database: RestartedService(database, tmp_path, there, Random(5))


patiently = partial(until, seconds=DEADLINE_SECONDS)


@contextlib.asynccontextmanager
async def polling(service: RestartedService) -> AsyncIterator[ForkedProcess]:
    """A service that is ready."""
    async with service.begun():
        service.begin_with_first_schema()
        async with service.serving() as process:
            await patiently(lambda: is_ready(service))
            yield process


@contextlib.asynccontextmanager
async def with_open_requests(service: RestartedService) -> AsyncIterator[ForkedProcess]:
    """A service that has sent a request to every host and received no response."""
    async with polling(service) as process:
        service.gate.clear()
        asked = len(service.web.visits)
        service.request_all()
        await patiently(lambda: len(service.web.visits) >= asked + HOSTS)
        yield process


async def wrong_checks(service: RestartedService) -> dict[str, str]:
    """The failed checks of readiness, with their messages."""
    status, reported = await service.client.call("GET", "/api/ready")
    checks: dict[str, Any] = reported["checks"] if reported else {}
    wrong = {name: check["detail"] for name, check in checks.items() if not check["ok"]}
    assert (status == 200) == (not wrong), reported
    wrong.pop("loop", None)  # the delay depends on machine load
    return wrong


async def is_ready(service: RestartedService) -> bool:
    return not await wrong_checks(service)


async def recovered(service: RestartedService) -> None:
    """The service recovers without help: all polled once, nothing lost, no failure counted."""
    await service.until_polled()
    await patiently(lambda: is_ready(service))
    asked = Counter(len(feed.history) for feed in service.feeds)
    assert asked == {1: len(service.feeds)}, "what was fetched was fetched again"
    found = audit(service.database, service.feeds, service.log) + failed_polls(service.database)
    assert found + missing(service.database, service.feeds) == []
    assert "Traceback" not in service.log


async def test_k5_a_database_locked_by_another_program(
    service: Callable[[RawDatabase], RestartedService], tmp_path: Path
):
    here = service(RawSqlite(tmp_path / "test.db"))
    async with with_open_requests(here):
        other = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
        with contextlib.closing(other):
            other.execute("BEGIN IMMEDIATE")
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert "database" in await wrong_checks(here)
            other.execute("ROLLBACK")
        await recovered(here)


async def test_k5_a_full_disk(service: Callable[[RawDatabase], RestartedService], tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=64) as disk:
        here = service(RawSqlite(disk / "test.db"))
        async with with_open_requests(here):
            fill(disk / "ballast")
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert {"database", "disk"} <= (await wrong_checks(here)).keys()
            (disk / "ballast").unlink()
            await recovered(here)


def fill(ballast: Path) -> None:
    """Fill the disk."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def mentions(service: RestartedService, check: str, words: str) -> bool:
    """Whether readiness reports this failed check with this text."""
    return words in (await wrong_checks(service)).get(check, "")


async def test_o1_descriptors_are_exhausted(
    service: Callable[[RawDatabase], RestartedService], tmp_path: Path
):
    here = service(RawSqlite(tmp_path / "test.db"))
    async with polling(here) as process, KeptConnection(here.client.port) as kept:
        usual = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        await patiently(lambda: without_free_files(here, process, kept))
        status, reported = await kept.get("/api/ready")
        assert (status, reported["checks"]["files"]["ok"]) == (503, False)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, usual)
        await patiently(lambda: is_ready(here))
        await here.until_polled()
        kinds = "SELECT DISTINCT failure_kind FROM polls WHERE outcome = 'failed'"
        assert here.database.rows(kinds) == [("local",)]
        assert audit(here.database, here.feeds, here.log) == []  # no failure was counted
        here.request_all()
        await here.until_polled()
        assert audit(here.database, here.feeds, here.log) + missing(here.database, here.feeds) == []
        assert "Traceback" not in here.log


async def without_free_files(
    service: RestartedService, process: ForkedProcess, kept: KeptConnection
) -> bool:
    """Leave the service no free descriptor and a feed to fetch; return whether it reports that.

    Repeated: a descriptor that was open for a moment is free again afterwards. An open connection
    to a feed needs no new descriptor, so these must have closed before. The requests keep the other
    connection open.
    """
    assert (await kept.get("/api/health"))[0] == 200
    if not service.web.connections and not await service.waiting():
        _, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
        lowest_free = next(number for number in count() if number not in used)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (lowest_free, most))
        service.request_all()
    return "too many open files" in service.log


@pytest.mark.postgres
async def test_k5_a_server_is_restarted(
    service: Callable[[RawDatabase], RestartedService], postgres_server: PostgresServer
):
    here = service(RawPostgres(postgres_server.new_database()))
    async with with_open_requests(here):
        await asyncio.to_thread(postgres_server.stop)
        try:
            here.gate.set()
            await patiently(lambda: mentions(here, "results", f"{HOSTS} polls wait"))
            assert "database" in await wrong_checks(here)
        finally:
            await asyncio.to_thread(postgres_server.start)
        await recovered(here)


@pytest.mark.postgres
async def test_k5_connections_are_cut_during_polls(
    service: Callable[[RawDatabase], RestartedService], postgres_server: PostgresServer
):
    database = RawPostgres(postgres_server.new_database())
    here = service(database)
    async with with_open_requests(here):
        here.gate.set()
        cut = [await asyncio.to_thread(postgres_server.cut_off, database.url) for _ in range(5)]
        assert sum(cut) > 0, "no connection was cut"
        await recovered(here)
