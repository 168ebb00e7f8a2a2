"""Failures of workers and PostgreSQL: runs real processes and prints a table of their effects.

    python -m bench.cluster_failures [WORDS]

Real workers on a separate PostgreSQL poll a loopback web that records overlapping and early
visits. WORDS: only the runs whose names contain them. The last run is a control without locks: its
overlaps show that the checks work.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster import failure_scenarios
from tests.cluster.failure_scenarios import RunResult
from tests.postgres import PostgresServer, running_server

CONTROL = "the control, without locks"
TAKE_OVER_SECONDS = 45.0  # upper limit, also with default settings
COLUMNS = (
    "failure", "take-over", "polls", "double fetches", "in flight", "stored twice", "lost",
    "overlaps", "too soon", "remarks",
)  # fmt: skip
OnServer = Callable[[PostgresServer, Path], Coroutine[Any, Any, RunResult]]


def all_runs() -> Iterator[tuple[str, OnServer]]:
    """Every run, by name."""
    for name, run in failure_scenarios.RUNS.items():
        yield name, partial(in_new_database, run)
    yield (
        "SIGTERM while PostgreSQL is unavailable",
        failure_scenarios.stopped_during_database_outage,
    )
    for seconds in (5, 20, 60):
        yield f"PostgreSQL unavailable for {seconds} s", partial(restarted, seconds)
    yield CONTROL, partial(in_new_database, failure_scenarios.unlocked)


async def in_new_database(
    run: failure_scenarios.Run, server: PostgresServer, folder: Path
) -> RunResult:
    """A run in a new database."""
    return await run(server.new_database(), folder)


async def restarted(seconds: float, server: PostgresServer, folder: Path) -> RunResult:
    """A run whose server is stopped and started again."""
    return await failure_scenarios.database_restarted(server, folder, seconds)


def row_of(name: str, record: RunResult) -> str:
    """A line of the table."""
    seconds = record.take_over_seconds
    took = "–" if seconds is None else f"{seconds:.1f} s"
    numbers = (
        record.polls, record.double_fetches, record.in_flight, record.stored_twice, record.lost,
        record.overlaps, record.too_soon,
    )  # fmt: skip
    return f"| {' | '.join([name, took, *map(str, numbers), record.remarks])} |"


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run the selected failures and print a row for each; return 1 on an unexpected result."""
    wanted = " ".join(words)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    bad = []
    with running_server() as server:
        for name, run in all_runs():
            if wanted not in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                record = asyncio.run(run(server, Path(folder)))
            print(row_of(name, record), flush=True)
            faults = record.faults(take_over_limit=TAKE_OVER_SECONDS)
            if (not faults) == (name == CONTROL):
                bad.append(f"{name}: {', '.join(faults) or 'no fault was detected'}")
    print("\n".join(bad) or "\nall results as required")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
