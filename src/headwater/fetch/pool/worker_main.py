"""The worker process that parses documents, one job after another, within its own limits (H2).

It reads jobs from standard input and writes results to standard output, opens no file and no
connection, and ends when its input ends, so that it never outlives its owner.
"""

import gc
import os
import re
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO

from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.library_memory import (
    InternedNames,
    return_freed_memory,
    return_large_blocks,
)
from headwater.fetch.page.feed_links import feed_links
from headwater.fetch.page.page_blocks import read_page_blocks
from headwater.fetch.page.page_document import read_page
from headwater.fetch.pool.worker_frames import (
    BUFFER_BYTES,
    entry_frames,
    from_json,
    read_frame,
    to_json,
    write_frame,
)
from headwater.fetch.text.sanitize import storable_line
from headwater.formats.opml import read_opml
from headwater.model import Entry
from headwater.source_settings import SETTINGS
from headwater.watch_settings import WatchSettings

MAX_DOCUMENT_BYTES = 1 << 31
# The owner enforces the time limit; this is for a worker whose owner was killed.
GRACE_SECONDS = 2.0
# If an allocation fails, C libraries report a broken document. A failed allocation of less than a
# fifth of the budget implies a peak above four fifths, which can be measured.
_OUT_OF_MEMORY_SHARE = 0.8
# A worker that grew this far is replaced: freed memory is rarely returned. The first is a share of
# the budget, at its peak. The second is what it keeps after a large document.
_RETIRE_SHARE = 0.5
_RETIRE_BYTES = 24 << 20
_MIN_BUDGET_BYTES = 32 << 20
_LARGE_BYTES = 1 << 20  # after larger documents, freed memory is returned to the system
_MAX_MESSAGE = 500

Task = Callable[..., Feed]
_Job = tuple[list[Any], bytes]  # the head and the document


def main() -> None:
    """Run the worker; the argument of the command line is the memory budget in MB."""
    tasks: dict[str, Task] = {
        "feed": _parse_feed,
        "page": _parse_page,
        "links": _find_feeds,
        "blocks": _find_blocks,
        "list": _read_list,
    }
    serve(tasks, memory_mb=int(sys.argv[1]))


