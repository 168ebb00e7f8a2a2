"""API servers beside workers poll nothing, but report and request polls of all (S9, S10, G2)."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest

from headwater.app import App
from tests.api.scripted_hosts import feed
from tests.cli.command_runner import on_terminal
from tests.cluster.failure_scenarios import HOSTS, urls_of
from tests.cluster.recording_web import a_web
from tests.cluster.worker_processes import WorkerProcesses, add_due, number, stored_polls, until
from tests.store.store_data import a_post_of, a_success, stored
from tests.system.conftest import web_of

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
A_TICK = timedelta(seconds=1)
BASE = "/api/users/default/podcasts/default/sources"


@asynccontextmanager
async def served(processes: WorkerProcesses, *options: str) -> AsyncIterator[aiohttp.ClientSession]:
    """An API server on the workers' database."""
    environ = {**os.environ, **processes.settings()}
    log = processes.folder / "serve.log"
    with log.open("wb") as errors:
        command = [sys.executable, "-m", "headwater", "serve", "--port", "0", *options]
        server = subprocess.Popen(command, env=environ, cwd=processes.folder, stderr=errors)
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


async def is_reported(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_s9_a_manual_poll_reaches_the_worker_that_has_its_shard(
    app: App, processes: WorkerProcesses
):
    async with a_web(HOSTS) as web:
        sources = await add_due(app, urls_of(web, HOSTS[:8], 2))
        processes.start()
        processes.start()

        async def all_stored() -> bool:
            return await stored_polls(app) == len(sources)

        await until(all_stored, "not all were polled")
        async with served(processes, "--no-scheduler") as session:
            for source in sources[:5]:
                async with session.post(f"{BASE}/{source.id}/poll") as answer:
                    assert answer.status == 200, await answer.text()
                    assert (await answer.json())["outcome"] == "unchanged"

            async def are_counted() -> bool:
                metrics = await (await session.get("/metrics")).text()
                return 'headwater_polls_total{outcome="unchanged",type="rss"} 5' in metrics

            await until(are_counted, "what was polled is not counted")
            assert "headwater_workers 2" in await (await session.get("/metrics")).text()
            ready = await is_reported(session, "/api/ready")
            assert ready["checks"]["workers"]["ok"]
            assert ready["checks"]["workers"]["detail"].startswith("2 alive, last tick ")
            cluster = await is_reported(session, "/api/cluster")
            assert len(cluster["workers"]) == 2
            assert (
                sum(one["polls"] for one in cluster["workers"]) > 0
            )  # one worker may have done all polls
        assert web.overlaps == []


async def test_s9_a_manual_poll_returns_without_events(app: App, processes: WorkerProcesses):
    """Events between processes may be lost; stored results are not."""
    async with a_web(HOSTS[:1]) as web:
        (source,) = await add_due(app, urls_of(web, HOSTS[:1], 1))
        processes.start("tests.cluster.worker_without_events")
        async with served(processes, "--no-scheduler") as session:
            async with session.post(f"{BASE}/{source.id}/poll") as answer:
                assert answer.status == 200, await answer.text()
                reported = await answer.json()
            assert (reported["outcome"], reported["status"]) == ("unchanged", 304), reported


async def test_a_worker_without_heartbeats_is_reported_silent(app: App, processes: WorkerProcesses):
    processes.lease_seconds = 600  # its lease has not expired
    async with served(processes, "--no-scheduler") as session:

        async def is_reported_missing() -> bool:
            """The service reads the workers at intervals, so it reports later than the API.

            It can serve requests, and so it is ready.
            """
            check = (await is_reported(session, "/api/ready"))["checks"]["workers"]
            text = "no worker is alive: nothing is polled"
            return bool(check == {"ok": False, "detail": text})

        async def is_silent(wanted: bool) -> bool:
            workers = (await is_reported(session, "/api/cluster"))["workers"]
            return [one["silent"] for one in workers] == [wanted]

        await until(is_reported_missing, "a worker is reported")
        stopped = processes.start()
        await until(lambda: is_silent(False), "no worker came")
        stopped.send_signal(signal.SIGSTOP)
        await until(lambda: is_silent(True), "the worker is not reported silent")
        shown = await asyncio.to_thread(processes.command_output, "cluster", "status")
        assert "silent for" in shown
        await until(is_reported_missing, "a silent worker counts as alive")


async def test_k8_draining_every_worker_is_reported(app: App, processes: WorkerProcesses):
    text = "every worker is draining: nothing is polled"
    async with served(processes, "--no-scheduler") as session:

        async def workers() -> list[str]:
            return [one["id"] for one in (await is_reported(session, "/api/cluster"))["workers"]]

        async def both_run() -> bool:
            return len(await workers()) == 2

        async def warned(worker: str, draining: bool) -> bool:
            body = {"worker": worker, "draining": draining}
            async with session.put("/api/cluster/drain", json=body) as answer:
                assert answer.status == 200, await answer.text()
                return ((await answer.json())["warning"] or "").startswith(text)

        async def is_ready(wanted: bool) -> bool:
            check = (await is_reported(session, "/api/ready"))["checks"]["workers"]
            return bool(check["ok"] == wanted and (wanted or check["detail"] == text))

        async def says(wanted: str, *command: str) -> bool:
            return wanted in await asyncio.to_thread(processes.command_output, *command)

        processes.start()
        processes.start()
        await until(both_run, "no workers")
        one, other = await workers()
        assert not await warned(one, True)
        await until(lambda: warned(other, True), "no warning")
        await until(lambda: is_ready(False), "it is not reported")
        await until(lambda: says(f"! workers: {text}", "doctor"), "doctor does not report it")
        await until(lambda: says(text, "cluster", "status"), "status does not report it")
        status = ("--database-url", processes.url, "cluster", "status")
        shown = await asyncio.to_thread(on_terminal, processes.folder, *status, columns=60)
        assert other in shown.out  # a narrow terminal leaves out columns and keeps the id
        assert not await warned(one, False)
        await until(lambda: is_ready(True), "it is still reported")
        await until(lambda: says("✓ workers: 2 alive", "doctor"), "doctor still reports it")


async def test_counters_of_workers_are_reported_by_every_api_server(
    app: App, processes: WorkerProcesses
):
    async with a_web(HOSTS) as web, served(processes, "--no-scheduler") as session:
        sources = await add_due(app, urls_of(web, HOSTS, 2))
        processes.start()
        processes.start()

        async def results() -> float:
            metrics = await (await session.get("/metrics")).text()
            found = re.search(r"headwater_commit_outcomes_sum (\S+)", metrics)
            assert found is not None
            return float(found[1])

        async def are_all_reported() -> bool:
            return await results() == len(sources)

        await until(are_all_reported, "the counters of the workers are not reported")
        workers = (await is_reported(session, "/api/cluster"))["workers"]
        assert sum(one["results"] for one in workers) == len(sources)
        assert all(0 < one["commits"] <= one["results"] for one in workers if one["results"])
        lengths = "SELECT max(length(counts)) FROM workers"
        assert 0 < await number(app, lengths) < 1000
        processes.stop_all()
        assert await results() == len(sources), "what is counted stays counted"


async def test_p3_a_preview_waits_for_a_host_visited_by_a_worker(
    app: App, processes: WorkerProcesses
):
    host = HOSTS[0]
    async with a_web(HOSTS) as web:
        processes.delay_seconds = 0.2
        web.answer_seconds = 0.2
        async with served(processes, "--no-scheduler") as session:
            sources = await add_due(app, urls_of(web, [host], 12))
            processes.start()
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
        assert {f"{host}/new-{n}" for n in range(3)} <= set(web.request_counts())
        assert web.overlaps == []
        assert web.shortest_pause() >= 0.2


async def test_events_of_all_workers_reach_a_listener(app: App, processes: WorkerProcesses):
    async with a_web(HOSTS) as web:
        processes.delay_seconds = 0.3
        sources = await add_due(app, urls_of(web, HOSTS, 3))
        async with served(processes, "--no-scheduler") as session:
            async with session.get("/api/events") as stream:
                processes.start()
                processes.start()
                finished = set[str]()
                async with asyncio.timeout(90):
                    while len(finished) < len(sources):
                        line = (await stream.content.readline()).decode()
                        if line.startswith("data: "):
                            data = json.loads(line.removeprefix("data: "))
                            if data.get("outcome") == "unchanged":
                                finished.add(data["sourceId"])
            assert finished == {source.id for source in sources}


async def test_j2_a_server_beside_workers_adds_a_source_with_one_request(
    processes: WorkerProcesses,
):
    async with web_of(host=lambda _: feed("one", "two")) as web:
        processes.start()
        async with (
            served(processes, "--no-scheduler") as session,
            session.get("/api/events") as stream,
        ):
            body = {"url": web.url("host"), "includeHistory": True}
            async with session.post(BASE, json=body) as answer:
                assert answer.status == 201, await answer.text()
                source = await answer.json()
            assert (source["type"], source["postCount"]) == ("rss", 2)
            finished: dict[str, Any] = {}
            async with asyncio.timeout(60):
                while finished.get("sourceId") != source["id"] or "newPosts" not in finished:
                    line = (await stream.content.readline()).decode()
                    if line.startswith("data: "):
                        finished = json.loads(line.removeprefix("data: "))
            assert finished["newPosts"] == 2
            polled = (await is_reported(session, f"{BASE}/{source['id']}/polls"))["items"]
        assert (len(polled), len(web.visits)) == (1, 1)


async def test_g2_a_pause_stops_all_workers_and_is_stored(app: App, processes: WorkerProcesses):
    async with a_web(HOSTS) as web, served(processes, "--no-scheduler") as session:
        async with session.put("/api/scheduler", json={"paused": True}) as answer:
            assert (await answer.json())["paused"] is True
        processes.start()

        async def working() -> bool:
            return await number(app, "SELECT count(*) FROM workers") == 1

        await until(working, "no worker came")
        sources = await add_due(app, urls_of(web, HOSTS[:4], 1))
        async with session.post(f"{BASE}/{sources[0].id}/poll") as answer:
            assert answer.status == 200, await answer.text()
        assert web.requests() == 1, "only the requested poll"
        async with session.put("/api/scheduler", json={"paused": False}) as answer:
            assert answer.status == 200
        await until(lambda: web.requests() == len(sources), "they did not go on")


async def test_a_worker_is_drained_over_the_api(app: App, processes: WorkerProcesses):
    async with served(processes, "--no-scheduler") as session:
        processes.start()
        processes.start()

        async def shards() -> list[int]:
            found = (await is_reported(session, "/api/cluster"))["workers"]
            return [one["shards"] for one in found]

        async def are(wanted: list[int]) -> bool:
            return await shards() == wanted

        await until(lambda: are([128, 128]), "the shards were not shared")
        first = (await is_reported(session, "/api/cluster"))["workers"][0]
        body = {"worker": first["id"], "draining": True}
        async with session.put("/api/cluster/drain", json=body) as answer:
            assert answer.status == 200, await answer.text()
            assert (await answer.json())["draining"] is True
        await until(lambda: are([0, 256]), "it was not drained")
        async with session.put("/api/cluster/drain", json=body | {"draining": False}) as answer:
            assert answer.status == 200
        await until(lambda: are([128, 128]), "it takes no shards again")
        async with session.put("/api/cluster/drain", json={"worker": "nobody"}) as answer:
            assert answer.status == 404


async def test_s10_a_service_and_workers_do_not_poll_the_same_database(
    app: App, processes: WorkerProcesses
):
    processes.start()

    async def working() -> bool:
        return await number(app, "SELECT count(*) FROM workers") == 1

    await until(working, "no worker came")
    with pytest.raises(AssertionError, match="another headwater process polls this database"):
        async with served(processes):
            pass
    processes.stop_all()
    async with served(processes):
        second = processes.start()
        assert await asyncio.to_thread(second.wait, 60) != 0
        assert "polls this database alone" in processes.log(1).read_text()


async def test_c3_o4_cleanup_of_all_workers_pauses_if_the_clock_was_ahead_at_a_start(
    app: App, processes: WorkerProcesses
):
    month_ago = app.clock.now() - timedelta(days=30)
    old = await stored(app.store, enabled=False)
    post = a_post_of(old, created_at=month_ago)
    await app.store.record(a_success(old, [post], started_at=month_ago))
    async with a_web(HOSTS) as web:
        await add_due(app, urls_of(web, HOSTS[:1], 1))
        processes.start()

        async def has_new_data() -> bool:
            return await stored_polls(app) > 1

        await until(has_new_data, "the worker polled nothing")
        processes.start()  # for this worker the clock is not ahead
        async with served(processes, "--no-scheduler") as session:

            async def both_work() -> bool:
                return len((await is_reported(session, "/api/cluster"))["workers"]) == 2

            await until(both_work, "the second worker did not start")
            since = app.clock.now()

            async def has_ticked() -> bool:
                status = await is_reported(session, "/api/scheduler")
                assert status["cleanupPausedUntil"] is not None
                return datetime.fromisoformat(status["lastTickAt"]) > since + 3 * A_TICK

            await until(has_ticked, "no tick")
    assert await app.store.posts.count() == 1
