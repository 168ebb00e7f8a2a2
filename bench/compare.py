"""Our whole path under several interpreters, or of several versions, round by round in one run.

    python -m bench.compare 304 plain=.venv/bin/python debian=/tmp/env/bin/python
    python -m bench.compare new before=.venv/bin/python:/tmp/before/src now=.venv/bin/python:src

Each is a name, an interpreter whose environment has what we need, and, after a colon, where the
package is taken from. The first is what the others are held against: a busy machine slows down all
of them alike.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench import cases, machine, postgres
from bench.polling import run_case
from bench.results import table

_WAYS = (
    "ours, SQLite",
    "ours, PostgreSQL",
    "ours, SQLite, two cores",
    "ours, PostgreSQL, two cores",
)
_SOURCE = Path(__file__).parents[1] / "src"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", choices=["304", "bytes", "tls", "tls12", "new"])
    parser.add_argument("subjects", nargs="+", help="name=interpreter[:folder of the package]")
    known = "; ".join(_WAYS)
    parser.add_argument(
        "--way", choices=_WAYS, default=_WAYS[0], metavar="WAY", help=f"in quotes, one of: {known}"
    )
    parser.add_argument("--rounds", type=int, default=15, help="15 unless you say otherwise")
    parser.add_argument("--feeds", type=int, help="instead of the case's own number")
    options = parser.parse_args(arguments)
    machine.end_cleanly()
    case = cases.MAKERS[options.case](lambda number: options.feeds or number)
    way = next((way for way in case.ways if way.name == options.way), None)
    if way is None:
        parser.error(f"{options.case} is not measured as: {options.way}")
    try:
        ways = [_way(way, subject) for subject in options.subjects]
    except ValueError as error:
        parser.error(str(error))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        figures = run_case(
            replace(case, ways=ways), options.rounds, folder, postgres.on_demand(stack)
        )
    print(table({case.name: f"{case.title}: {way.name}"}, figures, ways[0].name))


def _way(way: cases.Way, subject: str) -> cases.Way:
    name, _, place = subject.partition("=")
    python, _, source = place.partition(":")
    if not name.isalnum() or not python:
        raise ValueError(f"{subject} is not name=interpreter[:folder of the package]")
    if shutil.which(python) is None:
        raise ValueError(f"{subject}: there is no interpreter {python}")
    path = os.pathsep.join([str(Path(source or _SOURCE).resolve()), os.getcwd()])
    return replace(way, name=name, python=python, environ={"PYTHONPATH": path})


if __name__ == "__main__":
    main()
