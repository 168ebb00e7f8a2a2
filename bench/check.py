"""Guards what polls cost, by counts that do not depend on how busy a machine is.

    python -m bench.check             # compares with bench/limits.json; exit 1 where it got worse
    python -m bench.check --update    # takes what is measured now as the new limits

Counted are calls of functions (Python's and C's), SQL statements and memory blocks kept, all per
poll, also of polls that are only simulated; then there are some ratios of times that were taken in
turns.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import counting, ratios, simulation

LIMITS = Path(__file__).with_name("limits.json")
_ROOM = {"calls": 1.06, "statements": 1.5, "blocks": 1.0, "ratio": 1.0}
_LEAST_BLOCKS = 2.0  # per poll: caches that fill up are no leak


def measure() -> dict[str, float]:
    """All figures by their names; the last word of a name says what is counted."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return {
            **asyncio.run(counting.figures(Path(folder))),
            **ratios.figures(Path(folder)),
            "simulating 1,000 sources, a poll: calls": simulation.calls_of_a_poll(),
        }


def complaints(measured: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """What got worse, and what nobody has set a limit for."""
    found = [
        f"{name}: {value:.4g}, and the limit is {limits[name]:.4g}"
        for name, value in measured.items()
        if name in limits and value > limits[name]
    ]
    unknown = measured.keys() ^ limits.keys()
    return found + [f"{name}: has no figure or no limit" for name in sorted(unknown)]


def new_limits(measured: Mapping[str, float]) -> dict[str, float]:
    """Limits with a little room above what was measured."""
    limits = {}
    for name, value in measured.items():
        kind = name.rsplit(" ", 1)[1]
        if kind == "ratio":
            limits[name] = ratios.LIMITS[name]
        elif kind == "blocks":
            limits[name] = _LEAST_BLOCKS
        else:
            limits[name] = round(value * _ROOM[kind], 2)
    return limits


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and compare or take over."""
    parser = argparse.ArgumentParser(prog="python -m bench.check")
    parser.add_argument("--update", action="store_true", help="write the limits anew")
    options = parser.parse_args(arguments)
    measured = measure()
    version = ".".join(platform.python_version_tuple()[:2])
    if options.update:
        content = {"python": version, "limits": new_limits(measured)}
        LIMITS.write_text(json.dumps(content, indent=1) + "\n")
    known = json.loads(LIMITS.read_text())
    limits = known["limits"]
    for name, value in measured.items():
        print(f"{name:52} {value:10.2f}   limit {limits.get(name, float('nan')):10.2f}")
    if known["python"] != version:
        print(f"the limits are those of Python {known['python']}: nothing is compared")
        return
    if worse := complaints(measured, limits):
        sys.exit("\n".join(["", "polls cost more than they may:", *worse]))


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    main()
