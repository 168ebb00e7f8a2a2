"""The measured machine: cores, and the CPU and memory of process trees."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

CLIENT_CORE = 0
SERVER_CORE = 1
_TICKS = os.sysconf("SC_CLK_TCK")
_SCHED_CLOCK = 2  # of a process: all its threads, in nanoseconds


def end_cleanly() -> None:
    """Convert a signal into an exception, so that started processes are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))


def cores() -> list[int]:
    """The usable cores."""
    return sorted(os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0))


def pin_tree(root: int, to: Sequence[int]) -> None:
    """Pin a process, its children and all their threads to some cores."""
    for pid in tree(root):
        with suppress(OSError):  # ended in the meantime
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), to)


def cpu_seconds(roots: Iterable[int]) -> float:
    """CPU that processes and their children have used so far, ended ones included."""
    total = 0.0
    for root in roots:
        for pid in tree(root):
            with suppress(OSError):
                total += time.clock_gettime(~pid << 3 | _SCHED_CLOCK)
                total += sum(map(int, _stat(pid)[13:15])) / _TICKS  # of children that ended
    return total


def memory_mb(root: int) -> float:
    """Memory of a process and its children; shared memory is counted once."""
    total = 0
    for pid in tree(root):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat(int(name))[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
