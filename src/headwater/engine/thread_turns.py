"""What a thread gets of the processors."""

import contextlib
import os
import time
from typing import NamedTuple, Self


class Turns(NamedTuple):
    """What a thread got so far, or between two moments."""

    worked: float  # seconds on a processor
    waited: float  # seconds without one, although it could have run
    number: int  # how often it got one

    def since(self, before: "Turns") -> "Turns":
        """What it got after an earlier moment."""
        worked, waited, number = before
        return Turns(self.worked - worked, self.waited - waited, self.number - number)


class ThreadTurns:
    """Counts the turns of the thread that opens it; where the system tells, also its waits."""

    def __init__(self) -> None:
        self._file: int | None = None

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):  # only Linux tells
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def so_far(self) -> Turns:
        """What the thread got until now."""
        if self._file is None:
            return Turns(time.thread_time(), 0.0, 0)
        _, waited, number = os.pread(self._file, 100, 0).split()
        return Turns(time.thread_time(), int(waited) / 1e9, int(number))
