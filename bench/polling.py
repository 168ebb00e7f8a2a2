"""Runs one case: all its programs in turn, round after round, every count verified."""

import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import external_tools, machine
from bench.cases import Case, Program
from bench.measured_process import Measured
from bench.polled_site import Site, open_site
from bench.postgres import Postgres
from bench.results import Figure

_WRK_IN_FLIGHT = 64
_FLAME_ROUNDS = 10


class WrongCount(Exception):
    """A measured run did not do the expected work."""


def run_case(
    case: Case,
    rounds: int,
    folder: Path,
    postgres: Callable[[], Postgres],
    *,
    flame: Path | None = None,
    own: bool = False,
) -> list[Figure]:
    """Measure all programs of a case; `flame` is the path for a profile of our engine.

    `own`: poll our own server even if there is nginx.
    """
    with ExitStack() as stack:
        hosts = max(program.feeds for program in case.programs)
        site = stack.enter_context(open_site(folder, case.kind, hosts, tls=case.tls, own=own))
        programs = [
            (program, stack.enter_context(_started(program, case, site, rounds, postgres)))
            for program in case.programs
        ]
        site.server.responses(0)  # those that resolved names first
        first = 0 if case.fresh else -1  # else one round warms up
        for number in range(first, rounds):
            if number > first and not case.fresh and case.publishes:
                site.publish()
            for program, measured in programs:
                _one_round(case, program, measured, site, number - first, keep=number >= 0)
        done = rounds - first
        more = {_profiled(case): _FLAME_ROUNDS} if flame is not None else {}
        for program, measured in programs:
            if program.name in more and flame is not None:
                _draw_flames(case, (program, measured), site, done, flame)
            _check_counts(case, program, measured, done + more.get(program.name, 0))
    return [_figure(case, program, measured) for program, measured in programs]


def _started(
    program: Program, case: Case, site: Site, rounds: int, postgres: Callable[[], Postgres]
) -> Measured:
    name = "".join(c if c.isalnum() else "-" for c in program.name)
    also: Sequence[int] = ()
    if program.database == "postgres":
        server = postgres()
        also = (server.pid,)
        new = server.new_database
    else:
        numbers = iter(range(rounds + 1))
        prefix = "sqlite:///" if program.database == "sqlite" else ""

        def new() -> str:
            return f"{prefix}{site.folder}/{name}-{next(numbers)}.db"

    if case.fresh:
        places: dict[str, object] = {"databases": [new() for _ in range(rounds)]}
    else:
        places = {"database": new()}
    target = {
        "kind": site.kind, "port": site.port, "scheme": site.scheme, "feeds": program.feeds,
        "folder": str(site.folder),
    }  # fmt: skip
    authority = "" if site.authority is None else str(site.authority)
    trust = {"SSL_CERT_FILE": authority} if authority else {}
    environ = {**trust, "LD_LIBRARY_PATH": external_tools.library_path(), **program.environ}
    python = str(external_tools.peers_python()) if program.peer else program.python
    return Measured(
        command=[python, "-m", program.module],
        config={**target, **places, "ca": authority, **program.options},
        cores=machine.cores() if program.both_cores else [machine.CLIENT_CORE],
        environ=environ,
        also=also,
    )


def _one_round(
    case: Case, program: Program, measured: Measured, site: Site, number: int, *, keep: bool
) -> None:
    measured.round(keep=keep)
    expected = case.expected_responses(program, number)
    responses = site.server.responses(expected.total() if program.exact else measured.count)
    if not program.exact:
        if not measured.count <= responses.total() <= measured.count + _WRK_IN_FLIGHT:
            raise WrongCount(f"{program.name} counts {measured.count}, the server {responses}")
        return
    if measured.count != program.feeds or responses != expected:
        raise WrongCount(
            f"{case.name}, {program.name}: {measured.count} polls, the server sent "
            f"{dict(responses)} instead of {dict(expected)}"
        )


def _check_counts(case: Case, program: Program, measured: Measured, rounds: int) -> None:
    counts = measured.counts()
    done = 1 if case.fresh else rounds
    posts = case.expected_posts(program, done)
    expected: Mapping[str, int] = {
        "sources": program.feeds,
        "enabled": program.feeds,
        "failing": 0,
        "posts": posts,
        "polls": program.feeds * done,
        "entries": program.feeds * 20 * done,
    }
    statuses: Counter[str] = Counter()
    for number in range(done):
        statuses.update(case.expected_responses(program, number))
    expected = {**expected, **statuses}
    wrong = {name: n for name, n in counts.items() if n != expected.get(name)}
    if wrong:
        raise WrongCount(f"{case.name}, {program.name}: {wrong} instead of {expected}")


def _profiled(case: Case) -> str:
    """The name of the engine alone, whose process is the measured one; else the first program."""
    engine = "bench.programs.headwater_polls"
    return next((one.name for one in case.programs if one.module == engine), case.programs[0].name)


def _draw_flames(
    case: Case, first: tuple[Program, Measured], site: Site, done: int, flame: Path
) -> None:
    """Run more rounds of a program under a sampling profiler."""
    program, measured = first
    spy = external_tools.peers_python().with_name("py-spy")
    command = [str(spy), "record", "--rate", "200", "--output", str(flame), "--duration", "3600"]
    with subprocess.Popen(
        [*command, "--pid", str(measured.pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as sampler:
        for number in range(done, done + _FLAME_ROUNDS):
            if case.publishes:
                site.publish()
            _one_round(case, program, measured, site, number, keep=False)
        sampler.send_signal(2)


def _figure(case: Case, program: Program, measured: Measured) -> Figure:
    return Figure(
        case=case.name,
        program=program.name,
        unit="ms",
        values=tuple(measured.cpu_ms),
        rates=tuple(measured.rates),
        note=f"{program.feeds:,} feeds" if program.exact else "",
    )
