"""Workers and databases that crash, stop or restart: nothing lost, nothing stored twice (K8)."""

from functools import partial
from pathlib import Path

import pytest

from tests.cluster import failure_scenarios
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            failure_scenarios.killed_by_default, id="k8_within_45_s_by_default_and_no_delay_is_cut"
        ),
        pytest.param(failure_scenarios.killed, id="k8_a_killed_worker_s_shards_go_on_elsewhere"),
        pytest.param(
            failure_scenarios.killed_at_a_redirect, id="p3_a_death_on_the_way_leaves_its_delay"
        ),
        pytest.param(
            failure_scenarios.stopped_by_sigterm,
            id="s8_who_is_told_to_stop_waits_for_nobody_for_long",
        ),
        pytest.param(
            failure_scenarios.long_delay, id="p3_a_delay_longer_than_the_lease_outlives_its_worker"
        ),
        pytest.param(
            failure_scenarios.abandoned, id="k8_the_shards_of_a_deleted_worker_are_taken_over"
        ),
        pytest.param(
            failure_scenarios.sessions_cut, id="k8_a_worker_without_sessions_blocks_no_source"
        ),
        pytest.param(
            partial(failure_scenarios.sessions_cut, spared="INTO workers"),
            id="k8_a_worker_that_cannot_read_loses_its_shards",
        ),
        pytest.param(failure_scenarios.table_locked, id="k5_a_locked_table_delays_polls_only"),
        pytest.param(failure_scenarios.drained, id="s8_a_drained_worker_keeps_no_shard"),
        pytest.param(
            failure_scenarios.slow_host, id="a_slow_host_keeps_no_other_of_its_shard_waiting"
        ),
        pytest.param(
            failure_scenarios.wrong_clock, id="a_wrong_clock_makes_nothing_due_and_nothing_late"
        ),
        pytest.param(
            failure_scenarios.two_tickers, id="s2_two_that_tick_at_once_have_nothing_polled_twice"
        ),
        pytest.param(
            failure_scenarios.added_and_removed, id="s8_a_worker_comes_and_another_goes_under_load"
        ),
    ],
)
async def test_k8_only_requests_in_flight_are_repeated(
    url: str, tmp_path: Path, run: failure_scenarios.Run
):
    record = await run(url, tmp_path)
    assert record.faults() == [], record


async def test_k8_a_worker_suspended_past_its_lease_stores_nothing(url: str, tmp_path: Path):
    record = await failure_scenarios.suspended(url, tmp_path)
    assert record.faults() == []
    log = (tmp_path / "worker0.log").read_text()
    assert len([line for line in log.splitlines() if "[Polling]" not in line]) < 20, log


@pytest.mark.parametrize("seconds", [5, 60])
async def test_k5_workers_survive_a_database_restart(
    own_server: PostgresServer, tmp_path: Path, seconds: int
):
    record = await failure_scenarios.database_restarted(own_server, tmp_path, seconds)
    assert record.faults() == []


async def test_workers_without_locks_are_detected(url: str, tmp_path: Path):
    record = await failure_scenarios.unlocked(url, tmp_path)
    assert "overlaps" in record.faults()
