"""`app.worker.port`: liveness, readiness and metrics of one worker (K8, U1)."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from headwater import __version__
from headwater.app import App, open_app
from headwater.operations.tokens import add_token
from headwater.settings import load_settings
from tests.api.prometheus_text import read
from tests.cluster.failure_scenarios import HOSTS, urls_of
from tests.cluster.recording_web import a_web
from tests.cluster.worker_processes import WorkerProcesses, add_due, until
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
ANY_PORT = {"APP__WORKER__PORT": "0"}


@asynccontextmanager
async def endpoints_of(
    processes: WorkerProcesses, number: int
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the port of a worker."""
    log = processes.log(number)
    await until(lambda: re.search(r"metrics url=\S+", log.read_text()), "no port")
    found = re.search(r"metrics url=(\S+)", log.read_text())
    assert found is not None
    async with aiohttp.ClientSession(found[1]) as session:
        yield session


async def status_of(session: aiohttp.ClientSession, path: str, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with session.get(path, headers=headers) as answer:
        return answer.status


async def is_ready(session: aiohttp.ClientSession) -> bool:
    return await status_of(session, "/ready") == 200


async def test_a_worker_serves_its_health_readiness_and_own_metrics(
    app: App, processes: WorkerProcesses
):
    async with a_web(HOSTS) as web:
        sources = await add_due(app, urls_of(web, HOSTS[:4], 2))
        for _ in range(2):
            processes.start(**ANY_PORT)
        async with endpoints_of(processes, 0) as first, endpoints_of(processes, 1) as second:
            for session in (first, second):
                async with session.get("/health") as answer:
                    assert await answer.json() == {"status": "ok", "version": __version__}
                await until(partial(is_ready, session), "not ready")
                async with session.get("/ready") as answer:
                    checks = (await answer.json())["checks"]
                assert checks["leases"] == {"ok": True, "detail": "confirmed"}
                assert {"database", "results", "loop", "files"} < set(checks)
                assert await status_of(session, "/api/ready") == 404

            async def polls(session: aiohttp.ClientSession) -> float:
                async with session.get("/metrics") as answer:
                    assert answer.status == 200
                    found = read(await answer.text())
                # those of the database are served by API servers
                assert "headwater_sources" not in found
                assert "headwater_workers" not in found
                assert found["process_resident_memory_bytes"][""] > 0
                return found["headwater_polls_total"]["outcome=unchanged,type=rss"]

            async def are_all_counted() -> bool:
                return await polls(first) + await polls(second) == len(sources)

            await until(are_all_counted, "the workers do not count their own polls")


async def test_u1_metrics_of_a_worker_need_a_token_where_tokens_exist(
    app: App, processes: WorkerProcesses
):
    processes.start(**ANY_PORT)
    async with endpoints_of(processes, 0) as session:
        await until(lambda: is_ready(session), "not ready")
        assert await status_of(session, "/metrics") == 200
        made = await add_token(app.store, None, "prometheus", app.clock.now())
        assert await status_of(session, "/metrics") == 401
        assert await status_of(session, "/metrics", "wrong") == 401
        assert await status_of(session, "/metrics", made.secret) == 200
        assert await status_of(session, "/health") == 200
        assert await status_of(session, "/ready") == 200
        async with session.get("/health", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403  # U3


async def test_u1_a_worker_that_others_can_reach_serves_metrics_only_with_a_token(
    app: App, processes: WorkerProcesses
):
    processes.start(**ANY_PORT, APP__WORKER__HOST="0.0.0.0")
    pod = {"Host": "10.1.2.3:8421"}  # of a probe
    async with endpoints_of(processes, 0) as session:
        await until(lambda: is_ready(session), "not ready")
        async with session.get("/ready", headers=pod) as answer:
            assert answer.status == 200
        assert await status_of(session, "/metrics") == 401
        made = await add_token(app.store, None, "prometheus", app.clock.now())
        assert await status_of(session, "/metrics", made.secret) == 200


async def test_k5_a_worker_without_its_database_is_alive_and_not_ready(
    own_server: PostgresServer, tmp_path: Path
):
    url = own_server.new_database()
    async with open_app(load_settings(options={"app.database-url": url}, environ={})):
        pass  # creates the tables
    processes = WorkerProcesses(url, tmp_path, lease_seconds=3)
    try:
        processes.start(**ANY_PORT)
        async with endpoints_of(processes, 0) as session:
            await until(lambda: is_ready(session), "not ready")
            await asyncio.to_thread(own_server.stop)

            async def is_not_ready() -> bool:
                return await status_of(session, "/ready") == 503

            await until(is_not_ready, "ready without a database")
            assert await status_of(session, "/health") == 200
            await asyncio.to_thread(own_server.start)
            await until(lambda: is_ready(session), "not ready again")
    finally:
        processes.stop_all()


async def test_a_worker_that_waits_for_its_database_is_alive(
    own_server: PostgresServer, tmp_path: Path
):
    url = own_server.new_database()
    await asyncio.to_thread(own_server.stop)
    processes = WorkerProcesses(url, tmp_path)
    try:
        processes.start(**ANY_PORT)
        async with endpoints_of(processes, 0) as session:
            assert await status_of(session, "/health") == 200
            assert await status_of(session, "/ready") == 503
            assert await status_of(session, "/metrics") == 503
            await asyncio.to_thread(own_server.start)
            await until(lambda: is_ready(session), "not ready")
    finally:
        processes.stop_all()
