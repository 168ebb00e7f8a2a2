"""The hostile matrix as figures: rows that come out right, worst loop stall, peak memory.

python -m bench.hostile [sqlite|postgres] [alone|crowd]
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.judge import faults
from tests.hostile.memory import Megabytes
from tests.hostile.rows import ROWS, TOPICS
from tests.hostile.run import AT_ONCE, Run, run_matrix
from tests.postgres import running_server


def measure(database: str, *, alone: bool) -> Run:
    """Run the whole matrix once."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, url_of(database) as url:
        return asyncio.run(run_matrix(Path(folder), url, alone=alone))


@contextlib.contextmanager
def url_of(database: str) -> Iterator[str | None]:
    """A database of the run's own; None stands for a file in its folder."""
    if database == "sqlite":
        yield None
        return
    with running_server() as server:
        yield server.new_database()


def show(database: str, run: Run) -> None:
    """Print one run."""
    wrong = [(row, found) for row, r in zip(ROWS, run.results, strict=True)
             if (found := faults(row, r, machine_late=run.machine_late))]  # fmt: skip
    right = len(ROWS) - len(wrong)
    print(f"{database}: {right}/{len(ROWS)} misbehaviours of {len(TOPICS)} topics come out right")
    for row, found in wrong:
        print(f"  wrong: {row.name}: {'; '.join(found)[:300]}")
    measured = [(r.grown, row.name) for row, r in zip(ROWS, run.results, strict=True) if r.grown]
    for grown, name in sorted(measured, key=lambda one: -one[0].tree)[:3]:
        print(f"  memory, one source    {words_for(grown)}   {name}")
    print(f"  memory, {AT_ONCE} at once    {words_for(run.grown_at_once)}")
    print(f"  memory, 64 x 10 MB     {words_for(run.grown_by_flood)}")
    seconds = sorted(seconds for seconds, _ in run.healthy)
    stored = sum(outcome["newPosts"] for _, outcome in run.healthy)
    middle, longest = seconds[len(seconds) // 2] * 1000, seconds[-1] * 1000
    print(f"  healthy source        {len(seconds)} polls, {stored} posts, {middle:.0f} ms in the "
          f"middle, {longest:.0f} ms at most")  # fmt: skip
    print(f"  worst loop stall      {run.worst_stall * 1000:.0f} ms; lag: {lags(run)}")
    late = run.machine_late * 1000
    print(
        f"  no processor free for {late:.0f} ms, over all threads; the run took {run.seconds:.0f} s"
    )


def words_for(grown: Megabytes) -> str:
    """Memory of the service by itself and with its parsers."""
    return f"+{grown.own:4.0f} MB, with parsers +{grown.tree:4.0f} MB"


def lags(run: Run) -> str:
    """The histogram of the loop's lag, in words."""
    before, parts = 0, []
    for bound, count in run.stalls.items():
        if count > before:
            parts.append(f"{count - before} ≤ {bound} s")
        before = count
    return ", ".join(parts)


def main() -> None:
    """Measure what was asked for, else both databases, one row at a time and all at once."""
    databases = [name for name in sys.argv[1:] if name in ("sqlite", "postgres")]
    ways = [name for name in sys.argv[1:] if name in ("alone", "crowd")]
    for database in databases or ["sqlite", "postgres"]:
        for way in ways or ["alone", "crowd"]:
            show(f"{database}, {way}", measure(database, alone=way == "alone"))


if __name__ == "__main__":
    main()
