"""Headwater as people run it: `serve` or `worker` beside the benchmark, and `poll --all`.

The CPU of all its processes counts, and so does the little that this process needs to make sources
due and to look whether they were polled.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.programs.driver import MeasuredProgram, serve
from bench.programs.headwater_polls import WholePath
from headwater.app import open_app
from headwater.engine.followers import all_followers
from headwater.store.followers import behind

_LOOK_SECONDS = 0.05
_STOP_SECONDS = 30
# imports what the command needs, then waits: start-up is not part of the measurement
_WAITING = (
    "import sys; import headwater.app, headwater.cli.poll, headwater.engine.engine,"
    " headwater.fetch.net.http_client; from headwater.cli import main;"
    " print('ready', flush=True); sys.stdin.readline(); sys.exit(main(sys.argv[1:]))"
)


class RunningProgram(WholePath):
    """A command that polls the sources of the database; only this one ticks."""

    async def open(self) -> None:
        self.app = await self._open.enter_async_context(open_app(self.settings()))
        await self._fill()
        now = round(self.app.clock.now().timestamp() * 1000)
        await self._write(f"UPDATE sources SET last_polled = {now}")  # due when a round begins

    def start(self, *command: str, **streams: Any) -> subprocess.Popen[bytes]:
        """Start a process of the program, with the settings of the benchmark."""
        settings = {
            "APP__DATABASE_URL": str(self._config["database"]),
            "APP__ENCRYPTION__MASTER_KEY": "1b" * 32,
            "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
            "APP__SERVER__PORT": "0",
            "APP__SOURCE__TICK_SECONDS": "1",  # a round begins within a second
        }
        return subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **settings}, **streams
        )

    async def make_due(self) -> None:
        """Make every source due."""
        await super().prepare()

    async def _write(self, sql: str) -> None:
        await self.app.store.database.write(lambda session: session.execute(sql))


class Service(RunningProgram):
    """`serve` with API, event log, metrics and a log file, or `worker`."""

    async def open(self) -> None:
        await super().open()
        name, folder = self._config["program"], Path(self._config["folder"])
        log = self._open.enter_context((folder / f"{name}-{os.getpid()}.log").open("wb"))
        self._process = self.start("-m", "headwater", name, stdout=log, stderr=log)
        await self._until(self._has_ticked)

    async def prepare(self) -> None:
        await self._until(self._has_followed)  # the posts of the round before

    async def run(self) -> int:
        polls = await self._polls() + self._config["feeds"]
        await self.make_due()
        await self._until(lambda: self._has_polled(polls))
        if self._config.get("full_text"):
            await self._until(self._has_read_pages)
        if self._config.get("followed"):
            await self._until(self._has_followed)
        return int(self._config["feeds"])

    async def close(self) -> None:
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        await super().close()

    async def _until(self, condition: Any) -> None:
        while not await condition():
            if self._process.poll() is not None:
                sys.exit(f"{self._config['program']} ended with {self._process.returncode}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _has_ticked(self) -> bool:
        """Whether it has taken the database, or registered as a worker."""
        sql = "SELECT count(*) FROM facts WHERE name = 'poller'"
        if self._config["program"] == "worker":
            sql = "SELECT count(*) FROM workers"
        return await self._number(sql) > 0

    async def _has_polled(self, polls: int) -> bool:
        return await self._polls() >= polls

    async def _has_followed(self) -> bool:
        followers = all_followers()
        return not await self.app.store.database.read_single(lambda s: behind(s, followers))

    async def _has_read_pages(self) -> bool:
        return await self._number("SELECT count(*) FROM page_visits") == 0

    async def _polls(self) -> int:
        return await self._number("SELECT count(*) FROM polls")

    async def _number(self, sql: str) -> int:
        rows = await self.app.store.database.read(lambda session: session.fetch(sql))
        return int(rows[0][0])


class PollAll(RunningProgram):
    """`headwater poll --all`, without its start-up."""

    async def prepare(self) -> None:
        self._process = self.start(
            "-c", _WAITING, "poll", "--all", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await self.make_due()
        if self._process.stdout is not None:
            self._process.stdout.readline()

    async def run(self) -> int:
        await asyncio.to_thread(self._process.communicate, b"\n")
        if self._process.returncode:
            sys.exit(f"poll --all ended with {self._process.returncode}")
        return int(self._config["feeds"])


def _made(config: dict[str, Any]) -> MeasuredProgram:
    return PollAll(config) if config["program"] == "poll" else Service(config)


if __name__ == "__main__":
    serve(_made)
