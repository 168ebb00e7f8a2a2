"""Background loops: repeated work that survives its errors, until the process stops (H4)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any

from headwater.clock import Clock
from headwater.errors import HeadwaterError, MustRestart, SchemaTooNew
from headwater.logs import get_logger

log = get_logger()
Work = Callable[[], Awaitable[object]]
Loop = Callable[[], Coroutine[Any, Any, None]]
OnError = Callable[[str, HeadwaterError], None]  # with the message of the loop


async def attempt(work: Work, message: str, on_error: OnError | None = None) -> None:
    """Run work once; pass our own errors to `on_error`, and log any other with `message`.

    Errors after which this process must stop are raised (K7, K8).
    """
    try:
        await work()
    except (MustRestart, SchemaTooNew):
        raise
    except HeadwaterError as error:
        if on_error is not None:  # else another loop logs what is wrong with the database
            on_error(message, error)
    except Exception:  # the process outlives any error of a loop (H4)
        log.exception(message)


async def repeat(
    clock: Clock, seconds: float, work: Work, message: str, on_error: OnError | None = None
) -> None:
    """Run work every `seconds` until cancelled, as `attempt` does."""
    while True:
        await clock.sleep(seconds)
        await attempt(work, message, on_error)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; False if it was not set in time.

    `asyncio.wait_for` of Python 3.11 ignores a cancellation at the moment of the event: the loop
    that waits would not stop.
    """
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def run_until(
    stop: asyncio.Event,
    loops: Sequence[Loop],
    *,
    on_stop: Callable[[], None] = lambda: None,
    timeout_seconds: float | None = None,
) -> None:
    """Run endless loops until `stop` is set or one of them fails, whose error is raised.

    `timeout_seconds`: loops that have not stopped by then are cancelled again, then abandoned.
    """
    tasks = [asyncio.create_task(loop()) for loop in loops]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task.done()]
        on_stop()
        await _cancel([stopping, *tasks], timeout_seconds)
    for task in ended:
        task.result()


async def _cancel(tasks: Sequence[asyncio.Task[Any]], timeout_seconds: float | None) -> None:
    running: Collection[asyncio.Task[Any]] = tasks
    for _ in range(2):
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=timeout_seconds)
        if not running:
            return
    log.warning("[Cluster] loops did not stop in time and are abandoned", loops=len(running))
