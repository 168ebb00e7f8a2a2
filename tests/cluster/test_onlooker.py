"""API servers beside workers: they poll nothing, and know and reach everything (S9, S10, G2)."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from headwater.app import App
from tests.cluster.crew import Crew, add_due, number, stored_polls, until
from tests.cluster.runs import HOSTS, urls_of
from tests.cluster.web import a_web

pytestmark = pytest.mark.postgres
BASE = "/api/users/default/podcasts/default/sources"


@asynccontextmanager
async def served(crew: Crew, *options: str) -> AsyncIterator[aiohttp.ClientSession]:
    """An API server on the workers' database."""
    environ = {**os.environ, **crew.settings()}
    log = crew.folder / "serve.log"
    with log.open("wb") as errors:
        command = [sys.executable, "-m", "headwater", "serve", "--port", "0", *options]
        server = subprocess.Popen(command, env=environ, cwd=crew.folder, stderr=errors)
    try:
        await until(lambda: "serving" in log.read_text() or server.poll() is not None, "no start")
        found = re.search(r"url=(\S+)", log.read_text())
        assert found is not None, log.read_text()
        async with aiohttp.ClientSession(found[1]) as session:
            yield session
        server.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait, 30) == 0
    finally:
        server.kill()
        server.wait()


async def told_of(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_s9_a_poll_by_hand_reaches_the_worker_that_has_its_shard(app: App, crew: Crew):
    async with a_web(HOSTS) as web:
        sources = await add_due(app, urls_of(web, HOSTS[:8], 2))
        crew.start()
        crew.start()

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        await until(all_stored, "not all were polled")
        async with served(crew, "--no-scheduler") as session:
            for source in sources[:5]:
                async with session.post(f"{BASE}/{source.id}/poll") as answer:
                    assert answer.status == 200, await answer.text()
                    assert (await answer.json())["outcome"] == "unchanged"

            async def are_counted() -> bool:
                metrics = await (await session.get("/metrics")).text()
                return 'headwater_polls_total{outcome="unchanged",type="rss"} 5' in metrics

            await until(are_counted, "what was polled is not counted")
            assert "headwater_workers 2" in await (await session.get("/metrics")).text()
            ready = await told_of(session, "/api/ready")
            assert ready["checks"]["scheduler"]["ok"]
            cluster = await told_of(session, "/api/cluster")
            assert len(cluster["workers"]) == 2
            assert sum(one["polls"] for one in cluster["workers"]) > 0  # one may have done it all
        assert web.overlaps == []


async def test_s9_a_poll_by_hand_is_answered_though_nobody_tells_of_it(app: App, crew: Crew):
    """News between processes may be lost; what is stored is not."""
    async with a_web(HOSTS[:1]) as web:
        (source,) = await add_due(app, urls_of(web, HOSTS[:1], 1))
        crew.start("tests.cluster.quiet")
        async with served(crew, "--no-scheduler") as session:
            async with session.post(f"{BASE}/{source.id}/poll") as answer:
                assert answer.status == 200, await answer.text()
                told = await answer.json()
            assert (told["outcome"], told["status"]) == ("unchanged", 304), told


async def test_a_worker_that_is_not_heard_of_is_called_silent(app: App, crew: Crew):
    crew.lease_seconds = 600  # nobody buries it meanwhile
    async with served(crew, "--no-scheduler") as session:
        async with session.get("/api/ready") as answer:
            told = await answer.text()
            assert (answer.status, "no worker is alive" in told) == (503, True), told
        sleeper = crew.start()

        async def is_silent(wanted: bool) -> bool:
            workers = (await told_of(session, "/api/cluster"))["workers"]
            return [one["silent"] for one in workers] == [wanted]

        await until(lambda: is_silent(False), "no worker came")
        sleeper.send_signal(signal.SIGSTOP)
        await until(lambda: is_silent(True), "nobody noticed")
        shown = await asyncio.to_thread(crew.asked, "cluster", "status")
        assert "silent for" in shown
        async with session.get("/api/ready") as answer:
            assert "no worker is alive" in await answer.text()


async def test_what_workers_count_is_told_by_every_api_server(app: App, crew: Crew):
    async with a_web(HOSTS) as web, served(crew, "--no-scheduler") as session:
        sources = await add_due(app, urls_of(web, HOSTS, 2))
        crew.start()
        crew.start()

        async def results() -> float:
            metrics = await (await session.get("/metrics")).text()
            found = re.search(r"headwater_commit_outcomes_sum (\S+)", metrics)
            assert found is not None
            return float(found[1])

        async def all_told() -> bool:
            return await results() == len(sources)

        await until(all_told, "what workers stored is not told")
        workers = (await told_of(session, "/api/cluster"))["workers"]
        assert sum(one["results"] for one in workers) == len(sources)
        assert all(0 < one["commits"] <= one["results"] for one in workers if one["results"])
        lengths = "SELECT max(length(counts)) FROM workers"
        assert 0 < await number(app, lengths) < 1000
        crew.dismiss()
        assert await results() == len(sources), "what is counted stays counted"


async def test_p3_a_preview_waits_for_a_host_that_a_worker_visits(app: App, crew: Crew):
    host = HOSTS[0]
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.2
        web.answer_seconds = 0.2
        async with served(crew, "--no-scheduler") as session:
            sources = await add_due(app, urls_of(web, [host], 12))
            crew.start()
            await until(lambda: web.requests() > 1, "nothing was polled")
            asked = [
                session.post(f"{BASE}/preview", json={"url": f"http://{host}:{web.port}/new-{n}"})
                for n in range(3)
            ]
            answers = await asyncio.gather(*asked)
            assert {answer.status for answer in answers} <= {200, 422, 502}, answers

            async def all_stored() -> bool:
                return await stored_polls(app) == len(sources)

            await until(all_stored, "not all were polled")
        assert {f"{host}/new-{n}" for n in range(3)} <= set(web.times_asked())
        assert web.overlaps == []
        assert web.shortest_pause() >= 0.2


async def test_events_of_all_workers_are_told_where_somebody_listens(app: App, crew: Crew):
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.3
        sources = await add_due(app, urls_of(web, HOSTS, 3))
        async with served(crew, "--no-scheduler") as session:
            async with session.get("/api/events") as stream:
                crew.start()
                crew.start()
                finished = set[str]()
                async with asyncio.timeout(90):
                    while len(finished) < len(sources):
                        line = (await stream.content.readline()).decode()
                        if line.startswith("data: "):
                            data = json.loads(line.removeprefix("data: "))
                            if data.get("outcome") == "unchanged":
                                finished.add(data["sourceId"])
            assert finished == {source.id for source in sources}


async def test_g2_a_pause_stops_all_workers_and_survives_in_the_database(app: App, crew: Crew):
    async with a_web(HOSTS) as web, served(crew, "--no-scheduler") as session:
        async with session.put("/api/scheduler", json={"paused": True}) as answer:
            assert (await answer.json())["paused"] is True
        crew.start()

        async def working() -> bool:
            return await number(app, "SELECT count(*) FROM workers") == 1

        await until(working, "no worker came")
        sources = await add_due(app, urls_of(web, HOSTS[:4], 1))
        async with session.post(f"{BASE}/{sources[0].id}/poll") as answer:
            assert answer.status == 200, await answer.text()
        assert web.requests() == 1, "only what was asked for"
        async with session.put("/api/scheduler", json={"paused": False}) as answer:
            assert answer.status == 200
        await until(lambda: web.requests() == len(sources), "they did not go on")


async def test_s10_a_service_and_workers_do_not_poll_the_same_database(app: App, crew: Crew):
    crew.start()

    async def working() -> bool:
        return await number(app, "SELECT count(*) FROM workers") == 1

    await until(working, "no worker came")
    with pytest.raises(AssertionError, match="another headwater process polls this database"):
        async with served(crew):
            pass
    crew.dismiss()
    async with served(crew):
        second = crew.start()
        assert await asyncio.to_thread(second.wait, 60) != 0
        assert "polls this database alone" in crew.log(1).read_text()
