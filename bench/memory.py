"""Memory of a running service: idle with many sources, and with many lanes in flight.

python -m bench.memory
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from bench import feeds, machine, tick
from bench.polled_site import free_port, open_site
from bench.results import Figure, table
from headwater.app import open_app
from headwater.model import Source, SourceType
from headwater.settings import load_settings

LANES = 1000
_READY_SECONDS = 120.0


def figures(rounds: int, scale: Callable[[int], int], folder: Path) -> list[Figure]:
    """Memory of the whole process tree, in MB."""
    del rounds  # memory hardly varies
    found = []
    for total in (100_000, 1_000):
        count = scale(total)
        found.append(_figure(f"idle, {count:,} sources", idle(count, folder)))
    found.append(_figure(f"{LANES:,} lanes in flight", in_flight(LANES, folder)))
    return found


def _figure(program: str, megabytes: float) -> Figure:
    return Figure("memory", program, "MB", (megabytes,))


def idle(total: int, folder: Path) -> float:
    """A service whose sources are not due, some ticks after its start."""
    path = folder / f"idle-{total}.db"
    asyncio.run(tick.fill(path, total))
    with serving(f"sqlite:///{path}") as (pid, port):
        _wait_for_ticks(port, 5)
        return machine.memory_mb(pid)


def in_flight(lanes: int, folder: Path) -> float:
    """A service that waits for responses of this many hosts at once."""
    url = f"sqlite:///{folder / 'lanes.db'}"
    with open_site(folder, "slow", lanes, own=True) as site:
        asyncio.run(_fill_slow(url, lanes, site.port))
        with serving(url, {"APP__FETCH__MAX_CONNECTIONS": str(lanes)}) as (pid, port):
            most = 0.0
            deadline = time.monotonic() + _READY_SECONDS
            while time.monotonic() < deadline:
                if _metric(port, "headwater_lanes_in_flight") >= lanes:
                    return max(most, machine.memory_mb(pid))
                time.sleep(0.2)
    raise AssertionError(f"there were never {lanes} lanes in flight")


@contextmanager
def serving(url: str, environ: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """`headwater serve` on a database: its process and its port."""
    port = free_port()
    settings = {
        "APP__DATABASE_URL": url,
        "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
        "APP__SOURCE__TICK_SECONDS": "1",
        "APP__LOG__LEVEL": "warning",
        "APP__SHUTDOWN_SECONDS": "1",
        **(environ or {}),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "headwater", "serve", "--port", str(port)],
        env={**os.environ, **settings},
    ) as process:
        try:
            yield process.pid, port
        finally:
            process.terminate()


def _wait_for_ticks(port: int, number: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while _metric(port, "headwater_tick_duration_seconds_count") < number:
        assert time.monotonic() < deadline, "the service does not tick"
        time.sleep(0.2)


def _metric(port: int, name: str) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:  # not listening yet
        return 0.0
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def _fill_slow(url: str, lanes: int, port: int) -> None:
    async with open_app(load_settings(options={"app.database-url": url}, environ={})) as app:
        long_ago = app.clock.now() - timedelta(days=1)
        await app.store.sources.add_many(
            [
                Source(
                    id=f"source-{n}",
                    podcast_id="default",
                    type=SourceType.RSS,
                    url=feeds.url(n, "slow", port),
                    host=feeds.address(n),
                    created_at=long_ago,
                    last_polled=long_ago,
                )
                for n in range(lanes)
            ]
        )


def main() -> None:
    """Measure and print one table."""
    with tempfile.TemporaryDirectory() as folder:
        print(table({"memory": "memory"}, figures(1, lambda number: number, Path(folder))))


if __name__ == "__main__":
    main()
