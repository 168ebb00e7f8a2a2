"""Parsing whose cost a stranger controls, kept off the event loop and inside a budget (H2)."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar

from headwater.clock import Clock
from headwater.errors import LocalFault, ManyEntries, TooExpensive
from headwater.fetch.body import MEDIUM_BODY, Room
from headwater.fetch.feed import Feed, parse_feed
from headwater.fetch.feed_links import FeedLink
from headwater.fetch.memory import Names, give_back, keep_no_large_blocks
from headwater.fetch.parse_line import ParseLine, Waiting, settle
from headwater.fetch.parse_process import WORKER, Job, ParseProcess, WorkerEnded
from headwater.rules.opml import Outline, read_opml
from headwater.rules.urls import masked

_CROWD_SECONDS = 0.005  # documents that come closer than this are many
_MAX_IN_LINE = 256  # documents that wait for the worker, before others are parsed beside it
_LARGE_BYTES = 1 << 20
_MAX_MEDIUM = 2  # documents of one or two megabytes at once
_MANY_ENTRIES = 2_000  # which take some megabytes until they are stored
_START_SECONDS = 60.0  # a loaded machine may take its time to import what parsing needs

T = TypeVar("T")


class Parsers:
    """Parses small feeds at once, and everything else in a few worker processes kept warm.

    The memory budget is that of a whole worker process, of which Python and the libraries take
    about 30 MB. The time budget counts from the moment a worker takes the document.
    """

    def __init__(
        self,
        *,
        timeout_seconds: float = 10,
        memory_mb: int = 512,
        processes: int = 2,
        inline_bytes: int = 65536,
        clock: Clock,
        worker: Sequence[str] = WORKER,
        spare_core: bool = False,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._memory_mb = memory_mb
        self._inline_bytes = inline_bytes
        self._clock = clock
        self._command = worker
        self._slots = asyncio.Semaphore(processes)
        # for large documents, and for feeds of many entries (H1)
        self._room = Room(medium=_MAX_MEDIUM, large=1)
        # Threads talk to the workers: pipes then work alike under every event loop, and decoding
        # a large answer stays off it.
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="headwater-parse")
        self._workers: set[ParseProcess] = set()
        self._idle: list[ParseProcess] = []
        self._closed = False
        self._line = ParseLine()
        self._working_off: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[None]] = set()
        self._has_spare_core = spare_core
        self._names = Names()
        self._small_at: float | None = None  # when the last small document came
        # told of every worker that had to go: over its budget, or ended by what it was given
        self.on_kill: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        keep_no_large_blocks()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every worker, also those at work."""
        self._closed = True
        self._idle.clear()
        for worker in list(self._workers):
            self._end(worker)
        await asyncio.to_thread(self._threads.shutdown)

    async def feed(self, data: bytes, *, content_type: str | None, url: str) -> Feed:
        """Read a feed; raise NotAFeed, or TooExpensive where it goes over the budget."""
        job = Job("feed", data, content_type, url, self._timeout_seconds)
        if len(data) > _LARGE_BYTES:
            return await self._parse_large(job)
        if len(data) > self._inline_bytes:
            try:
                return await self._parse(replace(job, most=_MANY_ENTRIES))
            except ManyEntries:
                return await self._parse_large(job)
        if self._comes_alone():
            self._names.grow(len(data))
            return parse_feed(data, content_type=content_type, url=url)
        return await (self._in_line(job) if self._line.has_room_for(job) else self._parse(job))

    async def page(self, data: bytes, *, content_type: str | None, url: str) -> Feed:
        """Read a page as a feed of one; raise NoContent, or TooExpensive as above."""
        job = Job("page", data, content_type, url, self._timeout_seconds)
        return await (self._parse_large(job) if len(data) > _LARGE_BYTES else self._parse(job))

    async def feed_links(
        self, data: bytes, *, content_type: str | None, url: str
    ) -> tuple[FeedLink, ...]:
        """The feeds that a page names; raise TooExpensive where it goes over the budget."""
        job = Job("links", data, content_type, url, self._timeout_seconds)
        found = (await self._parse(job)).entries
        return tuple(FeedLink(e.url or "", e.title, e.id or "") for e in found)

    async def outlines(self, data: bytes, *, most: int) -> Sequence[Outline]:
        """The sources that an OPML file names, of more than `most` the first ones; no folders.

        Raise UsageError where it is none, or TooExpensive where it goes over the budget.
        """
        if len(data) <= self._inline_bytes:
            return read_opml(data, most=most)
        job = Job("list", data, None, "the list", self._timeout_seconds, most)
        found = (await self._parse(job)).entries
        return [Outline(e.url or "", e.title or None, type=e.id) for e in found]

    def _comes_alone(self) -> bool:
        """Whether a small document is best parsed at once, as none came just before it.

        Where they come one upon another, and there is another core, a worker takes them in
        handfuls; when too many wait for it, the event loop does its part again.
        """
        now, before = self._clock.monotonic(), self._small_at
        self._small_at = now
        is_crowd = before is not None and now - before < _CROWD_SECONDS
        return not (self._has_spare_core and is_crowd and len(self._line) < _MAX_IN_LINE)

    async def _in_line(self, job: Job) -> Feed:
        future = self._line.join(job)
        if self._working_off is None:
            self._working_off = asyncio.create_task(self._work_off())
        return await future

    async def _work_off(self) -> None:
        """Have one worker parse what is in line; each that it may not have survived goes alone.

        Nobody in line waits for those: the one that is to blame may take all of its time again.
        """
        try:
            while len(self._line):
                for each in await self._hand_out():
                    alone = asyncio.create_task(self._parse_alone(each))
                    self._alone.add(alone)
                    alone.add_done_callback(self._alone.discard)
        finally:
            self._working_off = None

    async def _parse_alone(self, each: Waiting) -> None:
        settle([each], [await self._result(each[0])])

    async def _hand_out(self) -> Sequence[Waiting]:
        try:
            async with self._slots:
                worker = self._take_worker()
                try:
                    await self._within(_START_SECONDS, worker, worker.start)
                    loop, line = asyncio.get_running_loop(), self._line
                    step = partial(line.work_off, worker, loop)
                    return await self._within(
                        self._timeout_seconds, worker, step, progress=lambda: line.handfuls
                    )
                finally:
                    self._give_back(worker)
        except Exception:  # noqa: BLE001 - whatever it was: it is seen who is to blame
            return self._line.take()

    async def _result(self, job: Job) -> Feed | Exception:
        try:
            return await self._parse(job)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the document
            return error

    async def _parse_large(self, job: Job) -> Feed:
        """Parse what takes much memory: one large document at a time, until it is stored."""
        size = len(job.document)
        leave = await self._room.place(size)
        try:
            if size > MEDIUM_BODY:
                await asyncio.to_thread(give_back)  # what the one before has left
            return replace(await self._parse(job), leave=leave)
        except BaseException:
            leave.let_go()
            raise

    async def _parse(self, job: Job) -> Feed:
        async with self._slots:
            worker = self._take_worker()
            try:
                await self._within(_START_SECONDS, worker, worker.start)
                return await self._within(job.seconds, worker, partial(worker.work, job))
            except WorkerEnded as error:
                if self._closed:
                    raise LocalFault("parsing was stopped: the service ends") from error
                self.on_kill()
                raise TooExpensive(f"parsing {masked(job.url)} {error}") from error
            finally:
                self._give_back(worker)

    async def _within(
        self,
        seconds: float,
        worker: ParseProcess,
        step: Callable[[], T],
        progress: Callable[[], int] = lambda: 0,
    ) -> T:
        """Run a blocking step of a worker in a thread; killing the worker is what ends it.

        Where there is progress the time begins anew; a worker ends any single document by itself.
        """
        overdue = False

        async def stop_when_overdue() -> None:
            nonlocal overdue
            before = -1
            while before != progress():
                before = progress()
                await self._clock.sleep(seconds)
            overdue = True
            worker.kill()

        alarm = asyncio.create_task(stop_when_overdue())
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, step)
        except asyncio.CancelledError:
            worker.kill()
            raise
        except WorkerEnded:
            if not overdue:
                raise
            raise WorkerEnded(f"took longer than {seconds:g} s") from None
        finally:
            alarm.cancel()

    def _take_worker(self) -> ParseProcess:
        if self._closed:
            raise LocalFault("parsing was stopped: the service ends")
        while self._idle:
            worker = self._idle.pop()  # the one used last: the others' memory may be swapped out
            if worker.is_usable:
                return worker
            self._end(worker)
        worker = ParseProcess(self._command, memory_mb=self._memory_mb)
        self._workers.add(worker)
        return worker

    def _give_back(self, worker: ParseProcess) -> None:
        if self._closed:
            return  # closing has ended it
        if worker.is_usable:
            self._idle.append(worker)
        else:
            self._end(worker)

    def _end(self, worker: ParseProcess) -> None:
        worker.kill()
        self._workers.discard(worker)
        self._threads.submit(worker.end)
