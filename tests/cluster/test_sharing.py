"""Several workers share the sources: no poll twice, no host requested by two at once (P3, S2)."""

import asyncio
import json
import re
import signal

import pytest

from headwater.app import App
from headwater.rules.shards import shard_of
from tests.cluster.failure_scenarios import HOSTS, urls_of
from tests.cluster.recording_web import a_web
from tests.cluster.worker_processes import WorkerProcesses, add_due, number, stored_polls, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
EACH = 5


async def test_p3_three_workers_poll_everything_once_and_no_host_concurrently(
    app: App, processes: WorkerProcesses
):
    async with a_web(HOSTS) as web:
        processes.delay_seconds = 0.2
        for _ in range(3):
            processes.start()

        async def all_have_shards() -> bool:
            sql = "SELECT count(*) FROM shards WHERE worker IS NOT NULL GROUP BY worker"
            return sorted(await app.store.database.fetch(sql)) == [(85,), (85,), (86,)]

        await until(all_have_shards, "the shards were not shared")
        sources = await add_due(app, urls_of(web, HOSTS, EACH))
        await until(lambda: len(web.request_counts()) == len(sources), "not all were polled")

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        async def all_reported() -> bool:
            return await number(app, "SELECT sum(polls) FROM workers") >= len(sources)

        await until(all_stored, "not all were stored")
        await until(all_reported, "not all were counted")
        assert web.overlaps == []
        assert set(web.request_counts().values()) == {1}
        assert web.shortest_pause() >= 0.2
        status = json.loads(processes.command_output("cluster", "status", "--json"))
        assert len(status["workers"]) == 3
        assert all(one["polls"] for one in status["workers"]), "one polled nothing"
        assert (status["due"], status["openShards"], status["shards"]) == (0, 256, 256)
        assert "256 shards" in processes.command_output("cluster")


async def test_p3_a_redirect_waits_for_a_host_visited_by_another_worker(
    app: App, processes: WorkerProcesses
):
    """Every host but one redirects to that one, whose own sources another worker polls."""
    goal, others = HOSTS[0], HOSTS[1:13]
    assert {shard_of(host) for host in others} - {shard_of(goal)}
    async with a_web(HOSTS) as web:
        processes.delay_seconds = 0.1
        web.redirects = {host: f"http://{goal}:{web.port}/from-{host}" for host in others}
        urls = urls_of(web, others, 1) + [f"http://{goal}:{web.port}/own-{n}" for n in range(20)]
        sources = await add_due(app, urls)
        for _ in range(3):
            processes.start()

        async def all_stored() -> bool:
            return await stored_polls(app) >= len(sources)

        await until(all_stored, "not all were stored")
        assert web.overlaps == []
        assert len(web.recorded[goal]) == 20 + len(others)
        assert web.shortest_pause() >= 0.1


async def test_a_worker_without_its_database_reports_it_and_exits(processes: WorkerProcesses):
    processes.url = re.sub(r"/headwater_\d+", "/nowhere", processes.url)
    worker = processes.start()
    assert await asyncio.to_thread(worker.wait, 60) == 1
    assert 'database "nowhere" does not exist' in processes.log(0).read_text()


async def test_s8_a_stopped_worker_releases_its_shards_at_once(
    app: App, processes: WorkerProcesses
):
    async with a_web(HOSTS) as web:
        processes.delay_seconds = 0.2
        processes.lease_seconds = 60  # waiting for the lease to expire has no benefit
        sources = await add_due(app, urls_of(web, HOSTS, 12))
        leaving = processes.start()
        await until(lambda: web.requests() > 20, "nothing was polled")
        processes.start()
        leaving.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(leaving.wait, 60) == 0  # the web responds again
        named = """SELECT count(*) FROM shards
            WHERE worker IS NOT NULL AND worker NOT IN (SELECT id FROM workers)"""
        assert await number(app, named) == 0

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        await until(all_stored, "the rest was not taken over")
        assert set(web.request_counts().values()) == {1}
        assert web.overlaps == []
        assert web.shortest_pause() >= 0.2
