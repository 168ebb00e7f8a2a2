"""What this process takes of its machine."""

import errno
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
    used, most = open_files()
    return Process(
        cpu_seconds=time.process_time(),
        resident_bytes=_resident_bytes(),
        open_files=used,
        most_open_files=most,
    )


def open_files() -> tuple[int, float]:
    """How many files and connections are open, and how many there may be."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for folder in (_SELF / "fd", Path("/dev/fd")):
        try:
            return len(os.listdir(folder)), _unlimited(soft)
        except OSError as error:
            if error.errno == errno.EMFILE:  # not even one more to count the others with
                return soft, soft
    return 0, _unlimited(soft)


def _resident_bytes() -> int:
    try:
        pages = int((_SELF / "statm").read_text(encoding="ascii").split()[1])
    except OSError:  # no Linux: the most it ever took is the best that can be told
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def _unlimited(most: int) -> float:
    return float("inf") if most == resource.RLIM_INFINITY else most
