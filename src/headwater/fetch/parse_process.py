"""One parse worker as its owner sees it: started, given jobs, ended. Every call here blocks."""

import fcntl
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from headwater.errors import (
    BrokenBody,
    FetchError,
    HeadwaterError,
    LocalFault,
    ManyEntries,
    NoContent,
    NotAFeed,
    TooExpensive,
    TooLarge,
    UsageError,
)
from headwater.fetch.feed import Feed
from headwater.fetch.parse_frames import (
    BUFFER_BYTES,
    BrokenFrame,
    FrameTooLong,
    from_json,
    from_text,
    read_frame,
    to_json,
    unpack,
    write_frame,
)
from headwater.model import Entry
from headwater.rules.urls import masked

WORKER = (sys.executable, "-P", "-m", "headwater.fetch.parse_worker")
MAX_ANSWER_BYTES = 64 << 20  # entries are not to cost the owner what the worker was spared (H1)
MAX_HANDFUL_BYTES = 512 * 1024  # of small documents that are handed over in one go
_ERRORS: Mapping[str, type[HeadwaterError]] = {
    kind.__name__: kind
    for kind in (NotAFeed, NoContent, TooExpensive, ManyEntries, TooLarge, BrokenBody, UsageError)
}


@dataclass(frozen=True, slots=True)
class Job:
    """A document and what is to be made of it."""

    task: str
    document: bytes
    content_type: str | None
    url: str
    seconds: float
    most: int | None = None  # no more entries are wanted than this and one


class WorkerEnded(Exception):
    """The worker is gone; the message says how, as the end of a sentence."""


