"""The side of a measured process: rounds begin when the bench says so.

Needs nothing but Python, so that other programs' ways can be measured alike.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

Counts = dict[str, int]


class Way(Protocol):
    """One way to do the work of a case."""

    async def open(self) -> None:
        """Set up; not measured."""

    async def prepare(self) -> None:
        """Make everything due again; not measured."""

    async def run(self) -> int:
        """Do the work once, and say how many polls that were."""

    async def counts(self) -> Counts:
        """What is stored by now."""

    async def close(self) -> None:
        """Leave nothing behind."""


def serve(
    make: Callable[[dict[str, Any]], Way],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Answer each line of standard input with one on standard output."""
    way = make(json.loads(sys.argv[1]))
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(way.open())
        answer("ready")
        for line in iter(sys.stdin.readline, ""):
            step = line.strip()
            if step == "run":
                gc.collect()
                answer("go")
                sys.stdin.readline()  # what is taken from here on is looked at
            began = time.perf_counter()
            done = runner.run(getattr(way, step)())
            answer([done, time.perf_counter() - began] if step == "run" else done)
            if step == "close":
                return
