"""Samples the memory of a process and its children, and how long they wait for a processor."""

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.03
_NEW_PARSER = 30.0  # megabytes of a new process


@dataclass(frozen=True)
class Megabytes:
    """The growth of a process alone, and with all its children."""

    own: float
    tree: float


@dataclass(frozen=True)
class MemoryUse:
    """Resident megabytes of a process and its children."""

    own: float
    parsers: Mapping[int, float]  # by process

    def grown_from(self, before: "MemoryUse") -> Megabytes:
        """The growth since then; a new process counts from the size of an empty one."""
        parsers = self.parsers.items()
        grown = sum(used - before.parsers.get(pid, _NEW_PARSER) for pid, used in parsers)
        return Megabytes(self.own - before.own, self.own - before.own + grown)


@dataclass(frozen=True)
class Sample:
    """One sample."""

    at: float  # on the monotonic clock
    use: MemoryUse
    waited: float  # seconds since the last sample that the service waited for a processor
    parser_waited: float  # seconds that one of its parsers did
    stolen: float  # seconds since the start that processors were used by other machines


@dataclass(frozen=True)
class Cost:
    """The cost between two samples."""

    seconds: float
    starved: float  # seconds that threads were ready to run without a free processor
    parser_starved: float  # those of the parsers
    grown: Megabytes


class MemoryProbe:
    """A thread that samples continuously and keeps its samples.

    It also records how long ready threads waited for a processor, and the time that a hypervisor
    gave to other machines, which no thread counts as waiting: the machine may cause such delays.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.looks: list[Sample] = []
        self._delays: dict[str, int] = {}  # nanoseconds, by thread
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryProbe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def now(self) -> MemoryUse:
        """The current use."""
        before = self._parsers()
        own = _resident(self._pid)
        after = self._parsers()
        # the lower ones: this thread may wait between the reads, and would add up peaks that did
        # not coincide
        both = before.keys() & after.keys()
        return MemoryUse(own, {child: min(before[child], after[child]) for child in both})

    def _parsers(self) -> Mapping[int, float]:
        return {child: _resident(child) for child in _children(self._pid)}

    def since(self, began: float, before: MemoryUse) -> Cost:
        """The cost from a time on the monotonic clock until now."""
        ended, now = time.monotonic(), self.now()
        looks = [look for look in self.looks if began <= look.at <= ended]
        grown = [use.grown_from(before) for use in (now, *(look.use for look in looks))]
        parser_starved = sum(look.parser_waited for look in looks)
        return Cost(
            ended - began,
            sum(look.waited for look in looks) + parser_starved,
            parser_starved,
            Megabytes(max(one.own for one in grown), max(one.tree for one in grown)),
        )

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            waited = self._waited(self._pid)
            use = self.now()
            parsers = max(map(self._waited, use.parsers), default=0.0)
            self.looks.append(Sample(time.monotonic(), use, waited, parsers, _stolen()))

    def _waited(self, pid: int) -> float:
        """How long a process may have waited for a processor since the last sample.

        That is the wait of its own thread, and the longest waits of the others: they may have held
        the interpreter's lock one after another.
        """
        waited: list[int] = []
        for thread, delay in run_delays(pid).items():
            waited.append(delay - self._delays.get(thread, delay))
            self._delays[thread] = delay
        return sum(sorted(waited)[-3:]) / 1e9


def run_delays(pid: int) -> dict[str, int]:
    """The nanoseconds that each thread of a process has waited for a processor so far."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, IndexError):
                figures = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
                found[thread] = int(figures[1])
    return found


def _stolen() -> float:
    with contextlib.suppress(OSError, IndexError):
        return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / _TICKS
    return 0.0


def _children(pid: int) -> list[int]:
    """The children of each of its threads; none if it ends while they are read.

    A new child that still shares its parent's command line has no memory of its own yet.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                found += map(int, children.split())
    said = _read(pid)
    return [child for child in found if _read(child) != said or _age_seconds(child) > 1]


def _read(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _age_seconds(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / _TICKS
    return 0.0


def _resident(pid: int) -> float:
    """In megabytes."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    return 0.0