class ParseProcess:
    """A worker process; `kill` and `is_usable` may be called from any thread."""

    def __init__(self, command: Sequence[str], *, memory_mb: int) -> None:
        self._command = [*command, str(memory_mb)]
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # guards _process and _doomed against kill
        self._turn = threading.Lock()  # start, work and end exclude each other
        self._doomed = False
        self._ready = False  # takes jobs
        self._owed = 0  # documents handed over that are not answered yet
        self.has_said_goodbye = False  # with an answer; it has not looked at what comes after that
        # whether a handful can be left in its pipe, whatever it is doing with the one before
        self.takes_ahead = False

    @property
    def is_usable(self) -> bool:
        """Whether the process runs and waits for a job."""
        process = self._process
        if process is None or self._doomed or not self._ready or self._owed:
            return False
        return process.poll() is None

    def start(self) -> None:
        """Start the process unless it runs, and wait until it is ready for a job."""
        with self._turn:
            if self._doomed:
                raise WorkerEnded("was stopped")
            if self._process is None:
                self._start()

    def work(self, job: Job) -> Feed:
        """Have one document parsed; raise what the parser raised, or WorkerEnded."""
        with self._turn:
            if self._process is None:
                raise WorkerEnded("was stopped")
            return self._work(self._process, job)

    def hand_over(self, jobs: Sequence[Job]) -> None:
        """Give it some small documents to parse in one go; raise WorkerEnded where it is gone."""
        with self._turn:
            if self._process is None:
                raise WorkerEnded("was stopped")
            self._ready = False
            try:
                self._hand_over(self._process, jobs)
            except (OSError, ValueError) as error:
                raise WorkerEnded(_how_it_ended(self._process)) from error

    def answers(self, jobs: Sequence[Job]) -> list[Feed | Exception]:
        """What came of documents handed over; what was raised stands for its document.

        They are fewer than the jobs where the worker has ended meanwhile.
        """
        with self._turn:
            if self._process is None:
                raise WorkerEnded("was stopped")
            return self._answers(self._process, jobs)

    def kill(self) -> None:
        """End the process now, whatever it does, also when it is only just being started."""
        with self._lock:
            self._doomed = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """End the process and leave nothing of it behind."""
        self.kill()
        with self._turn:
            process = self._process
            if process is None:
                return
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not sent to a dead process is not missed
                        pipe.close()

    def _start(self) -> None:
        try:
            process = self._spawn()
            ready = read_frame(_pipe(process.stdout), limit=1024)
        except (OSError, BrokenFrame) as error:
            raise LocalFault(f"a process for parsing could not be started: {error}") from error
        if ready is None:
            command = " ".join(self._command)
            raise LocalFault(f"a process for parsing ended at once; to see why, run: {command}")
        self._ready = True

    def _work(self, process: subprocess.Popen[bytes], job: Job) -> Feed:
        self._ready = False
        try:
            self._hand_over(process, [job])
            return self._take_answer(process, job)
        except (BrokenFrame, OSError, ValueError) as error:
            raise WorkerEnded(_how_it_ended(process)) from error

    def _answers(
        self, process: subprocess.Popen[bytes], jobs: Sequence[Job]
    ) -> list[Feed | Exception]:
        results: list[Feed | Exception] = []
        try:
            for job in jobs:
                try:
                    results.append(self._take_answer(process, job))
                except HeadwaterError as error:
                    results.append(error)
                if not self._ready:  # it ends with this answer
                    break
        except (BrokenFrame, OSError, ValueError, WorkerEnded):
            self._ready = False
        return results

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=BUFFER_BYTES,
            stderr=subprocess.DEVNULL,  # what a library complains about is for nobody (H4)
            process_group=0,  # Ctrl-C in the terminal is for the owner, who drains first
        )
        self.takes_ahead = _widened(process.stdin)
        with self._lock:
            self._process = process
            if self._doomed:  # killed while it was being started
                process.kill()
        return process

    def _hand_over(self, process: subprocess.Popen[bytes], jobs: Sequence[Job]) -> None:
        pipe = _pipe(process.stdin)
        self._owed += len(jobs)
        for job in jobs:
            head = {
                "task": job.task,
                "content_type": job.content_type,
                "url": job.url,
                "seconds": job.seconds,
                "most": job.most,
                "more": job is not jobs[-1],
            }
            write_frame(pipe, to_json(head))
            write_frame(pipe, job.document)
        pipe.flush()

    def _take_answer(self, process: subprocess.Popen[bytes], job: Job) -> Feed:
        entries: list[Entry] = []
        answer = _Answer(_pipe(process.stdout))
        while True:
            match from_json(answer.next_frame()):
                case ["entries", packed]:
                    entries.extend(unpack(fields, answer.next_text) for fields in packed)
                case ["done", complete, title, last]:
                    self._answered(last=last)
                    return Feed(entries=tuple(entries), complete=complete, title=title)
                case ["error", name, text, last]:
                    self._answered(last=last)
                    raise self._error(name, text, job)

    def _answered(self, *, last: bool) -> None:
        self._owed -= 1
        self._ready, self.has_said_goodbye = not last, last

    def _error(self, name: str, text: str, job: Job) -> Exception:
        if name == MemoryError.__name__:
            return WorkerEnded(f"needed more than {self._memory_mb} MB of memory")
        if name in _ERRORS:
            return _ERRORS[name](text)
        return FetchError(f"{masked(job.url)} could not be parsed: {name} {text}".strip())


class _Answer:
    """The frames of an answer, as long as all of them together are not too large."""

    __slots__ = ("_pipe", "_room")

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._room = MAX_ANSWER_BYTES

    def next_frame(self) -> bytes:
        try:
            frame = read_frame(self._pipe, limit=self._room)
        except FrameTooLong as error:
            megabytes = MAX_ANSWER_BYTES >> 20
            raise WorkerEnded(f"gave more than {megabytes} MB of entries") from error
        if frame is None:
            raise BrokenFrame("the stream ended before the answer")
        self._room -= len(frame)
        return frame

    def next_text(self) -> str:
        return from_text(self.next_frame())


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:  # it broke the protocol and lives on
        process.kill()
        code = process.wait()
    if code >= 0:
        return f"ended its process with exit code {code}"
    if code == -signal.SIGALRM:
        return "took too long"
    return f"ended its process with {signal.Signals(-code).name}"


def _widened(pipe: Any) -> bool:
    """Make a pipe hold a whole handful, where the system lets us."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, MAX_HANDFUL_BYTES)
    except (AttributeError, OSError):  # not Linux, or too many pipes are wide already
        return False
    return True


def _pipe(pipe: Any) -> BinaryIO:
    """Popen's pipes are there: both were asked for."""
    stream: BinaryIO = pipe
    return stream
