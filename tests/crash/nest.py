"""Services at the price of a fork: a process that has loaded the program and hatches others.

Every line on its standard input asks for one; every line on its standard output tells of one that
began or ended. `Nest` is the other end of those pipes.
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

from tests.crash.doomed import Plan, run_doomed

ROOT = Path(__file__).resolve().parents[2]
_SET_DEATH_SIGNAL = 1


class Hatched:
    """A process that runs, and how it ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def lives(self) -> bool:
        return not self.ended.done()

    async def kill(self) -> int:
        """End it at once and answer its status, as `subprocess` tells it."""
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return await self.ended


class Nest:
    """Starts processes and hears of their ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self._begun: asyncio.Queue[Hatched] = asyncio.Queue()
        self._living: dict[int, Hatched] = {}

    async def hatch(self, folder: Path, plan: Plan, *arguments: str) -> Hatched:
        """Run a command in a folder; it writes to `log.txt` there."""
        wish = {"folder": str(folder), "plan": plan.to_json(), "arguments": arguments}
        async with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(wish).encode() + b"\n")
            return await self._begun.get()

    async def listen(self) -> None:
        """Hear of beginnings and ends for as long as there are any."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "began" in told:
                hatched = self._living[told["began"]] = Hatched(told["began"])
                self._begun.put_nowait(hatched)
            else:
                self._living.pop(told["ended"]).ended.set_result(told["status"])


@asynccontextmanager
async def nest() -> AsyncIterator[Nest]:
    """A nest; what it hatched ends with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.crash.nest", cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    there = Nest(process)
    listening = asyncio.create_task(there.listen())
    try:
        yield there
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


def _main() -> None:
    _load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asked for this nest
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _tell_ends()
        if 0 in ready:
            read = os.read(0, 65536)
            if not read:
                return
            *wishes, asked = (asked + read).split(b"\n")
            for wish in wishes:
                _hatch(json.loads(wish))


def _load() -> None:
    """Load what `serve` needs before there are any threads."""
    import headwater.api.connections
    import headwater.api.factory
    import headwater.api.server
    import headwater.cli
    import headwater.cli.serving
    import headwater.fetch.http
    import headwater.store.postgres
    import headwater.web.factory  # noqa: F401


def _hatch(wish: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _tell(began=pid)
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
        code = run_doomed(Plan(**json.loads(wish["plan"])), wish["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _tell_ends() -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            _tell(ended=found[0], status=os.waitstatus_to_exitcode(found[1]))


def _tell(**news: int) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    _main()
