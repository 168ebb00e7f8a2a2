"""Polls share the event loop with all other tasks (H2, H3)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random

import pytest

from headwater.batcher import Batcher
from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.lanes import Lanes
from headwater.model import DueSource, Outcome
from tests.fakes import START, FakeClock, in_virtual_time

LANES = 100


def due_in(lane: str) -> DueSource:
    return DueSource(f"source of {lane}", lane, overdue_since=START, delay_seconds=0)


async def most_per_iteration(count: Callable[[], int], wanted: int) -> int:
    """The largest number that arrived in one loop iteration, until `count` arrived."""
    most, before = 0, 0
    while before < wanted:
        await asyncio.sleep(0)
        most, before = max(most, count() - before), count()
    return most


@pytest.mark.parametrize(("watched", "apart"), [(True, 0.002), (False, 0.0)])
def test_h3_polls_start_one_by_one_while_a_request_waits(watched, apart):
    begun: dict[str, float] = {}
    all_begun = asyncio.Event()

    async def stuck(dues: Sequence[DueSource], _entry: GateEntry) -> Mapping[str, Outcome]:
        begun[dues[0].id] = asyncio.get_running_loop().time()
        if len(begun) == LANES:
            all_begun.set()
        await asyncio.Event().wait()
        return {}

    async def scenario() -> None:
        gates = Gates([], FakeClock())
        lanes = Lanes(stuck, gates, slots=LANES, rng=Random(1), is_watched=lambda: watched)
        lanes.offer(due_in(f"host{n}.example") for n in range(LANES))
        await all_begun.wait()
        await lanes.stop(0)

    in_virtual_time(scenario)
    times = sorted(begun.values())
    assert [round(b - a, 6) for a, b in pairwise(times)] == [apart] * (LANES - 1)


@pytest.mark.parametrize(("watched", "at_once"), [(True, 1), (False, 256)])
async def test_h2_callers_of_one_commit_resume_a_few_at_a_time(watched, at_once):
    went_on: list[int] = []

    async def run(items):
        return items

    batcher: Batcher[int, int] = Batcher(run, yield_often=lambda: watched)

    async def caller(number: int) -> None:
        went_on.append(await batcher(number))

    callers = [asyncio.create_task(caller(number)) for number in range(LANES)]
    assert await most_per_iteration(lambda: len(went_on), LANES) <= at_once
    await asyncio.gather(*callers)
    assert went_on == list(range(LANES))
