"""Forks services from a process that has loaded the program: far faster than a command.

Every line on its standard input starts one; every line on its standard output reports one that
started or ended. `ForkServer` is the other end of those pipes.
"""

import asyncio
import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.crash.killed_process import Plan, run_killed

ROOT = Path(__file__).resolve().parents[2]
_SET_DEATH_SIGNAL = 1


class ForkedProcess:
    """A running process and its exit status."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def is_running(self) -> bool:
        return not self.ended.done()

    async def kill(self) -> int:
        """Kill it and return its exit status, as `subprocess` reports it."""
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return await self.ended


class ForkServer:
    """Starts processes and receives their exit statuses."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self._begun: asyncio.Queue[ForkedProcess] = asyncio.Queue()
        self._living: dict[int, ForkedProcess] = {}

    async def fork(self, folder: Path, plan: Plan, *arguments: str) -> ForkedProcess:
        """Run a command in a folder; it writes to `log.txt` there."""
        wish = {"folder": str(folder), "plan": plan.to_json(), "arguments": arguments}
        async with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(wish).encode() + b"\n")
            return await self._begun.get()

    async def read_reports(self) -> None:
        """Read reports of starts and ends until the pipe closes."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            reported = json.loads(line)
            if "began" in reported:
                forked = self._living[reported["began"]] = ForkedProcess(reported["began"])
                self._begun.put_nowait(forked)
            else:
                self._living.pop(reported["ended"]).ended.set_result(reported["status"])


@asynccontextmanager
async def fork_server() -> AsyncIterator[ForkServer]:
    """A running fork server; its processes end with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.crash.fork_server", cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    there = ForkServer(process)
    listening = asyncio.create_task(there.read_reports())
    try:
        yield there
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


def _main() -> None:
    _load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _report_ends()
        if 0 in ready:
            read = os.read(0, 65536)
            if not read:
                return
            *wishes, asked = (asked + read).split(b"\n")
            for wish in wishes:
                _fork(json.loads(wish))


def _load() -> None:
    """Load what `serve` needs before any thread is started."""
    import headwater.api.connection_limits
    import headwater.api.factory
    import headwater.api.server
    import headwater.cli
    import headwater.cli.serve
    import headwater.fetch.net.http_client
    import headwater.store.postgres
    import headwater.web.factory  # noqa: F401


def _fork(wish: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _report(began=pid)
        return
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        os.chdir(wish["folder"])
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 64)
        code = run_killed(Plan(**json.loads(wish["plan"])), wish["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _report_ends() -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            _report(ended=found[0], status=os.waitstatus_to_exitcode(found[1]))


def _report(**news: int) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    _main()
