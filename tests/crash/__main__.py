"""Kill the service many times and report the findings.

`python -m tests.crash [ROUNDS [SEED [LIVES AT ONCE]]]`
"""

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.crash.fork_server import fork_server
from tests.crash.kill_rounds import Tally, run_rounds
from tests.crash.raw_database import RawDatabase, RawPostgres, RawSqlite
from tests.postgres import running_server


async def run(total: int, seed: int, at_once: int, tally: Tally) -> None:
    """Every fourth service is on PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, running_server() as server:

        def new_database(number: int, place: Path) -> RawDatabase:
            if number % 4 == 3:
                return RawPostgres(server.new_database())
            return RawSqlite(place / "test.db")

        async with fork_server() as there:
            await run_rounds(
                total,
                seed=seed,
                folder=Path(folder),
                fork_server=there,
                new_database=new_database,
                tally=tally,
                at_once=at_once,
            )


def main(total: str = "1000", seed: str = "1", at_once: str = "3") -> int:
    """Print the table, also after Ctrl-C; exit 1 if anything was found."""
    tally = Tally(say=lambda text: print(text, file=sys.stderr, flush=True))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(int(total), int(seed), int(at_once), tally))
    print("\n".join(tally.table()))
    return 1 if tally.stories else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
