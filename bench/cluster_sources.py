"""The statements of workers on a PostgreSQL with up to ten million sources.

    python -m bench.cluster_sources [SOURCES ...]

Each source is polled once an hour. First the queries of one worker of 10, 100 and 1,000, with its
share of the shards and the sources that become due in a minute; then what a start reads; then two
real workers poll a loopback web, with all other sources stored beside its own.
"""

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench import loopback_web, machine, postgres
from bench.cluster import HOSTS, PORT, fill, one_round
from bench.cluster_load import START_SECONDS, workers
from headwater.app import App, open_app
from headwater.rules.shards import share_of
from headwater.settings import load_settings
from headwater.store.postgres import PostgresDatabase
from headwater.store.shards import Shards

SIZES = (100_000, 1_000_000)
SHARDS, POLLED, SOURCES_PER_HOST, REPEATS = 1024, 6000, 5, 15
_POLLED = "podcast_id = 'default'"  # the sources that the real workers poll
_NOW_MS = "(extract(epoch FROM now()) * 1000)::BIGINT"
_QUICK = ("synchronous_commit = off", "maintenance_work_mem = '1GB'")
# not due for a day, so that no real worker visits them; an hour's polls are spread over an hour
_STORED = f"""INSERT INTO sources (id, podcast_id, type, url, created_at, host, last_polled,
    last_success_at, first_poll_done, poll_interval_minutes, etag, last_seen_id)
    SELECT 'stored-' || n, 'stored', 'rss', 'https://' || host || '/' || n || '.xml', polled_at,
        host, polled_at, polled_at, TRUE, 1440, '"' || md5(n::TEXT) || '"',
        '2026-11-15T04:12:59.000Z'
    FROM (SELECT n, n / {SOURCES_PER_HOST} || '.host.invalid' AS host,
        {_NOW_MS} - (n::BIGINT * 7919 %% 3600) * 1000 AS polled_at
        FROM generate_series(1, %s) AS n) AS made"""
_HOSTS = """INSERT INTO hosts (lane, next_allowed_at, next_allowed_set_at, last_success_at,
    resolved_at) SELECT host, max(last_polled), max(last_polled), max(last_polled),
    max(last_polled) FROM sources WHERE podcast_id = 'stored' GROUP BY host"""
_NEWEST = "SELECT max(last_polled) FROM sources WHERE podcast_id = 'stored'"


class Cost(NamedTuple):
    """Medians of the time of a call and of the server's CPU for it, in milliseconds."""

    ms: float
    cpu_ms: float
    found: int


def store_sources(url: str, count: int) -> float:
    """Add sources and their hosts by SQL, indexes last; return the seconds it took."""
    started = time.monotonic()
    with psycopg.connect(url, autocommit=True) as session:
        for setting in _QUICK:
            session.execute(f"SET {setting}".encode())
        indexes = session.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'sources' "
            "AND indexname <> 'sources_pkey'"
        ).fetchall()
        session.execute("INSERT INTO users (id, name, created_at) VALUES ('stored', 'stored', 0)")
        session.execute("""INSERT INTO podcasts (id, user_id, name, created_at)
            VALUES ('stored', 'stored', 'stored', 0)""")
        for name, _ in indexes:
            session.execute(f"DROP INDEX {name}".encode())
        session.execute(_STORED, [count])
        for _, definition in indexes:
            session.execute(definition.encode())
        session.execute(_HOSTS)
        session.execute("VACUUM ANALYZE")
        session.execute("CHECKPOINT")
    return time.monotonic() - started


async def cost_of(work: Callable[[], Awaitable[Sequence[object]]], server: int) -> Cost:
    """Repeat a query; the first time is not counted."""
    found = len(await work())
    times, cpu = [], machine.cpu_seconds([server])
    for _ in range(REPEATS):
        started = time.monotonic()
        await work()
        times.append(time.monotonic() - started)
    cpu = machine.cpu_seconds([server]) - cpu
    return Cost(statistics.median(times) * 1000, cpu / REPEATS * 1000, found)


