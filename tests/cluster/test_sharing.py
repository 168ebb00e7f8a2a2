"""Several workers are one polite crawler: nothing twice, nobody asked by two at once (P3, S2)."""

import asyncio
import json
import re
import signal

import pytest

from headwater.app import App
from headwater.rules.shards import shard_of
from tests.cluster.crew import Crew, add_due, number, stored_polls, until
from tests.cluster.runs import HOSTS, urls_of
from tests.cluster.web import a_web

pytestmark = pytest.mark.postgres
EACH = 5


async def test_p3_three_workers_poll_everything_once_and_no_host_two_at_a_time(
    app: App, crew: Crew
):
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.2
        for _ in range(3):
            crew.start(APP__CLUSTER__CONCURRENCY="8")  # so that there is work left for others

        async def all_live() -> bool:
            return await number(app, "SELECT count(*) FROM workers") == 3

        await until(all_live, "not all started")
        sources = await add_due(app, urls_of(web, HOSTS, EACH))
        await until(lambda: len(web.times_asked()) == len(sources), "not all were polled")

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        await until(all_stored, "not all were stored")
        assert web.overlaps == []
        assert set(web.times_asked().values()) == {1}
        assert web.shortest_pause() >= 0.2
        status = json.loads(crew.asked("cluster", "status", "--json"))
        assert len(status["workers"]) == 3
        assert len([one for one in status["workers"] if one["polls"]]) >= 2, "one did it all"
        assert (status["due"], status["stalledJobs"], status["shards"]) == (0, 0, 256)
        assert "256 shards" in crew.asked("cluster")


async def test_p3_a_redirect_waits_for_a_host_that_another_worker_visits(app: App, crew: Crew):
    """Every host but one redirects to that one, whose own sources are polled elsewhere."""
    goal, others = HOSTS[0], HOSTS[1:13]
    assert {shard_of(host) for host in others} - {shard_of(goal)}
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.1
        web.redirects = {host: f"http://{goal}:{web.port}/from-{host}" for host in others}
        urls = urls_of(web, others, 1) + [f"http://{goal}:{web.port}/own-{n}" for n in range(20)]
        sources = await add_due(app, urls)
        for _ in range(3):
            crew.start()

        async def all_stored() -> bool:
            return await stored_polls(app) >= len(sources)

        await until(all_stored, "not all were stored")
        assert web.overlaps == []
        assert len(web.asked[goal]) == 20 + len(others)
        assert web.shortest_pause() >= 0.1


async def test_a_worker_whose_database_does_not_exist_says_so_and_ends(crew: Crew):
    crew.url = re.sub(r"/headwater_\d+", "/nowhere", crew.url)
    worker = crew.start()
    assert await asyncio.to_thread(worker.wait, 60) == 1
    assert 'database "nowhere" does not exist' in crew.log(0).read_text()


async def test_s8_a_worker_that_is_told_to_stop_hands_over_at_once(app: App, crew: Crew):
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.2
        crew.lease_seconds = 60  # nobody gets anything by waiting for a lease to run out
        sources = await add_due(app, urls_of(web, HOSTS, 12))
        leaving = crew.start()
        await until(lambda: web.requests() > 20, "nothing was polled")
        crew.start()
        leaving.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(leaving.wait, 60) == 0  # the web goes on answering
        named = """SELECT count(*) FROM shards
            WHERE worker IS NOT NULL AND worker NOT IN (SELECT id FROM workers)"""
        assert await number(app, named) == 0

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        await until(all_stored, "the rest was not taken over")
        assert set(web.times_asked().values()) == {1}
        assert web.overlaps == []
        assert web.shortest_pause() >= 0.2
