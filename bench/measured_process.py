"""One measured process: started pinned, runs rounds on request, with its CPU and time."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from bench import machine

_PAUSE_SECONDS = 1.3  # longer than the server keeps a connection


@dataclass
class Measured:
    """A running program; the CPU of the processes `also` (the database) counts too."""

    command: Sequence[str]
    config: Mapping[str, Any]
    cores: Sequence[int]
    environ: Mapping[str, str] = field(default_factory=dict)
    also: Sequence[int] = ()
    cpu_ms: list[float] = field(default_factory=list)  # per poll, a value per round
    rates: list[float] = field(default_factory=list)  # polls per second
    count: int = 0  # polls of the last round
    _ended: float = 0.0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*self.command, json.dumps(self.config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environ},
            preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
        )
        assert self._read_reply() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.run_step("close")
        else:
            self._process.kill()
        self._process.wait(60)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def round(self, *, keep: bool) -> None:
        """Do all polls once; `keep` adds the measured values."""
        for root in self.also:
            machine.pin_tree(root, self.cores)
        self.run_step("prepare")
        time.sleep(max(self._ended + _PAUSE_SECONDS - time.monotonic(), 0))
        assert self.run_step("run") == "go"
        roots = (self.pid, *self.also)
        cpu = machine.cpu_seconds(roots)
        self.count, seconds = self.run_step("start")
        cpu = machine.cpu_seconds(roots) - cpu
        self._ended = time.monotonic()
        if keep:
            self.cpu_ms.append(cpu / self.count * 1000)
            self.rates.append(self.count / seconds)

    def counts(self) -> dict[str, int]:
        """The number of rows that the process reports as stored."""
        counts: dict[str, int] = self.run_step("counts")
        return counts

    def run_step(self, step: str) -> Any:
        """Run one step and return its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        return self._read_reply()

    def _read_reply(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.command)} ended before its reply")
        return json.loads(line)