async def queries(app: App, count: int, server: int) -> None:
    """Print the queries of a worker among many."""
    sources, now = app.store.sources, datetime.now(UTC)
    rows = await app.store.database.fetch(_NEWEST)
    # when a sixtieth of the stored ones is due
    in_a_day = datetime.fromtimestamp(rows[0][0] / 1000, UTC) + timedelta(hours=23, minutes=1)
    for crew in (10, 100, 1000):
        own = list(range(share_of(SHARDS, crew, 0)))
        due = await cost_of(partial(sources.due_in, own, in_a_day, app.policy), server)
        asked = partial(sources.due_in, own, now, app.policy, requested_since=now)
        requests = await cost_of(asked, server)
        print(
            f"| {count:,} | {crew:,} | {len(own)} | {due.found:,} | {due.ms:.1f} ms "
            f"| {due.cpu_ms:.1f} ms | {requests.cpu_ms:.2f} ms |",
            flush=True,
        )


async def start_of(app: App) -> None:
    """Print what the start of a worker reads: the state of all hosts."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    hosts = await app.store.hosts.all()
    spent = time.monotonic() - started
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"start of a worker: {len(hosts):,} hosts in {spent:.1f} s, {more:.0f} MB", flush=True)


async def polls(app: App, url: str, server: int) -> None:
    """Print the cost of real polls by two real workers."""
    await fill(app, POLLED)
    with (
        psycopg.connect(url, autocommit=True) as meter,
        workers(url, 2, APP__SOURCE__TICK_SECONDS="1"),
    ):
        await asyncio.sleep(START_SECONDS)
        await one_round(app, POLLED, only=_POLLED)  # warms up
        before, cpu = await _written(meter), machine.cpu_seconds([server])
        rate = await one_round(app, POLLED, only=_POLLED)
        cpu = machine.cpu_seconds([server]) - cpu
        after = await _written(meter)
        commits, wal = (now - then for now, then in zip(after, before, strict=True))
    print(
        f"per poll of two workers, at {rate:.0f} a second: {cpu / POLLED * 1000:.2f} ms CPU of "
        f"PostgreSQL, {commits / POLLED:.2f} commits, {wal / POLLED:,.0f} bytes of WAL",
        flush=True,
    )


async def _written(meter: psycopg.Connection) -> tuple[int, int]:
    await asyncio.sleep(1.5)  # sessions report their commits with a delay
    row = meter.execute("""SELECT xact_commit, pg_current_wal_lsn() - '0/0'
        FROM pg_stat_database WHERE datname = current_database()""").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def measure(server: postgres.Postgres, count: int) -> None:
    """Print all figures for one number of sources."""
    url = server.new_database()
    async with open_app(load_settings(options={"app.database-url": url}, environ={})) as app:
        assert isinstance(app.store.database, PostgresDatabase)
        await Shards(app.store.database).resize(SHARDS)
        seconds = await asyncio.to_thread(store_sources, url, count)
        with psycopg.connect(url) as session:
            (size,) = session.execute("SELECT pg_database_size(current_database())").fetchone() or (
                0,
            )
        print(f"{count:,} sources stored in {seconds:.0f} s: {size / 1e9:.2f} GB", flush=True)
        await queries(app, count, server.pid)
        await start_of(app)
        await polls(app, url, server.pid)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure each number of sources in a database of its own."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {SHARDS:,} shards")
    columns = ("sources", "workers", "shards of one", "due sources of one in a minute", "due query",
               "CPU of it", "CPU of a query for requests")  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        loopback_web.running(PORT, HOSTS),
        postgres.running(Path(folder)) as server,
    ):
        for count in [int(one) for one in arguments] or SIZES:
            asyncio.run(measure(server, count))


if __name__ == "__main__":
    main()
