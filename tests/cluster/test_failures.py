"""Workers and databases that die, sleep or vanish: nothing lost, nothing stored twice (K8)."""

from pathlib import Path

import pytest

from tests.cluster import runs
from tests.postgres import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(runs.killed_by_default, id="k8_within_45_s_by_default_and_no_delay_is_cut"),
        pytest.param(runs.killed, id="k8_a_killed_worker_s_shards_go_on_elsewhere"),
        pytest.param(runs.killed_at_a_redirect, id="p3_a_death_on_the_way_leaves_its_delay"),
        pytest.param(runs.told_to_stop, id="s8_who_is_told_to_stop_waits_for_nobody_for_long"),
        pytest.param(runs.long_delay, id="p3_a_delay_longer_than_the_lease_outlives_its_worker"),
        pytest.param(runs.stalled, id="a_stalled_job_blocks_its_shard_no_longer_than_the_lease"),
        pytest.param(runs.slow_host, id="a_slow_host_keeps_no_other_of_its_shard_waiting"),
        pytest.param(runs.wrong_clock, id="a_wrong_clock_makes_nothing_due_and_nothing_late"),
        pytest.param(runs.two_tickers, id="s2_two_that_tick_at_once_have_nothing_polled_twice"),
        pytest.param(runs.added_and_removed, id="s8_a_worker_comes_and_another_goes_under_load"),
    ],
)
async def test_k8_only_requests_in_flight_are_asked_again(url: str, tmp_path: Path, run: runs.Run):
    record = await run(url, tmp_path)
    assert record.faults() == [], record


async def test_k8_a_worker_that_slept_past_its_lease_stores_nothing_any_more(
    url: str, tmp_path: Path
):
    record = await runs.slept(url, tmp_path)
    assert record.faults() == []
    log = (tmp_path / "worker0.log").read_text()
    assert len([line for line in log.splitlines() if "[Polling]" not in line]) < 20, log


@pytest.mark.parametrize("seconds", [5, 60])
async def test_k5_workers_outlive_their_database(
    own_server: PostgresServer, tmp_path: Path, seconds: int
):
    record = await runs.database_away(own_server, tmp_path, seconds)
    assert record.faults() == []


async def test_the_same_without_locks_is_noticed(url: str, tmp_path: Path):
    record = await runs.unlocked(url, tmp_path)
    assert "overlaps" in record.faults()
