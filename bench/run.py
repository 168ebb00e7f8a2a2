"""Runs all polling benchmarks, with other programs: one table, and all figures as JSON.

    python -m bench [--only 304,tls] [--rounds N] [--scale 0.2] [--flame] [--document]

Every program of a case runs in a separate process, pinned to one core, with its database;
the polled web has the other core. The figures are medians of alternating rounds.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import cases, external_tools, goals, machine, memory, postgres, tick
from bench.polling import WrongCount, run_case
from bench.results import Figure, table

_PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_MARKS = ("<!-- figures -->", "<!-- end of figures -->")
_OTHERS: dict[str, tuple[str, Callable[[int, Callable[[int], int], Path], list[Figure]]]] = {
    "tick": ("finding 100 due sources of many", tick.figures),
    "memory": ("memory", memory.figures),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the selected cases; exit 1 if any count is wrong."""
    options = _options(arguments)
    names = options.only or [*cases.MAKERS, *_OTHERS]
    machine.end_cleanly()
    began = time.monotonic()
    external_tools.OUT.mkdir(exist_ok=True)
    titles: dict[str, str] = {}
    figures: list[Figure] = []
    with ExitStack() as stack:
        server = postgres.on_demand(stack)
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                title, found = _measured(name, options, server)
            except WrongCount as wrong:
                sys.exit(f"wrong count: {wrong}")
            titles[name] = title
            figures += found
    minutes = (time.monotonic() - began) / 60
    footer = f"{_machine()}; {minutes:.1f} minutes; load {os.getloadavg()[0]:.1f}"
    text = "\n\n".join([table(titles, figures), footer, "\n".join(goals.lines(figures))])
    print(text)
    _write(titles, figures, options.output)
    if options.document:
        _document(text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    known = ", ".join([*cases.MAKERS, *_OTHERS])
    parser.add_argument("--only", type=_names, help=f"cases, with commas between them: {known}")
    parser.add_argument("--rounds", type=int, help="instead of each case's own number")
    parser.add_argument("--scale", type=float, default=1.0, help="more feeds, or fewer")
    parser.add_argument("--flame", action="store_true", help="draw where the time goes, as SVG")
    parser.add_argument("--own-server", action="store_true", help="do without nginx")
    parser.add_argument("--document", action="store_true", help=f"put the table into {_PAGE.name}")
    parser.add_argument("--output", type=Path, default=external_tools.OUT / "bench.json")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if wrong := [name for name in names if name not in cases.MAKERS and name not in _OTHERS]:
        raise argparse.ArgumentTypeError(f"there is no case {wrong[0]!r}")
    return names


def _measured(
    name: str, options: argparse.Namespace, server: Callable[[], postgres.Postgres]
) -> tuple[str, list[Figure]]:
    scale = partial(_scaled, options.scale)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if name in _OTHERS:
            title, figures = _OTHERS[name]
            return title, figures(options.rounds or 7, scale, Path(folder))
        case = cases.MAKERS[name](scale)
        flame = (
            external_tools.OUT / f"flame-{name}.svg" if options.flame and not case.fresh else None
        )
        rounds = options.rounds or case.rounds
        found = run_case(case, rounds, Path(folder), server, flame=flame, own=options.own_server)
        quoted = [
            Figure(name, q.name, "ms", (q.cpu_ms,), (q.rate,), quoted=True) for q in case.quoted
        ]
        return case.title, found + quoted


def _scaled(scale: float, number: int) -> int:
    return max(round(number * scale), 10)


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "CPU")
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def _document(text: str) -> None:
    """Write the figures between their markers in the page."""
    before, _, rest = _PAGE.read_text().partition(_MARKS[0])
    after = rest.partition(_MARKS[1])[2]
    _PAGE.write_text(f"{before}{_MARKS[0]}\n\n{text}\n\n{_MARKS[1]}{after}")


def _write(titles: dict[str, str], figures: Sequence[Figure], output: Path) -> None:
    content = {
        "machine": _machine(),
        "cases": titles,
        "figures": [figure.as_json() for figure in figures],
    }
    output.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"\nwritten to {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
