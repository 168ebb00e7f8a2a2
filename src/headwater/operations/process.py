"""What this process takes of its machine."""

import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Process:
    """Processor time, memory and open files."""

    cpu_seconds: float
    resident_bytes: int
    open_files: int
    most_open_files: float


def this_process() -> Process:
    """Look at this process as it is now."""
    return Process(
        cpu_seconds=time.process_time(),
        resident_bytes=_resident_bytes(),
        open_files=_open_files(),
        most_open_files=_most_open_files(),
    )


def _resident_bytes() -> int:
    try:
        pages = int((_SELF / "statm").read_text(encoding="ascii").split()[1])
    except OSError:  # no Linux: the most it ever took is the best that can be told
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def _open_files() -> int:
    for folder in (_SELF / "fd", Path("/dev/fd")):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return 0


def _most_open_files() -> float:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if most == resource.RLIM_INFINITY else most
