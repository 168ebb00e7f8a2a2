"""Parses untrusted documents off the event loop, within a time and memory budget (H2)."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

from headwater.clock import Clock
from headwater.errors import LocalFault, ManyEntries, TooExpensive
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.library_memory import (
    InternedNames,
    return_freed_memory,
    return_large_blocks,
)
from headwater.fetch.net.large_bodies import MEDIUM_BODY, LargeBodyLimiter
from headwater.fetch.page.feed_links import FeedLink
from headwater.fetch.pool.worker_process import WORKER, Job, ParserProcess, WorkerEnded
from headwater.formats.opml import Outline, read_opml
from headwater.model import Entry
from headwater.rules.url_secrets import masked
from headwater.rules.watched_parts import PageBlock
from headwater.watch_settings import WatchSettings

_BURST_SECONDS = 0.005  # small documents closer together than this are a burst
_BATCH_BYTES = 256 * 1024  # of small documents that are sent together
_MAX_BATCHES = 20  # in a row, so that other jobs get the worker too
_MAX_QUEUED = 256  # documents; while more wait for the worker, others are parsed inline
_LARGE_BYTES = 1 << 20
_MAX_MEDIUM = 2  # documents of one or two megabytes at once
_MANY_ENTRIES = 2_000  # more take megabytes until they are stored, and need a permit
_START_SECONDS = 60.0  # imports are slow on a loaded machine

T = TypeVar("T")
Waiting = tuple[Job, asyncio.Future[Feed]]


class ParserPool:
    """Parses small feeds inline, and everything else in a few worker processes that are reused.

    The memory budget is that of a whole worker process, of which Python and the libraries take
    about 30 MB. The time budget starts when a worker gets the document.
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
        self._limiter = LargeBodyLimiter(medium=_MAX_MEDIUM, large=1)
        # Threads read and write the pipes: that works alike under every event loop, and keeps
        # the decoding of large results off it.
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="headwater-parse")
        self._workers: set[ParserProcess] = set()
        self._idle: list[ParserProcess] = []
        self._closed = False
        self._queue: deque[Waiting] = deque()  # small documents for one worker
        self._batch_count = 0
        self._queue_task: asyncio.Task[None] | None = None
        self._has_spare_core = spare_core
        self._names = InternedNames()
        self._small_at: float | None = None  # when the last small document was submitted
        # called for every worker that exceeded its budget, or was ended by a document
        self.on_kill: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        return_large_blocks()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every worker, also busy ones."""
        self._closed = True
        self._idle.clear()
        for worker in list(self._workers):
            self._end(worker)
        await asyncio.to_thread(self._threads.shutdown)

    async def feed(
        self, data: bytes, *, content_type: str | None, url: str, since: datetime | None = None
    ) -> Feed:
        """Parse a feed; entries dated before `since` get no Markdown.

        Raises NotAFeed, or TooExpensive if it exceeds the budget.
        """
        job = Job("feed", data, content_type, url, self._timeout_seconds, since=since)
        if len(data) > _LARGE_BYTES:
            return await self._parse_large(job)
        if len(data) > self._inline_bytes:
            try:
                return await self._parse(replace(job, max_entries=_MANY_ENTRIES))
            except ManyEntries:
                return await self._parse_large(job)
        if not self._is_burst():
            self._names.count(len(data))
            return parse_feed(data, content_type=content_type, url=url, since=since)
        return await self._parse_queued(job)

    async def page(
        self, data: bytes, *, content_type: str | None, url: str, watch: WatchSettings | None = None
    ) -> Feed:
        """Parse a page as a feed of one entry; raises NoContent, or TooExpensive as above."""
        job = Job("page", data, content_type, url, self._timeout_seconds, watch=watch)
        return await (self._parse_large(job) if len(data) > _LARGE_BYTES else self._parse(job))

    async def feed_links(
        self, data: bytes, *, content_type: str | None, url: str
    ) -> tuple[FeedLink, ...]:
        """The feeds that a page links to; raises TooExpensive as above."""
        job = Job("links", data, content_type, url, self._timeout_seconds)
        found = (await self._parse(job)).entries
        return tuple(FeedLink(e.url or "", e.title, e.id or "") for e in found)

    async def page_blocks(
        self, data: bytes, *, content_type: str | None, url: str, watch: WatchSettings | None
    ) -> tuple[PageBlock, ...]:
        """The blocks of a page and what `watch` keeps of them; raises TooExpensive as above."""
        job = Job("blocks", data, content_type, url, self._timeout_seconds, watch=watch)
        found = (await self._parse(job)).entries
        return tuple(PageBlock(e.id or "", int(d), e.body, int(n), int(w), int(c))
                     for e in found for d, n, w, c in [e.categories])  # fmt: skip

    async def outlines(self, data: bytes, *, max_outlines: int) -> Sequence[Outline]:
        """The sources of an OPML file, at most `max_outlines` and one more.

        Raises UsageError if it is no OPML file, or TooExpensive as above.
        """
        if len(data) <= self._inline_bytes:
            return read_opml(data, max_outlines=max_outlines)
        job = Job("list", data, None, "the list", self._timeout_seconds, max_outlines)
        found = (await self._parse(job)).entries
        return [_outline(entry) for entry in found]

    def _is_burst(self) -> bool:
        """Whether small documents arrive in a burst that a worker on another core should parse.

        While too many wait for the worker, the event loop parses some inline again.
        """
        now, before = self._clock.monotonic(), self._small_at
        self._small_at = now
        is_close = before is not None and now - before < _BURST_SECONDS
        return self._has_spare_core and is_close and len(self._queue) < _MAX_QUEUED

    async def _parse_queued(self, job: Job) -> Feed:
        """Let one worker parse this and all other queued documents in batches.

        Worth its lines where many small feeds arrive at once and a second core is free: the event
        loop then spends about 1.4 ms on a poll instead of 2.3 (docs/performance.md).
        """
        future: asyncio.Future[Feed] = asyncio.get_running_loop().create_future()
        self._queue.append((job, future))
        if self._queue_task is None:
            self._queue_task = asyncio.create_task(self._run_queue())
        try:
            return await future
        except WorkerEnded:  # because of this document, or of another one in its batch
            return await self._parse(job)

    async def _run_queue(self) -> None:
        while self._queue:
            try:
                async with self._worker() as worker:
                    step = partial(self._work_on_batches, worker, asyncio.get_running_loop())
                    await self._run(
                        step, worker, self._timeout_seconds, progress=lambda: self._batch_count
                    )
            except Exception:  # noqa: BLE001 - parsing the documents one by one finds the cause
                batch = self._take_batch()
                _set_results(batch, [WorkerEnded("could not be started")] * len(batch))
        self._queue_task = None

    def _work_on_batches(self, worker: ParserProcess, loop: asyncio.AbstractEventLoop) -> None:
        """Runs in a thread, so that the worker does not wait for the event loop between batches."""
        for _ in range(_MAX_BATCHES):
            batch = self._take_batch()
            results: Sequence[Feed | Exception]
            try:
                results = worker.work_batch([job for job, _ in batch])
            except Exception:  # noqa: BLE001 - without a result, callers wait forever
                worker.kill()
                results = [WorkerEnded("failed")] * len(batch)
            loop.call_soon_threadsafe(_set_results, batch, results)
            if not batch or not worker.is_usable:
                break

    def _take_batch(self) -> list[Waiting]:
        """The next batch; empty only if no job waits."""
        batch: list[Waiting] = []
        size = 0
        while self._queue and size < _BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1][0].document)
        self._batch_count += 1
        return batch

    async def _parse_large(self, job: Job) -> Feed:
        """Parse a document that needs much memory; it holds a permit until it is stored."""
        size = len(job.document)
        permit = await self._limiter.acquire(size)
        try:
            if size > MEDIUM_BODY:
                await asyncio.to_thread(return_freed_memory)  # of the document before
            return replace(await self._parse(job), permit=permit)
        except BaseException:
            permit.release()
            raise

    async def _parse(self, job: Job) -> Feed:
        try:
            async with self._worker() as worker:
                return await self._run(partial(worker.work, job), worker, job.seconds)
        except WorkerEnded as error:
            if self._closed:
                raise LocalFault("parsing was stopped: the service is shutting down") from error
            self.on_kill()
            raise TooExpensive(f"parsing {masked(job.url)} {error}") from error

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[ParserProcess]:
        """A started worker, once one is free."""
        async with self._slots:
            worker = self._take_worker()
            try:
                await self._run(worker.start, worker, _START_SECONDS)
                yield worker
            finally:
                if worker.is_usable and not self._closed:
                    self._idle.append(worker)
                elif not self._closed:  # closing ends all
                    self._end(worker)

    async def _run(
        self,
        step: Callable[[], T],
        worker: ParserProcess,
        seconds: float,
        progress: Callable[[], int] = lambda: 0,
    ) -> T:
        """Run a blocking step in a thread; after the deadline, killing the worker ends it.

        Progress restarts the deadline: the worker itself limits each document of a batch.
        """

        async def stop_when_overdue() -> None:
            before = -1
            while before != progress():
                before = progress()
                await self._clock.sleep(seconds)
            worker.kill(f"took longer than {seconds:g} s")

        watchdog = asyncio.create_task(stop_when_overdue())
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, step)
        except asyncio.CancelledError:
            worker.kill()
            raise
        finally:
            watchdog.cancel()

    def _take_worker(self) -> ParserProcess:
        if self._closed:
            raise LocalFault("parsing was stopped: the service is shutting down")
        while self._idle:
            worker = self._idle.pop()  # the last used one: the memory of others may be swapped out
            if worker.is_usable:
                return worker
            self._end(worker)
        worker = ParserProcess(self._command, memory_mb=self._memory_mb)
        self._workers.add(worker)
        return worker

    def _end(self, worker: ParserProcess) -> None:
        worker.kill()
        self._workers.discard(worker)
        self._threads.submit(worker.end)


def _set_results(waiting: Sequence[Waiting], results: Sequence[Feed | Exception]) -> None:
    for (_, future), result in zip(waiting, results, strict=True):
        if future.done():  # the caller was cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _outline(entry: Entry) -> Outline:
    """The outline that a worker has sent as an entry."""
    settings = json.loads(entry.body)
    title = entry.title or None
    return Outline(entry.url or "", title, None, entry.categories, entry.id, settings)
