"""CPU time of short commands, compared with an empty interpreter.

    python -m bench.startup [RUNS]

Every round runs each command once, so that load from elsewhere affects all of them alike. The
numbers are medians of user and system time. Bytecode is compiled before the first round, as it is
in an installed package.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 10
PROGRAM = ("-m", "headwater")
_COMPLETE = {"_HEADWATER_COMPLETE": "complete_bash"}
# name, arguments of the interpreter, variables, limit of CPU seconds
CASES: tuple[tuple[str, tuple[str, ...], dict[str, str], float | None], ...] = (
    ("python -c pass", ("-c", "pass"), {}, None),
    ("--version", (*PROGRAM, "--version"), {}, 0.2),
    ("completion of commands", PROGRAM, _COMPLETE | {"COMP_WORDS": "headwater "}, 0.2),
    (
        "completion of options",
        PROGRAM,
        _COMPLETE | {"COMP_WORDS": "headwater edit --", "COMP_CWORD": "2"},
        0.2,
    ),
    ("--help", (*PROGRAM, "--help"), {}, None),
    ("list", (*PROGRAM, "list"), {}, 0.35),
    ("list --json", (*PROGRAM, "list", "--json"), {}, None),
    ("users", (*PROGRAM, "users"), {}, None),
    ("posts", (*PROGRAM, "posts"), {}, None),
)


def main() -> int:
    """Print a table; return 1 if a command exceeds its limit."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    measured: dict[str, list[float]] = {name: [] for name, *_ in CASES}
    with tempfile.TemporaryDirectory(prefix="headwater-startup-") as folder:
        cpu_seconds(Path(folder), (*PROGRAM, "migrate"), {})  # commands that read need a database
        for _ in range(runs + 1):
            for name, args, variables, _ in CASES:
                measured[name].append(cpu_seconds(Path(folder), args, variables))
    medians = {name: statistics.median(seconds[1:]) for name, seconds in measured.items()}
    nothing = medians[CASES[0][0]]
    too_slow = False
    sys.stdout.write(f"{'command':24}{'CPU s':>8}{'limit':>8}{'x python -c pass':>18}\n")
    for name, _, _, limit in CASES:
        seconds = medians[name]
        allowed = "" if limit is None else f"{limit:.2f}"
        too_slow |= limit is not None and seconds > limit
        sys.stdout.write(f"{name:24}{seconds:8.3f}{allowed:>8}{seconds / nothing:18.1f}\n")
    return int(too_slow)


def cpu_seconds(folder: Path, args: tuple[str, ...], variables: dict[str, str]) -> float:
    """User and system time of one process that runs in `folder`."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("APP__", "HEADWATER_"))}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "COMP_CWORD": "1", **variables}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *args], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
