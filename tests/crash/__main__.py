"""Kill the service many times and say what it cost.

`python -m tests.crash [ROUNDS [SEED [LIVES AT ONCE]]]`
"""

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.crash.books import Books, PostgresBooks, SqliteBooks
from tests.crash.nest import nest
from tests.crash.rounds import Tally, run_rounds
from tests.postgres import running_server


async def run(total: int, seed: int, at_once: int, tally: Tally) -> None:
    """Every fourth life is on PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, running_server() as server:

        def new_books(number: int, place: Path) -> Books:
            if number % 4 == 3:
                return PostgresBooks(server.new_database())
            return SqliteBooks(place / "test.db")

        async with nest() as there:
            await run_rounds(
                total,
                seed=seed,
                folder=Path(folder),
                nest=there,
                new_books=new_books,
                tally=tally,
                at_once=at_once,
            )


def main(total: str = "1000", seed: str = "1", at_once: str = "3") -> int:
    """Print the table, also of a run that Ctrl-C ended; exit 1 if anything was found."""
    tally = Tally(say=lambda text: print(text, file=sys.stderr, flush=True))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(int(total), int(seed), int(at_once), tally))
    print("\n".join(tally.table()))
    return 1 if tally.stories else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
