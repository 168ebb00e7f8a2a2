"""The hostile matrix as figures: rows that come out right, worst loop stall, peak memory.

python -m bench.hostile [sqlite|postgres]
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.judge import faults, is_excused
from tests.hostile.memory import Megabytes
from tests.hostile.rows import ROWS, TOPICS
from tests.hostile.run import AT_ONCE, Run, run_matrix
from tests.postgres import running_server


def measure(database: str) -> Run:
    """Run the whole matrix once."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, url_of(database) as url:
        return asyncio.run(run_matrix(Path(folder), url))


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
             if (found := faults(row, r))]  # fmt: skip
    right = len(ROWS) - len(wrong)
    print(f"{database}: {right}/{len(ROWS)} misbehaviours of {len(TOPICS)} topics come out right")
    for row, result in zip(ROWS, run.results, strict=True):
        if is_excused(result):
            print(f"  not seen to its end, for want of a processor: {row.name}")
    for row, found in wrong:
        print(f"  wrong: {row.name}: {'; '.join(found)[:300]}")
    measured = [(r.grown, row.name) for row, r in zip(ROWS, run.results, strict=True)]
    for grown, name in sorted(measured, key=lambda one: -one[0].tree)[:3]:
        print(f"  memory, one source    {words_for(grown)}   {name}")
    slow = [(max(c.seconds for c in r.costs), row.name)
            for row, r in zip(ROWS, run.results, strict=True) if r.costs]  # fmt: skip
    for longest, name in sorted(slow, reverse=True)[:3]:
        print(f"  time, one source      {longest:.1f} s   {name}")
    print(f"  memory, {AT_ONCE} at once    {words_for(run.grown_at_once)}")
    print(f"  memory, 64 x 10 MB     {words_for(run.grown_by_flood)}")
    seconds = sorted(seconds for seconds, _ in run.healthy)
    stored = sum(outcome["newPosts"] for _, outcome in run.healthy)
    middle, most = seconds[len(seconds) // 2] * 1000, seconds[-1] * 1000
    print(f"  healthy source        {len(seconds)} polls, {stored} posts, {middle:.0f} ms in the "
          f"middle, {most:.0f} ms at most")  # fmt: skip
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
    """Measure what was asked for, else both databases."""
    for database in sys.argv[1:] or ["sqlite", "postgres"]:
        show(database, measure(database))


if __name__ == "__main__":
    main()
