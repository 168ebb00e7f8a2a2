"""Polls take turns with everything else on the event loop (H2, H3)."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from headwater.batch import Batcher
from headwater.engine.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.model import DueSource, Outcome
from tests.fakes import START, FakeClock, in_virtual_time

LANES = 100


def due_in(lane: str) -> DueSource:
    return DueSource(f"source of {lane}", lane, overdue_since=START, delay_seconds=0)


async def most_in_a_turn(count: Callable[[], int], wanted: int) -> int:
    """How many came at once at most, until there were as many as wanted."""
    most, before = 0, 0
    while before < wanted:
        await asyncio.sleep(0)
        most, before = max(most, count() - before), count()
    return most


@pytest.mark.parametrize(("watched", "apart"), [(True, 0.002), (False, 0.0)])
def test_h3_polls_begin_one_by_one_while_somebody_waits_for_an_answer(watched, apart):
    begun: dict[str, float] = {}
    all_begun = asyncio.Event()

    async def stuck(due: DueSource) -> Outcome | None:
        begun[due.id] = asyncio.get_running_loop().time()
        if len(begun) == LANES:
            all_begun.set()
        await asyncio.Event().wait()
        return None

    async def story() -> None:
        gates = Gates([], FakeClock())
        lanes = Lanes(stuck, gates, slots=LANES, rng=Random(1), is_watched=lambda: watched)
        lanes.offer(due_in(f"host{n}.example") for n in range(LANES))
        await all_begun.wait()
        await lanes.stop(0)

    in_virtual_time(story)
    times = sorted(begun.values())
    assert [round(b - a, 6) for a, b in pairwise(times)] == [apart] * (LANES - 1)


@pytest.mark.parametrize(("watched", "at_once"), [(True, 1), (False, 256)])
async def test_h2_those_who_waited_for_one_commit_go_on_a_few_at_a_time(watched, at_once):
    went_on: list[int] = []

    async def run(items):
        return items

    batcher: Batcher[int, int] = Batcher(run, is_watched=lambda: watched)

    async def caller(number: int) -> None:
        went_on.append(await batcher(number))

    callers = [asyncio.create_task(caller(number)) for number in range(LANES)]
    assert await most_in_a_turn(lambda: len(went_on), LANES) <= at_once
    await asyncio.gather(*callers)
    assert went_on == list(range(LANES))
