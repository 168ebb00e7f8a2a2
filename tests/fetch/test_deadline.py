"""Deadlines: what `asyncio.timeout_at` promises."""

import asyncio
import gc
import weakref

import pytest

from headwater.fetch.deadline import Deadline
from headwater.fetch.reading import Bounds
from headwater.fetch.wire import Wire


async def test_n9_waiting_ends_with_a_deadline():
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError), Deadline(loop, loop.time() + 0.01):
        await loop.create_future()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_n9_one_that_is_over_already_ends_the_first_wait():
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError), Deadline(loop, loop.time() - 1):
        await loop.create_future()


async def test_what_comes_in_time_is_left_alone():
    loop = asyncio.get_running_loop()
    with Deadline(loop, loop.time() + 60):
        await asyncio.sleep(0)
    with pytest.raises(ValueError, match="mine"), Deadline(loop, loop.time() + 60):
        raise ValueError("mine")


async def test_whoever_cancels_a_task_cancels_it_inside_a_deadline_too():
    loop, entered = asyncio.get_running_loop(), asyncio.Event()

    async def wait() -> None:
        with Deadline(loop, loop.time() + 60):
            entered.set()
            await loop.create_future()

    task = asyncio.create_task(wait())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_h1_a_connection_that_is_gone_leaves_nothing_for_the_garbage_collector():
    wire = Wire(Bounds(read_seconds=1, max_body_bytes=1000, max_wire_bytes=2000), None)
    wire.connection_lost(None)
    gone = weakref.ref(wire)
    gc.disable()
    try:
        del wire
        assert gone() is None
    finally:
        gc.enable()
