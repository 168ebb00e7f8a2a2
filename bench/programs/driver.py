"""The measured process: runs a round whenever the benchmark requests one.

Needs only Python, so that other programs can be measured in the same way.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

Counts = dict[str, int]


class MeasuredProgram(Protocol):
    """One program of a case."""

    async def open(self) -> None:
        """Set up; not measured."""

    async def prepare(self) -> None:
        """Make everything due again; not measured."""

    async def run(self) -> int:
        """Do the work once, and return the number of polls."""

    async def counts(self) -> Counts:
        """The number of stored rows."""

    async def close(self) -> None:
        """Remove everything."""


def serve(
    make: Callable[[dict[str, Any]], MeasuredProgram],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Write one line on standard output for each line of standard input."""
    program = make(json.loads(sys.argv[1]))
    responses, sys.stdout = sys.stdout, sys.stderr  # output of libraries is no result

    def answer(value: object) -> None:
        responses.write(json.dumps(value) + "\n")
        responses.flush()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(program.open())
        answer("ready")
        for line in iter(sys.stdin.readline, ""):
            step = line.strip()
            if step == "run":
                gc.collect()
                answer("go")
                sys.stdin.readline()  # memory is measured from here on
            began = time.perf_counter()
            done = runner.run(getattr(program, step)())
            answer([done, time.perf_counter() - began] if step == "run" else done)
            if step == "close":
                return
