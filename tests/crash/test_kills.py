"""K1, K2, K7, S8: after a kill at any point nothing is lost, duplicated or stuck. SQLite."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.crash.fork_server import fork_server
from tests.crash.kill_rounds import RESUME_SECONDS, KillPlans, Tally, median, run_rounds
from tests.crash.killed_process import POINTS, WHENS
from tests.crash.raw_database import RawDatabase

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
ROUNDS = 140


async def test_k1_k2_repeated_kills_lose_and_duplicate_nothing(
    tmp_path: Path, on_sqlite: Callable[[int, Path], RawDatabase]
):
    await survives(ROUNDS, seed=7, folder=tmp_path, new_database=on_sqlite)


async def survives(
    rounds: int, *, seed: int, folder: Path, new_database: Callable[[int, Path], RawDatabase]
) -> None:
    """Kill the service repeatedly and check all findings."""
    tally = Tally()
    async with fork_server() as there:
        await run_rounds(
            rounds,
            seed=seed,
            folder=folder,
            fork_server=there,
            new_database=new_database,
            tally=tally,
        )
    reported = "\n".join(tally.table())
    print(reported)
    assert tally.total == rounds
    assert tally.stories == [], reported
    assert not tally.unreached, reported  # it was killed at the planned points
    # CPU time, since wall-clock time depends on machine load; `python -m tests.crash` prints both
    assert median(one.undisturbed for one in tally.warm) < RESUME_SECONDS, reported
    assert max(one.work for one in tally.warm) < RESUME_SECONDS, reported


def test_k1_there_is_a_kill_point_between_any_two_steps():
    steps = {"fetch", "parse", "begin", "insert", "state", "history", "commit", "event"}
    upkeep = {"cleanup", "aggregation", "migration", "key creation"}
    assert set(POINTS) == steps | upkeep
    assert Tally().unreached == {f"{when} {point}" for point in POINTS for when in WHENS}
    dealt, kill_plans = set(), KillPlans(Random(1))
    while not kill_plans.is_through:
        dealt.add(kill_plans.next_plan().name)
    assert dealt | {"before migration", "after migration"} == Tally().unreached
