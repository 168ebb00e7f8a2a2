"""What workers do when something goes wrong: a table of real runs, each with its numbers.

    python -m bench.cluster_failures [WORDS]

Real workers poll a loopback web that notices overlaps and visits that come too soon, on a
PostgreSQL of their own. WORDS: only the runs whose names have them. The last run has no locks: its
overlaps show that the checks see what they look for.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster import runs
from tests.cluster.runs import Record
from tests.postgres import PostgresServer, running_server

CONTROL = "the control, without locks"
TAKE_OVER_SECONDS = 45.0  # at most, also with default settings
COLUMNS = (
    "failure", "take-over", "polls", "double fetches", "in flight", "stored twice", "lost",
    "overlaps", "too soon", "remarks",
)  # fmt: skip
OnServer = Callable[[PostgresServer, Path], Coroutine[Any, Any, Record]]


def all_runs() -> Iterator[tuple[str, OnServer]]:
    """Every run, by name."""
    for name, run in runs.RUNS.items():
        yield name, partial(in_new_database, run)
    yield "SIGTERM while PostgreSQL is away", runs.stopped_while_away
    for seconds in (5, 60):
        yield f"PostgreSQL away for {seconds} s", partial(away, seconds)
    yield CONTROL, partial(in_new_database, runs.unlocked)


async def in_new_database(run: runs.Run, server: PostgresServer, folder: Path) -> Record:
    """A run in a database of its own."""
    return await run(server.new_database(), folder)


async def away(seconds: float, server: PostgresServer, folder: Path) -> Record:
    """A run whose server goes and comes back."""
    return await runs.database_away(server, folder, seconds)


def row_of(name: str, record: Record) -> str:
    """A line of the table."""
    seconds = record.take_over_seconds
    took = "–" if seconds is None else f"{seconds:.1f} s"
    numbers = (
        record.polls, record.double_fetches, record.in_flight, record.stored_twice, record.lost,
        record.overlaps, record.too_soon,
    )  # fmt: skip
    return f"| {' | '.join([name, took, *map(str, numbers), record.told])} |"


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run what is wanted and print a row for each; 1 if anything is not as it must be."""
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
                bad.append(f"{name}: {', '.join(faults) or 'no fault was noticed'}")
    print("\n".join(bad) or "\nall as it must be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
