"""Workers on PostgreSQL compared with one process on SQLite: polls stored per second.

    python -m bench.cluster [SOURCES] [ROUNDS]

Real processes poll a loopback web that always responds 304. Each round makes all sources due at
once; it lasts from the start of the first poll to the end of the last one in the database. The
configurations take turns, so that load from elsewhere affects all of them alike. CPU is that of
the measured processes and of the database server.
"""

import asyncio
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
from typing import NamedTuple

from bench import loopback_web, machine, postgres
from headwater.app import App, open_app
from headwater.model import Source, SourceType, Validators
from headwater.settings import load_settings
from headwater.store.sources import SourceFilter

PORT = 18500
HOSTS = 2000
CREWS = (1, 2, 4)
PATIENCE_SECONDS = 300


class Crew(NamedTuple):
    """Processes that poll together on one database."""

    name: str
    url: str
    command: Sequence[str]
    processes: int
    server: Sequence[int] = ()  # the process of the database server


class Round(NamedTuple):
    """Polls stored per second, and CPU milliseconds per poll."""

    rate: float
    cpu_ms: float


async def measure(sources: int, rounds: int, folder: Path, server: postgres.Postgres) -> None:
    """Measure all configurations in turn and print a line for each."""
    crews = [
        Crew("serve on SQLite", f"sqlite:///{folder / 'bench.db'}", ("serve", "--port", "0"), 1)
    ]
    url = server.new_database()
    crews += [Crew(f"{n} on PostgreSQL", url, ("worker",), n, (server.pid,)) for n in CREWS]
    found: dict[str, list[Round]] = {crew.name: [] for crew in crews}
    for number in range(rounds):
        for crew in crews:
            found[crew.name].append(await one_turn(crew, sources))
            print(f"round {number + 1}: {crew.name:22} {found[crew.name][-1].rate:7.0f}/s")
    base = statistics.median(one.rate for one in found[crews[0].name])
    for name, measured in found.items():
        rate = statistics.median(one.rate for one in measured)
        cpu = statistics.median(one.cpu_ms for one in measured)
        print(f"{name:22} {rate:7.0f}/s {rate / base:6.0%} {cpu:6.2f} ms CPU per poll")


async def one_turn(crew: Crew, sources: int) -> Round:
    """Start the processes, warm them up by one round, and measure another one."""
    settings = load_settings(options={"app.database-url": crew.url}, environ={})
    async with open_app(settings) as app:
        await fill(app, sources)
        with running(crew) as pids:
            await one_round(app, sources)
            cpu = machine.cpu_seconds((*pids, *crew.server))
            rate = await one_round(app, sources)
            cpu = machine.cpu_seconds((*pids, *crew.server)) - cpu
    return Round(rate, cpu / sources * 1000)


async def one_round(app: App, sources: int, *, only: str = "TRUE") -> float:
    """Make everything due, or `only` sources with a condition; wait until all of it is stored."""
    last = await app.store.polls.last_id()
    await app.store.database.write(
        lambda s: s.execute(
            f"UPDATE sources SET last_polled = last_polled - 864000000 WHERE {only}"
        )
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
    if await app.store.sources.positions(SourceFilter(podcast_id="default"), limit=1):
        return
    now = app.clock.now()
    await app.store.sources.add_many(
        [
            Source(
                id=f"source-{n}",
                podcast_id="default",
                type=SourceType.RSS,
                url=f"http://{loopback_web.address(n % HOSTS)}:{PORT}/{n}.xml",
                created_at=now - timedelta(days=1),
                host=loopback_web.address(n % HOSTS),
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
def running(crew: Crew) -> Iterator[list[int]]:
    """Processes on a database, stopped at the end; yields their ids."""
    environ = {
        **os.environ,
        "APP__DATABASE_URL": crew.url,
        "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
        "APP__SOURCE__TICK_SECONDS": "1",
        "APP__LOG__LEVEL": "warning",
    }
    started = [
        subprocess.Popen([sys.executable, "-m", "headwater", *crew.command], env=environ)
        for _ in range(crew.processes)
    ]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure and print one table."""
    sources, rounds = (*map(int, arguments), *(6000, 3)[len(arguments) :])
    print(f"{sources:,} sources on {HOSTS:,} hosts, all due at once, all 304; {rounds} rounds; "
          f"{os.cpu_count()} cores for everything, web and database included, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        loopback_web.running(PORT, HOSTS),
        postgres.running(Path(folder)) as server,
    ):
        asyncio.run(measure(sources, rounds, Path(folder), server))


if __name__ == "__main__":
    main()
