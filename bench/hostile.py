"""The hostile matrix as figures: correct rows, longest loop stall, peak memory.

python -m bench.hostile [sqlite|postgres]
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.hostile.lag_checks import at_share, healthy_client_faults, lags, stall_faults, stalls
from tests.hostile.matrix_run import AT_ONCE, Run, run_matrix
from tests.hostile.memory_probe import Megabytes
from tests.hostile.row_checks import faults, is_excused
from tests.hostile.rows import ROWS, TOPICS
from tests.postgres import running_server


def measure(database: str) -> Run:
    """Run the whole matrix once."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, url_of(database) as url:
        return asyncio.run(run_matrix(Path(folder), url))


@contextlib.contextmanager
def url_of(database: str) -> Iterator[str | None]:
    """A new database for the run; None means a file in its folder."""
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
    print(f"{database}: {right}/{len(ROWS)} rows of {len(TOPICS)} topics as expected")
    for row, result in zip(ROWS, run.results, strict=True):
        if is_excused(result):
            print(f"  not measured, because no processor was free: {row.name}")
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
    show_healthy_client(run)
    print(f"  lag of the loop       {lag_words(lags(run.rounds[-1].metrics))}")
    for stall in stalls(run.log):
        print(f"  {stall}, {stall.unexcused(run.looks):.3f} s not excused")
    for fault in (*stall_faults(run.log, run.looks), *healthy_client_faults(run.rounds, run.looks)):
        print(f"  wrong: {fault}")
    print(f"  the run took {run.seconds:.0f} s")


def show_healthy_client(run: Run) -> None:
    """Print the latencies of the healthy source and the API, in the baseline and during the run."""
    for name, quiet in (("before", True), ("meanwhile", False)):
        rounds = [one for one in run.rounds if (one.slot < 0) is quiet]
        polls, responses = ([t.seconds * 1000 for t in of] for of in (
            [one.poll for one in rounds], [one.api for one in rounds]))  # fmt: skip
        shown = (f"{at_share(t, 0.5):.0f}, {at_share(t, 0.95):.0f}, {max(t):.0f} ms"
                 for t in (polls, responses))  # fmt: skip
        print(f"  {name:9} {len(rounds)} polls; half, 95 %, all within {', API '.join(shown)}")


def words_for(grown: Megabytes) -> str:
    """Memory of the service alone and with its parsers."""
    return f"+{grown.own:4.0f} MB, with parsers +{grown.tree:4.0f} MB"


def lag_words(found: Mapping[str, int]) -> str:
    """The histogram of the loop's lag as text."""
    before, parts = 0, []
    for bound, count in found.items():
        if count > before:
            parts.append(f"{count - before} ≤ {bound} s")
        before = count
    return ", ".join(parts)


def main() -> None:
    """Measure the selected database, else both."""
    for database in sys.argv[1:] or ["sqlite", "postgres"]:
        show(database, measure(database))


if __name__ == "__main__":
    main()
