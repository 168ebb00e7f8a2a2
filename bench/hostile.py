"""The hostile matrix as figures: rows that come out right, worst loop stall, peak memory.

python -m bench.hostile [sqlite|postgres]
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.hostile.judge import faults, is_excused
from tests.hostile.lateness import at_share, bystander_faults, lags, stall_faults, stalls
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
    show_bystander(run)
    print(f"  lag of the loop       {lag_words(lags(run.rounds[-1].metrics))}")
    for stall in stalls(run.log):
        print(f"  {stall}, {stall.unexcused(run.looks):.3f} s not excused")
    for fault in (*stall_faults(run.log, run.looks), *bystander_faults(run.rounds, run.looks)):
        print(f"  wrong: {fault}")
    print(f"  the run took {run.seconds:.0f} s")


def show_bystander(run: Run) -> None:
    """Print what the healthy source and the API had to say, before and meanwhile."""
    for name, quiet in (("before", True), ("meanwhile", False)):
        rounds = [one for one in run.rounds if (one.slot < 0) is quiet]
        polls, answers = ([t.seconds * 1000 for t in of] for of in (
            [one.poll for one in rounds], [one.api for one in rounds]))  # fmt: skip
        shown = (f"{at_share(t, 0.5):.0f}, {at_share(t, 0.95):.0f}, {max(t):.0f} ms"
                 for t in (polls, answers))  # fmt: skip
        print(f"  {name:9} {len(rounds)} polls; half, 95 %, all within {', API '.join(shown)}")


def words_for(grown: Megabytes) -> str:
    """Memory of the service by itself and with its parsers."""
    return f"+{grown.own:4.0f} MB, with parsers +{grown.tree:4.0f} MB"


def lag_words(found: Mapping[str, int]) -> str:
    """The histogram of the loop's lag, in words."""
    before, parts = 0, []
    for bound, count in found.items():
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
