"""What a process and its children take of memory, and wait for processors, looked at for ever."""

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
_NEW_PARSER = 30.0  # megabytes, before it is given anything


@dataclass(frozen=True)
class Megabytes:
    """By how much a process has grown by itself, and with all it has started."""

    own: float
    tree: float


@dataclass(frozen=True)
class Use:
    """Resident megabytes of a process and of those it has started."""

    own: float
    parsers: Mapping[int, float]  # by process

    def grown_from(self, before: "Use") -> Megabytes:
        """By how much it is more; who was not there before counts from what a new one takes."""
        parsers = self.parsers.items()
        grown = sum(used - before.parsers.get(pid, _NEW_PARSER) for pid, used in parsers)
        return Megabytes(self.own - before.own, self.own - before.own + grown)


@dataclass(frozen=True)
class Look:
    """What was seen at one moment."""

    at: float  # on the monotonic clock
    use: Use
    waited: float  # seconds since the look before that the service waited for a processor
    parser_waited: float  # seconds that one of its parsers did
    stolen: float  # seconds since the start that processors were with other machines


@dataclass(frozen=True)
class Cost:
    """What was spent between two moments."""

    seconds: float
    starved: float  # seconds that threads were ready meanwhile and no processor free
    parser_starved: float  # those of the parsers
    grown: Megabytes


class MemoryWatch:
    """A thread that looks again and again, and remembers what it saw.

    It also notes how long threads that were ready to run had to wait for a processor, and what a
    hypervisor gave to others, which no thread waits for: so late can anything be on this machine.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.looks: list[Look] = []
        self._delays: dict[str, int] = {}  # nanoseconds, by thread
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def now(self) -> Use:
        """What is used at this moment."""
        parsers = {child: _resident(child) for child in _children(self._pid)}
        return Use(_resident(self._pid), parsers)

    def since(self, began: float, before: Use) -> Cost:
        """What was spent from a moment on the monotonic clock until now."""
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
            self.looks.append(Look(time.monotonic(), use, waited, parsers, _stolen()))

    def _waited(self, pid: int) -> float:
        """How long a process may have stood still for want of a processor since the last look.

        That is what its own thread waited for one, and those that waited longest beside it: they
        may have had the interpreter's lock meanwhile, one after another.
        """
        waited: list[int] = []
        for thread, delay in run_delays(pid).items():
            waited.append(delay - self._delays.get(thread, delay))
            self._delays[thread] = delay
        return sum(sorted(waited)[-3:]) / 1e9


def run_delays(pid: int) -> dict[str, int]:
    """How many nanoseconds each thread of a process has waited for a processor so far."""
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
    """What each of its threads has started; none where it ends while it is looked at.

    A child that just began and still says what its parent says has no memory of its own yet.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                found += map(int, children.split())
    said = _said(pid)
    return [child for child in found if _said(child) != said or _age_seconds(child) > 1]


def _said(pid: int) -> bytes:
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
