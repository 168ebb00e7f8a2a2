"""Polls sources wherever it may be done: in this process, or in the one that polls already."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from headwater.app import App
from headwater.cli import output
from headwater.errors import AlreadyPolling
from headwater.model import Subject
from headwater.operations.polling import PollReport, hand_over, poll_due, poll_sources

Take = Callable[[PollReport], None]
_CLAIM_SECONDS = 2.0  # how often to look whether the other process still polls
_DRAIN_SECONDS = 1  # what is cut off stays requested


class Polls:
    """What is still to be polled."""

    def __init__(self, subjects: Sequence[Subject], *, due: bool) -> None:
        self.waiting = {subject.source.id: subject for subject in subjects}
        self.due = due  # whatever a tick finds, instead of a list
        self.found = len(self.waiting)  # grows while a tick hands sources over

    def done(self, report: PollReport) -> None:
        """One less to wait for."""
        self.waiting.pop(report.source.id, None)


async def poll_all(
    app: App, polls: Polls, take: Take, *, wait_seconds: float | None = None
) -> None:
    """Poll everything that is wanted; what has not ended in time stays requested (P10)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_seconds):
            if polls.due and not await _is_claimed(app):
                await _poll_due(app, polls, take)
            elif polls.due:
                await _find_due(app, polls)
            while polls.waiting:
                await _poll_listed(app, polls, take)


def impatient(app: App) -> App:
    """The app, with a service that does not wait long for polls when it is told to stop."""
    seconds = min(app.settings.shutdown_seconds, _DRAIN_SECONDS)
    return replace(app, settings=app.settings.model_copy(update={"shutdown_seconds": seconds}))


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the polls within, in order; a second one ends the process at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        output.note("stopping; a second Ctrl-C ends at once")
        if task is not None:
            task.cancel()

    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def _poll_due(app: App, polls: Polls, take: Take) -> None:
    async with app.service() as service:
        async for report in poll_due(service):
            polls.found = max(polls.found, len(service.lanes.in_flight()) + service.lanes.waiting())
            take(report)


async def _find_due(app: App, polls: Polls) -> None:
    for due in await app.store.sources.due(app.clock.now(), app.policy):
        subject = await app.store.sources.subject(due.id)
        if subject is not None:
            polls.waiting[due.id] = subject
    polls.found = len(polls.waiting)


async def _poll_listed(app: App, polls: Polls, take: Take) -> None:
    """Poll what waits, here if nobody else polls; else ask and wait while somebody does."""
    subjects = list(polls.waiting.values())
    if await _is_claimed(app):
        asked = asyncio.create_task(_taken(hand_over(app.store, app.clock, subjects), polls, take))
        claimed = asyncio.create_task(_while_claimed(app))
        try:
            await asyncio.wait([asked, claimed], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await asked
        finally:
            asked.cancel()
            claimed.cancel()
            await asyncio.gather(asked, claimed, return_exceptions=True)
        return
    with suppress(AlreadyPolling):  # somebody was faster: ask them
        async with app.service() as service:
            await _taken(poll_sources(service, subjects), polls, take)


async def _taken(reports: AsyncIterator[PollReport], polls: Polls, take: Take) -> None:
    async for report in reports:
        polls.done(report)
        take(report)


async def _while_claimed(app: App) -> None:
    while await _is_claimed(app):
        await app.clock.sleep(_CLAIM_SECONDS)


async def _is_claimed(app: App) -> bool:
    return await asyncio.to_thread(app.store.database.is_claimed)
