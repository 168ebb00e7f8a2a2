"""Compares the whole poll path of several interpreters or versions in alternating rounds.

    python -m bench.compare 304 plain=.venv/bin/python debian=/tmp/env/bin/python
    python -m bench.compare new before=.venv/bin/python:/tmp/before/src now=.venv/bin/python:src

Each argument is a name, an interpreter whose environment has our dependencies, and, after a colon,
the folder of the package. The first is the baseline: load on the machine slows down all of them.
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

_PROGRAMS = (
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
    known = "; ".join(_PROGRAMS)
    parser.add_argument(
        "--program",
        choices=_PROGRAMS,
        default=_PROGRAMS[0],
        metavar="PROGRAM",
        help=f"in quotes, one of: {known}",
    )
    parser.add_argument("--rounds", type=int, default=15, help="15 unless you say otherwise")
    parser.add_argument("--feeds", type=int, help="instead of the case's own number")
    options = parser.parse_args(arguments)
    machine.end_cleanly()
    case = cases.MAKERS[options.case](lambda number: options.feeds or number)
    program = next((program for program in case.programs if program.name == options.program), None)
    if program is None:
        parser.error(f"{options.case} is not measured as: {options.program}")
    try:
        programs = [_program_of(program, subject) for subject in options.subjects]
    except ValueError as error:
        parser.error(str(error))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        figures = run_case(
            replace(case, programs=programs), options.rounds, folder, postgres.on_demand(stack)
        )
    print(table({case.name: f"{case.title}: {program.name}"}, figures, programs[0].name))


def _program_of(program: cases.Program, subject: str) -> cases.Program:
    name, _, place = subject.partition("=")
    python, _, source = place.partition(":")
    if not name.isalnum() or not python:
        raise ValueError(f"{subject} is not name=interpreter[:folder of the package]")
    if shutil.which(python) is None:
        raise ValueError(f"{subject}: there is no interpreter {python}")
    path = os.pathsep.join([str(Path(source or _SOURCE).resolve()), os.getcwd()])
    return replace(program, name=name, python=python, environ={"PYTHONPATH": path})


if __name__ == "__main__":
    main()
