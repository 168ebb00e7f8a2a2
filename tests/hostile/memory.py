"""How much memory a process and its children take, looked at again and again."""

import contextlib
import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_SECONDS = 0.03
_RECENT_LOOKS = 70  # about two seconds


@dataclass(frozen=True)
class Megabytes:
    """Resident memory of a process by itself, and with all it has started."""

    own: float
    tree: float

    def __sub__(self, other: "Megabytes") -> "Megabytes":
        return Megabytes(self.own - other.own, self.tree - other.tree)


NO_MEGABYTES = Megabytes(0, 0)


class MemoryWatch:
    """A thread that remembers the most memory since it was last asked.

    It also adds up how long threads that were ready to run had to wait for a processor: so late
    can anything be on this machine, whoever it belongs to.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = NO_MEGABYTES
        self.machine_late = 0.0
        self._delays: dict[str, int] = {}  # nanoseconds, by thread
        self._recent: deque[float] = deque(maxlen=_RECENT_LOOKS)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def now(self) -> Megabytes:
        """What is used at this moment, which the count of the most begins anew with."""
        self._most = memory_of(self._pid)
        return self._most

    def most(self) -> Megabytes:
        """The most of either since `now` was asked."""
        self._look()
        return self._most

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()
            self._look_at_delays()

    def _look(self) -> None:
        most, found = self._most, memory_of(self._pid)
        self._most = Megabytes(max(most.own, found.own), max(most.tree, found.tree))

    def _look_at_delays(self) -> None:
        """Note how long the loop may have stood still for want of a processor since the last look.

        That is what its own thread waited for one, and the one that waited longest beside it: it
        may have had the interpreter's lock meanwhile.
        """
        waited: list[int] = []
        for thread, delay in run_delays(self._pid).items():
            waited.append(delay - self._delays.get(thread, delay))
            self._delays[thread] = delay
        self._recent.append(sum(sorted(waited)[-2:]) / 1e9)
        self.machine_late = max(self.machine_late, sum(self._recent))


def run_delays(pid: int) -> dict[str, int]:
    """How many nanoseconds each thread of a process has waited for a processor so far."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, IndexError):
                figures = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
                found[thread] = int(figures[1])
    return found


def memory_of(pid: int) -> Megabytes:
    """What a process uses now."""
    return Megabytes(_resident(pid) / 1e6, tree_bytes(pid) / 1e6)


def tree_bytes(pid: int) -> int:
    """Resident bytes of a process and its children."""
    return _resident(pid) + sum(tree_bytes(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    """What each of its threads has started; none where it ends while it is looked at."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                found += map(int, children.split())
    return found


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0