def serve(tasks: Mapping[str, Task], *, memory_mb: int) -> None:
    """Run jobs until the input ends, or until this process has used too much memory."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the owner drains first and then closes our input
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    jobs, results = _take_pipes()
    return_large_blocks()
    memory = _Memory()
    memory.limit(memory_mb << 20)
    gc.freeze()
    gc.disable()  # collecting during a parse takes a tenth of the time and frees nothing
    write_frame(results, b"ready")
    results.flush()
    names = InternedNames()
    while (batch := _next_jobs(jobs)) is not None:
        may_continue = all(_run(results, tasks, job, memory) for job in batch)
        results.flush()  # once per batch: each flush wakes the owner
        if not may_continue:
            return
        size = sum(len(document) for _, document in batch)
        del batch
        gc.collect()
        names.count(size)
        if size > _LARGE_BYTES:
            return_freed_memory()


def _next_jobs(jobs: BinaryIO) -> list[_Job] | None:
    """The jobs of one batch; all are read before the first is run."""
    batch: list[_Job] = []
    while not batch or batch[-1][0][-1]:  # more follow
        head = read_frame(jobs, limit=1 << 20)
        document = None if head is None else read_frame(jobs, limit=MAX_DOCUMENT_BYTES)
        if head is None or document is None:
            return None
        batch.append((from_json(head), document))
    return batch


class _Memory:
    """The memory budget of this process and its peak use, as far as the system reports it."""

    def __init__(self) -> None:
        self._status = -1
        with suppress(OSError):  # only Linux has it
            self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        self._used_at_start = self._status_bytes(b"VmData")
        self._code_bytes = self._status_bytes(b"VmSize") - self._used_at_start
        self._resident_at_start = self._status_bytes(b"VmRSS")
        self._budget = 0

    def limit(self, budget: int) -> None:
        """Make allocations beyond the budget fail; the budget covers the whole process."""
        self._budget = max(budget, self._used_at_start + _MIN_BUDGET_BYTES)
        _set_limit(resource.RLIMIT_DATA, self._budget)
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_FSIZE, 0)  # no files are written; pipes are not affected

    def share(self) -> float:
        """The peak use as a share of the budget."""
        return (self._status_bytes(b"VmPeak") - self._code_bytes) / self._budget

    def grown_bytes(self) -> int:
        """How many more bytes are resident than at the start."""
        return self._status_bytes(b"VmRSS") - self._resident_at_start

    def _status_bytes(self, name: bytes) -> int:
        if self._status < 0:
            return 0
        found = re.search(rb"\b%s:\s*(\d+)" % name, os.pread(self._status, 4096, 0))
        return int(found[1]) << 10 if found else 0


def _run(results: BinaryIO, tasks: Mapping[str, Task], job: _Job, memory: _Memory) -> bool:
    """Run one job and send its result; returns whether another may follow."""
    (name, options, seconds, _), document = job
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
    entries: deque[Entry] = deque()
    reply: tuple[object, ...]
    try:
        feed = tasks[name](document, **options)
        entries.extend(feed.entries)
        reply = "done", feed.complete, feed.title
        del feed  # so that each entry is freed once it was written (H1)
    except Exception as error:  # noqa: BLE001 - any parser error is the document's (H4)
        reply = "error", type(error).__name__, storable_line(str(error), _MAX_MESSAGE)
    used = memory.share()
    if used > _OUT_OF_MEMORY_SHARE:
        entries.clear()
        reply = "error", MemoryError.__name__, ""
    is_large = len(document) > _LARGE_BYTES
    if is_large:  # from here on the owner's memory grows
        return_freed_memory()
    while entries:
        for frame in entry_frames(entries.popleft()):  # the entry itself is freed by now (H1)
            write_frame(results, frame)
    is_last = (memory.share() if is_large else used) > _RETIRE_SHARE
    if is_large:
        return_freed_memory()
        is_last = is_last or memory.grown_bytes() > _RETIRE_BYTES
    write_frame(results, to_json([*reply, is_last]))
    signal.setitimer(signal.ITIMER_REAL, 0)
    return not is_last


def _parse_feed(data: bytes, *, since: str | None = None, **options: Any) -> Feed:
    date = None if since is None else datetime.fromisoformat(since)
    return parse_feed(data, since=date, **options)


def _parse_page(
    data: bytes, *, content_type: str | None, url: str, watch: dict[str, Any] | None = None
) -> Feed:
    entry = read_page(data, content_type=content_type, url=url, watch=_watch(watch))
    return Feed(entries=(entry,), complete=True, title=entry.title or None)


def _watch(value: dict[str, Any] | None) -> WatchSettings | None:
    watch: WatchSettings | None = SETTINGS["watch"].from_json(value)
    return watch


def _find_feeds(data: bytes, *, content_type: str | None, url: str) -> Feed:
    """Links are sent as entries without a body; the type is their id."""
    found = feed_links(data, content_type=content_type, url=url)
    entries = (Entry(link.type, link.title, link.url, None, None, "") for link in found)
    return Feed(entries=tuple(entries), complete=True, title=None)


def _find_blocks(
    data: bytes, *, content_type: str | None, url: str, watch: dict[str, Any] | None = None
) -> Feed:
    """Blocks are sent as entries with their text; the selector is their id."""
    found = read_page_blocks(data, content_type=content_type, url=url, watch=_watch(watch))
    entries = (
        Entry(
            each.selector, "", None, None, None, each.text,
            categories=tuple(
                map(str, (each.depth, each.length, each.watched_length, each.count))
            ),
        )
        for each in found
    )  # fmt: skip
    return Feed(entries=tuple(entries), complete=True, title=None)


def _read_list(data: bytes, *, max_entries: int, **_: str | None) -> Feed:
    """Outlines are sent as entries too: folders as categories, settings as JSON in the body."""
    found = read_opml(data, max_outlines=max_entries)
    entries = (
        Entry(
            each.type, each.title or "", each.url, None, None, to_json(each.settings).decode(),
            categories=each.folder,
        )
        for each in found
    )  # fmt: skip
    return Feed(entries=tuple(entries), complete=True, title=None)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move both pipes to other descriptors, so that no library prints between the frames."""
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb", BUFFER_BYTES)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs = os.fdopen(os.dup(sys.stdin.fileno()), "rb", BUFFER_BYTES)
    return jobs, results


def _set_limit(kind: int, value: int) -> None:
    with suppress(ValueError, OSError):  # not every system has every limit
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main()
