"""Workers among redirects, slow hosts, and processes that poll alone: every pause is kept (P3)."""

import signal
from pathlib import Path

import pytest

from tests.cluster import runs
from tests.cluster.crew import number, until
from tests.cluster.runs import HOSTS
from tests.postgres import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(runs.redirect_chain, id="p3_an_old_visit_says_nothing_of_a_newer_one"),
        pytest.param(runs.one_at_a_time, id="a_slow_host_leaves_room_for_other_shards"),
        pytest.param(
            runs.WORKER_THEN_SERVE,
            id="p3_who_polls_alone_keeps_what_a_dead_worker_left",
        ),
        pytest.param(
            runs.SERVE_THEN_WORKER,
            id="p3_workers_keep_what_a_dead_service_left",
        ),
    ],
)
async def test_p3_no_pause_is_cut_short(url: str, tmp_path: Path, run: runs.Run):
    record = await run(url, tmp_path)
    assert record.faults() == [], record


async def test_s8_a_worker_stops_though_its_database_is_away(
    own_server: PostgresServer, tmp_path: Path
):
    record = await runs.stopped_while_away(own_server, tmp_path)
    assert record.faults() == [], record


async def test_k8_who_slept_through_a_take_over_asks_nothing_more(url: str, tmp_path: Path):
    """Its first request is on the way when it falls asleep; the answer leads to a second one."""
    host = HOSTS[0]
    async with runs.a_stage(url, tmp_path, hosts=[host], each=1) as stage:
        web = stage.web
        web.redirects[f"{host}/0"] = f"http://{host}:{web.port}/more"
        web.hold()
        patient = {"APP__FETCH__READ_TIMEOUT_SECONDS": "300"}
        sleeper = stage.crew.start(**patient, APP__FETCH__TOTAL_TIMEOUT_SECONDS="300")
        await until(lambda: web.open_now[host], "nothing was polled")
        sleeper.send_signal(signal.SIGSTOP)
        stage.crew.start()

        async def is_buried() -> bool:
            gone = f"SELECT count(*) FROM workers WHERE pid = {sleeper.pid}"
            return await number(stage.app, gone) == 0

        await until(is_buried, "nobody noticed")
        sleeper.send_signal(signal.SIGCONT)
        await until(lambda: runs.LOST in stage.crew.log(0).read_text(), "it did not notice")
        web.answering.set()
        await stage.all_stored()
        await until(lambda: not web.open_now[host], "the web still answers")
        log = stage.crew.log(0)
        await until(
            lambda: "another worker has taken the host over" in log.read_text(), "it went on"
        )
        assert web.times_asked()[f"{host}/more"] == 1, "asked by the other one alone"
