"""Workers with redirects, slow hosts and single processes: every delay is respected (P3)."""

import asyncio
import signal
from pathlib import Path

import pytest

from headwater.app import App
from tests.cluster import failure_scenarios
from tests.cluster.failure_scenarios import HOSTS
from tests.cluster.worker_processes import WorkerProcesses, number, until
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            failure_scenarios.redirect_chain, id="p3_an_old_visit_says_nothing_of_a_newer_one"
        ),
        pytest.param(
            failure_scenarios.WORKER_THEN_SERVE,
            id="p3_who_polls_alone_keeps_what_a_dead_worker_left",
        ),
        pytest.param(
            failure_scenarios.SERVE_THEN_WORKER,
            id="p3_workers_keep_what_a_dead_service_left",
        ),
    ],
)
async def test_p3_no_delay_is_shortened(url: str, tmp_path: Path, run: failure_scenarios.Run):
    record = await run(url, tmp_path)
    assert record.faults() == [], record


async def test_s8_a_worker_stops_while_its_database_is_stopped(
    own_server: PostgresServer, tmp_path: Path
):
    record = await failure_scenarios.stopped_during_database_outage(own_server, tmp_path)
    assert record.faults() == [], record


async def test_k4_a_worker_ignores_sighup(processes: WorkerProcesses):
    worker, log = processes.start(), processes.log(0)
    await until(lambda: "working" in log.read_text(), "no start")
    worker.send_signal(signal.SIGHUP)
    await until(lambda: "SIGHUP is ignored" in log.read_text(), "SIGHUP is not logged")
    worker.terminate()
    assert await asyncio.to_thread(worker.wait, 60) == 0


async def test_k8_a_worker_suspended_during_a_take_over_sends_no_more_requests(
    url: str, tmp_path: Path
):
    """It is suspended during its first request; the response is a redirect to a second one."""
    host = HOSTS[0]
    async with failure_scenarios.a_cluster_run(url, tmp_path, hosts=[host], each=1) as cluster:
        web = cluster.web
        web.redirects[f"{host}/0"] = f"http://{host}:{web.port}/more"
        web.hold()
        patient = {"APP__FETCH__READ_TIMEOUT_SECONDS": "300"}
        sleeper = cluster.processes.start(**patient, APP__FETCH__TOTAL_TIMEOUT_SECONDS="300")
        await until(lambda: web.open_now[host], "nothing was polled")
        sleeper.send_signal(signal.SIGSTOP)
        cluster.processes.start()

        async def is_declared_dead() -> bool:
            gone = f"SELECT count(*) FROM workers WHERE pid = {sleeper.pid}"
            return await number(cluster.app, gone) == 0

        await until(is_declared_dead, "its death was not detected")
        sleeper.send_signal(signal.SIGCONT)
        await until(
            lambda: failure_scenarios.LOST in cluster.processes.log(0).read_text(),
            "it did not notice",
        )
        web.responding.set()
        await cluster.all_stored()
        await until(lambda: not web.open_now[host], "the web still responds")
        log = cluster.processes.log(0)
        await until(
            lambda: "another worker has taken the host over" in log.read_text(), "it went on"
        )
        assert web.request_counts()[f"{host}/more"] == 1, "requested by the other worker only"


async def test_k7_processes_stop_when_another_version_upgrades_the_schema(
    app: App, processes: WorkerProcesses
):
    worker, server = processes.start(), processes.start(command="serve", options=["--no-scheduler"])
    await until(lambda: "working" in processes.log(0).read_text(), "no start")
    await until(lambda: "serving" in processes.log(1).read_text(), "no start")
    await app.store.database.execute("INSERT INTO schema_version VALUES (9999)")
    for process, number_ in ((worker, 0), (server, 1)):
        assert await asyncio.to_thread(process.wait, 120) == 1
        log = processes.log(number_).read_text()
        assert log.count("[Store] the database has schema 9999") == 1
        assert log.splitlines()[-1].startswith("headwater: the database has schema 9999")
