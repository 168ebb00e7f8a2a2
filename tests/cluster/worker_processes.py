"""Worker processes on one database, and due sources for them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.app import App
from headwater.model import Source, SourceType, Validators

PATIENCE_SECONDS = 240.0  # upper bound for everything that must happen, even on a busy machine


@dataclass
class WorkerProcesses:
    """Workers on one database."""

    url: str
    folder: Path
    lease_seconds: float = 60  # shorter where a test waits for a missing heartbeat
    delay_seconds: float = 0.0
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def settings(self) -> dict[str, str]:
        """The settings of all processes on the database."""
        delays = dict.fromkeys(("rss", "website"), self.delay_seconds)
        return {
            "APP__DATABASE_URL": self.url,
            "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
            "APP__SOURCE__TICK_SECONDS": "1",
            "APP__SOURCE__POLL_DELAY_SECONDS": json.dumps(delays),
            "APP__CLUSTER__LEASE_SECONDS": str(self.lease_seconds),
            "APP__SERVER__PORT": "0",
        }

    def start(
        self,
        module: str = "headwater",
        *,
        command: str = "worker",
        options: Sequence[str] = (),
        **environ: str,
    ) -> "subprocess.Popen[bytes]":
        """Start one more; `module` may be a faulty worker."""
        number = len(self.workers)
        signed = {"APP__FETCH__USER_AGENT_CONTACT": contact_of(number)}
        with self.log(number).open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", module, command, *options],
                cwd=Path(__file__).parents[2],
                env={**os.environ, **self.settings(), **signed, **environ},
                stderr=log,
            )
        self.workers.append(worker)
        return worker

    def command_output(self, *arguments: str) -> str:
        """Run a command beside the workers and return its JSON output."""
        return subprocess.run(
            [sys.executable, "-m", "headwater", "--database-url", self.url, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def failing_command(self, *arguments: str) -> str:
        """Run a command that must fail and return its error message."""
        command = [sys.executable, "-m", "headwater", "--database-url", self.url, *arguments]
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert ended.returncode != 0, ended.stdout
        return ended.stderr

    def log(self, number: int) -> Path:
        """The path of a worker's log."""
        return self.folder / f"worker{number}.log"

    def stop_all(self) -> None:
        """Stop all workers that still run, and wait for their end."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait()


def contact_of(number: int) -> str:
    """The contact address by which the web identifies a worker."""
    return f"https://worker{number}.example/"


async def until(what: Callable[[], Any], reported: str) -> None:
    """Poll until a condition is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = what()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, reported
        await asyncio.sleep(0.05)


async def add_due(
    app: App,
    urls: Sequence[str],
    *,
    interval_minutes: int = 600,
    first: int = 0,
    delay_seconds: int | None = None,
) -> list[Source]:
    """Add sources that were polled long ago and are all due."""
    now = app.clock.now()
    made = [
        Source(
            id=f"source-{number}",
            podcast_id="default",
            type=SourceType.RSS,
            url=url,
            created_at=now,
            host=url.split("/")[2].partition(":")[0],
            last_polled=now - timedelta(days=2),
            first_poll_done=True,
            last_success_at=now - timedelta(days=2),
            validators=Validators(etag='"1"'),
            poll_interval_minutes=interval_minutes,
            poll_delay_seconds=delay_seconds,
        )
        for number, url in enumerate(urls, first)
    ]
    await app.store.sources.add_many(made)
    return made


async def number(app: App, sql: str) -> int:
    """The single number that a query returns."""
    return int((await app.store.database.read(lambda s: s.fetch(sql)))[0][0])


async def stored_polls(app: App) -> int:
    """How many polls were stored."""
    return await number(app, "SELECT count(*) FROM polls")
