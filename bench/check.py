"""Checks in CI that polls have not become more expensive.

    python -m bench.check             # compares with bench/limits.json; exit 1 if anything is worse
    python -m bench.check --update    # writes new limits: what is measured now plus the margin

Measured are ratios of CPU times (bench/ratios.py), and per poll the number of SQL statements and
of memory blocks that are not freed (bench/counting.py). Ratios have a margin of 30 % above the
highest value known from any machine: the check finds a change of design that costs, not an added
function. Statements and growth have more, because a busy machine groups fewer polls into a commit.
A figure above its limit is measured again; the lowest value counts.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvloop

from bench import counting, ratios

LIMITS = Path(__file__).with_name("limits.json")
MARGINS = {"ratio": 1.3, "statements": 3.0, "growth": 3.0}
_MEASUREMENTS = 4  # at most, while a figure is above its limit
_LEAST_BLOCKS = 2.0  # per poll: caches that are still filling are not a leak


def measure() -> dict[str, float]:
    """All figures by name; the last word of a name is the kind of figure."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return {**uvloop.run(counting.figures(Path(folder))), **ratios.figures(Path(folder))}


def complaints(measured: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """One line for each figure above its limit, and for each without figure or limit."""
    found = [
        f"{name}: {value:.4g}, the limit is {limits[name]:.4g}"
        for name, value in measured.items()
        if name in limits and value > limits[name]
    ]
    unknown = measured.keys() ^ limits.keys()
    return found + [f"{name}: has no figure or no limit" for name in sorted(unknown)]


def new_limits(measured: Mapping[str, float]) -> dict[str, float]:
    """Limits with a margin above what was measured."""
    limits = {}
    for name, value in measured.items():
        kind = name.rsplit(" ", 1)[1]
        limits[name] = _LEAST_BLOCKS if kind == "blocks" else float(f"{value * MARGINS[kind]:.3g}")
    return limits


def lower(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """The lower value of each figure: other load on the machine only ever adds."""
    return {name: min(value, second.get(name, value)) for name, value in first.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, then compare with the limits or write new ones."""
    parser = argparse.ArgumentParser(prog="python -m bench.check")
    parser.add_argument("--update", action="store_true", help="write new limits")
    options = parser.parse_args(arguments)
    measured = measure()
    version = ".".join(platform.python_version_tuple()[:2])
    if options.update:
        measured = lower(measured, measure())
        content = {"python": version, "limits": new_limits(measured)}
        LIMITS.write_text(json.dumps(content, indent=1) + "\n")
    known = json.loads(LIMITS.read_text())
    limits = known["limits"]
    for _ in range(1, _MEASUREMENTS):
        if known["python"] == version and complaints(measured, limits):
            measured = lower(measured, measure())
    for name, value in measured.items():
        print(f"{name:60} {value:10.3f}   limit {limits.get(name, float('nan')):10.3f}")
    if known["python"] != version:
        print(f"the limits are for Python {known['python']}: nothing is compared")
        return
    if worse := complaints(measured, limits):
        sys.exit("\n".join(["", "polls cost more than they may:", *worse]))


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    main()
