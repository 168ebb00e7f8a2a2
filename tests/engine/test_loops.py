"""Background loops stop on request, whatever happens at that moment (S8)."""

import asyncio

import pytest

from headwater.engine.loops import is_set_within, run_until
from tests.fakes import in_virtual_time


def test_is_set_within_reports_whether_the_event_was_set_in_time():
    async def scenario() -> None:
        event = asyncio.Event()
        assert not await is_set_within(event, 5)
        asyncio.get_running_loop().call_later(3, event.set)
        assert await is_set_within(event, 5)

    in_virtual_time(scenario)


@pytest.mark.parametrize("iterations", range(8))
def test_s8_a_loop_stops_though_its_event_is_set_at_that_moment(iterations: int):
    """`iterations` of the event loop lie between the stop and the event."""
    stop, event = asyncio.Event(), asyncio.Event()

    async def loop() -> None:
        while True:
            await is_set_within(event, 60)
            event.clear()

    async def scenario() -> None:
        running = asyncio.create_task(run_until(stop, [loop]))
        await asyncio.sleep(1)
        stop.set()
        for _ in range(iterations):
            await asyncio.sleep(0)
        event.set()
        async with asyncio.timeout(10):
            await running

    in_virtual_time(scenario)
