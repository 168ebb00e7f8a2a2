"""A worker on a machine whose clock is wrong by an hour."""

import sys
import time

from headwater import clock
from headwater.__main__ import main

_real = time.time_ns


class WrongTime:
    """The system's clocks, with the wall clock an hour ahead."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME
    CLOCK_MONOTONIC = time.CLOCK_MONOTONIC
    clock_gettime = staticmethod(time.clock_gettime)

    @staticmethod
    def time_ns() -> int:
        return _real() + 3600 * 10**9


clock.time = WrongTime  # type: ignore[attr-defined,assignment]

if __name__ == "__main__":
    sys.exit(main())
