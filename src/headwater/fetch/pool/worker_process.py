"""A parser worker process as seen by its owner: start it, send jobs, end it. All calls block."""

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, BinaryIO

from headwater import errors
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.pool.worker_frames import (
    BUFFER_BYTES,
    BrokenFrame,
    FrameTooLong,
    from_json,
    read_entry,
    read_frame,
    to_json,
    write_frame,
)
from headwater.model import Entry
from headwater.rules.url_secrets import masked
from headwater.watch_settings import WatchSettings

WORKER = (sys.executable, "-P", "-m", "headwater.fetch.pool.worker_main")
MAX_RESULT_BYTES = 64 << 20  # bounds the owner's memory, as limits bound the worker's (H1)
_DOCUMENT_ERRORS = (
    errors.NotAFeed, errors.PageNotFeed, errors.NoContent, errors.SelectorUnmatched,
    errors.UsageError,
)  # fmt: skip
_LIMIT_ERRORS = (errors.TooExpensive, errors.ManyEntries, errors.TooLarge, errors.BrokenBody)
_ERRORS = {kind.__name__: kind for kind in (*_DOCUMENT_ERRORS, *_LIMIT_ERRORS)}


@dataclass(frozen=True, slots=True)
class Job:
    """A document and the task to do with it."""

    task: str
    document: bytes
    content_type: str | None
    url: str
    seconds: float
    max_entries: int | None = None
    watch: WatchSettings | None = None  # of a page
    since: datetime | None = None  # of a feed: older entries get no Markdown


class WorkerEnded(Exception):
    """The worker process is gone; the message is the end of a sentence that says how."""


class ParserProcess:
    """A worker process; `kill` and `is_usable` may be called from any thread."""

    def __init__(self, command: Sequence[str], *, memory_mb: int) -> None:
        self._command = [*command, str(memory_mb)]
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._kill_lock = threading.Lock()  # guards _process and _kill_reason
        self._io_lock = threading.Lock()  # start, work and end exclude each other
        self._kill_reason: str | None = None  # None: it was not killed by its owner
        self._is_ready = False  # for a job

    @property
    def is_usable(self) -> bool:
        """Whether the process runs and waits for a job."""
        process = self._process
        return (
            process is not None
            and self._is_ready
            and self._kill_reason is None
            and process.poll() is None
        )

    def start(self) -> None:
        """Start the process unless it runs, and wait until it is ready for a job."""
        with self._io_lock:
            if self._kill_reason is not None:
                raise WorkerEnded(self._kill_reason)
            if self._process is None:
                self._start()

    def work(self, job: Job) -> Feed:
        """Parse one document; raises the parser's error, or WorkerEnded."""
        (result,) = self.work_batch([job])
        if isinstance(result, Exception):
            raise result
        return result

    def work_batch(self, jobs: Sequence[Job]) -> list[Feed | Exception]:
        """Parse documents; a result for each: a feed, the parser's error, or WorkerEnded."""
        results: list[Feed | Exception] = []
        end = WorkerEnded("was replaced")
        with self._io_lock:
            process = self._process
            if process is None:
                return [WorkerEnded("was stopped")] * len(jobs)
            self._is_ready = False
            try:
                _write_jobs(_pipe(process.stdin), jobs)
                for job in jobs:
                    result, is_last = self._read_result(_pipe(process.stdout), job)
                    results.append(result)
                    if is_last:  # the process ends after this response
                        break
                else:
                    self._is_ready = True
            except WorkerEnded as error:
                end = error
            except Exception:  # noqa: BLE001 - whatever the process sent: each job has a result
                end = WorkerEnded(self._kill_reason or _how_it_ended(process))
        return results + [end] * (len(jobs) - len(results))

    def kill(self, reason: str = "was stopped") -> None:
        """End the process now, also while it is being started."""
        with self._kill_lock:
            self._kill_reason = self._kill_reason or reason
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """End the process, wait for it and close its pipes."""
        self.kill()
        with self._io_lock:
            process = self._process
            if process is None:
                return
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # unsent bytes for a dead process
                        pipe.close()

    def _start(self) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=BUFFER_BYTES,
                stderr=subprocess.DEVNULL,  # libraries' warnings about documents (H4)
                process_group=0,  # Ctrl-C in the terminal is for the owner, who drains first
            )
            with self._kill_lock:
                self._process = process
                if self._kill_reason is not None:  # while it was being started
                    process.kill()
            ready = read_frame(_pipe(process.stdout), limit=1024)
        except (OSError, BrokenFrame) as error:
            raise errors.LocalFault(
                f"a process for parsing could not be started: {error}"
            ) from error
        if ready is None:
            command = " ".join(self._command)
            raise errors.LocalFault(
                f"a process for parsing ended at once; to see why, run: {command}"
            )
        self._is_ready = True

    def _read_result(self, pipe: BinaryIO, job: Job) -> tuple[Feed | Exception, bool]:
        """The result of a job, and whether the process ends after it."""
        entries: list[Entry] = []
        bytes_left = MAX_RESULT_BYTES

        def next_frame() -> bytes:
            nonlocal bytes_left
            try:
                frame = read_frame(pipe, limit=bytes_left)
            except FrameTooLong as error:
                megabytes = MAX_RESULT_BYTES >> 20
                raise WorkerEnded(f"gave more than {megabytes} MB of entries") from error
            if frame is None:
                raise BrokenFrame("the stream ended before the result")
            bytes_left -= len(frame)
            return frame

        while True:
            match from_json(next_frame()):
                case ["entry", *fields]:
                    entries.append(read_entry(fields, next_frame))
                case ["done", complete, title, is_last]:
                    return Feed(entries=tuple(entries), complete=complete, title=title), is_last
                case ["error", name, text, is_last]:
                    return self._error(name, text, job), is_last

    def _error(self, name: str, text: str, job: Job) -> Exception:
        if name == MemoryError.__name__:
            raise WorkerEnded(f"needed more than {self._memory_mb} MB of memory")
        if name in _ERRORS:
            return _ERRORS[name](text)
        return errors.FetchError(f"{masked(job.url)} could not be parsed: {name} {text}".strip())


def _write_jobs(pipe: BinaryIO, jobs: Sequence[Job]) -> None:
    for job in jobs:
        options: dict[str, object] = {"content_type": job.content_type, "url": job.url}
        if job.max_entries is not None:
            options["max_entries"] = job.max_entries
        if job.watch is not None:
            options["watch"] = asdict(job.watch)
        if job.since is not None:
            options["since"] = job.since.isoformat()
        write_frame(pipe, to_json([job.task, options, job.seconds, job is not jobs[-1]]))
        write_frame(pipe, job.document)
    pipe.flush()


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:  # it violated the protocol and still runs
        process.kill()
        code = process.wait()
    if code >= 0:
        return f"ended its process with exit code {code}"
    if code == -signal.SIGALRM:
        return "took too long"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # real-time signals have no names
        name = f"signal {-code}"
    return f"ended its process with {name}"


def _pipe(pipe: Any) -> BinaryIO:
    """Narrow the type: both pipes were requested."""
    stream: BinaryIO = pipe
    return stream
