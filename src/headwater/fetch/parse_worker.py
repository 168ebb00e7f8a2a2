"""The process in which documents are parsed: one job after another, inside its own limits (H2).

It reads jobs from standard input and writes answers to standard output, opens no file and no
connection, and ends when its input ends, so that it never outlives its owner.
"""

import gc
import os
import re
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from headwater.fetch.feed import Feed, parse_feed
from headwater.fetch.feed_links import feed_links
from headwater.fetch.memory import Names, give_back, keep_no_large_blocks
from headwater.fetch.parse_frames import (
    BUFFER_BYTES,
    from_json,
    read_frame,
    to_json,
    write_entries,
    write_frame,
)
from headwater.fetch.website import read_page
from headwater.model import Entry
from headwater.rules.opml import read_opml

MAX_DOCUMENT_BYTES = 1 << 31
# The owner ends a job on time; this is for a worker whose owner was killed meanwhile.
GRACE_SECONDS = 2.0
# Where allocations fail, C libraries speak of broken documents. A failing allocation smaller than
# the last fifth of the budget implies a peak above the first four, and that can be measured.
_JUDGED_SHARE = 0.8
_RECYCLED_SHARE = 0.5  # a worker that grew this far is replaced; memory rarely comes back
_SMALLEST_ROOM_BYTES = 32 << 20
_LARGE_BYTES = 1 << 20  # documents that leave much behind
_MAX_MESSAGE = 500

Task = Callable[..., Feed]


def main() -> None:
    """Parse documents with the memory budget, in MB, that the command line names."""
    tasks: dict[str, Task] = {
        "feed": parse_feed,
        "page": _parse_page,
        "links": _find_feeds,
        "list": _read_list,
    }
    serve(tasks, memory_mb=int(sys.argv[1]))


def serve(tasks: Mapping[str, Task], *, memory_mb: int) -> None:
    """Answer jobs until the input ends, or until this process is no longer fit for the next."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # the owner drains first and then closes our input
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    jobs, answers = _take_pipes()
    keep_no_large_blocks()
    memory = _Memory()
    memory.limit(memory_mb << 20)
    gc.freeze()
    gc.disable()  # collecting while a document grows is a tenth of the time, and finds nothing
    _send(answers, "ready")
    answers.flush()
    names = Names()
    while (batch := _next_jobs(jobs)) is not None:
        for head, document in batch:
            if not _answer(answers, tasks, head, document, memory):
                answers.flush()
                return
        answers.flush()  # all at once: every piece would wake the owner
        is_large = len(document) > _LARGE_BYTES
        size = sum(len(document) for _, document in batch)
        del batch, head, document
        gc.collect()
        names.grow(size)
        if is_large:
            give_back()


def _next_jobs(jobs: BinaryIO) -> list[tuple[Mapping[str, Any], bytes]] | None:
    """The jobs that were handed over together, all of them read before one is answered."""
    batch = []
    while True:
        head = read_frame(jobs, limit=1 << 20)
        document = None if head is None else read_frame(jobs, limit=MAX_DOCUMENT_BYTES)
        if head is None or document is None:
            return None
        about: Mapping[str, Any] = from_json(head)
        batch.append((about, document))
        if not about["more"]:
            return batch


class _Memory:
    """The memory this process may use and how much it has used at most, where the system tells."""

    def __init__(self) -> None:
        self._status = -1
        with suppress(OSError):  # only Linux tells
            self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        self._used_at_start = self._figure(b"VmData")
        self._code_bytes = self._figure(b"VmSize") - self._used_at_start
        self._budget = 0

    def limit(self, budget: int) -> None:
        """Let allocations fail that would go over the budget, which counts everything."""
        self._budget = max(budget, self._used_at_start + _SMALLEST_ROOM_BYTES)
        _set_limit(resource.RLIMIT_DATA, self._budget)
        _set_limit(resource.RLIMIT_CORE, 0)
        _set_limit(resource.RLIMIT_FSIZE, 0)  # pipes have no size; files are none of our business

    def share(self) -> float:
        """How much of the budget was used at most, so far."""
        return (self._figure(b"VmPeak") - self._code_bytes) / self._budget

    def _figure(self, name: bytes) -> int:
        if self._status < 0:
            return 0
        found = re.search(rb"\b%s:\s*(\d+)" % name, os.pread(self._status, 4096, 0))
        return int(found[1]) << 10 if found else 0


def _answer(
    answers: BinaryIO,
    tasks: Mapping[str, Task],
    head: Mapping[str, Any],
    document: bytes,
    memory: _Memory,
) -> bool:
    """Do one job and send what came of it; say whether another may follow."""
    signal.setitimer(signal.ITIMER_REAL, head["seconds"] + GRACE_SECONDS)
    try:
        bound = {} if head["most"] is None else {"most": head["most"]}
        feed = tasks[head["task"]](
            document, content_type=head["content_type"], url=head["url"], **bound
        )
    except MemoryError:
        return _give_up(answers)
    except Exception as error:  # noqa: BLE001 - whatever a document does to us is its failure (H4)
        used = memory.share()
        if used > _JUDGED_SHARE:
            return _give_up(answers)
        last = used > _RECYCLED_SHARE
        _send(answers, "error", type(error).__name__, _one_line(str(error)), last)
    else:
        used = memory.share()
        if used > _JUDGED_SHARE:
            return _give_up(answers)
        is_large = len(document) > _LARGE_BYTES
        if is_large:  # the owner's memory grows from here on
            give_back()
        entries, complete, title = deque(feed.entries), feed.complete, feed.title
        del feed  # what was sent is let go of before its owner takes it apart (H1)
        write_entries(answers, _taken_out(entries))
        last = (memory.share() if is_large else used) > _RECYCLED_SHARE
        _send(answers, "done", complete, title, last)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return not last


def _taken_out(entries: deque[Entry]) -> Iterator[Entry]:
    while entries:
        yield entries.popleft()


def _give_up(answers: BinaryIO) -> bool:
    _send(answers, "error", MemoryError.__name__, "", True)
    return False


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_MESSAGE]


def _parse_page(data: bytes, *, content_type: str | None, url: str) -> Feed:
    entry = read_page(data, content_type=content_type, url=url)
    return Feed(entries=(entry,), complete=True, title=None)


def _find_feeds(data: bytes, *, content_type: str | None, url: str) -> Feed:
    """Links travel as entries without a body; the type is their id."""
    found = feed_links(data, content_type=content_type, url=url)
    entries = (Entry(link.type, link.title, link.url, None, None, "") for link in found)
    return Feed(entries=tuple(entries), complete=True, title=None)


def _read_list(data: bytes, *, most: int, **_: str | None) -> Feed:
    """Outlines travel as entries too; nobody asks for their folders."""
    found = read_opml(data, most=most)
    entries = (Entry(each.type, each.title or "", each.url, None, None, "") for each in found)
    return Feed(entries=tuple(entries), complete=True, title=None)


def _send(answers: BinaryIO, *message: object) -> None:
    write_frame(answers, to_json(message))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep both pipes to ourselves, so that nothing a library prints gets between the frames."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", BUFFER_BYTES)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs = os.fdopen(os.dup(sys.stdin.fileno()), "rb", BUFFER_BYTES)
    return jobs, answers


def _set_limit(kind: int, value: int) -> None:
    with suppress(ValueError, OSError):  # not every system knows every limit
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main()
