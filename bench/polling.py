"""Runs one case: all its ways in turn, round after round, every count verified."""

import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import machine, tools
from bench.cases import Case, Way
from bench.measured import Measured
from bench.postgres import Postgres
from bench.results import Figure
from bench.sites import Site, open_site

_WRK_IN_FLIGHT = 64
_FLAME_ROUNDS = 3


class WrongCount(Exception):
    """What was measured is not what should have been done."""


def run_case(
    case: Case,
    rounds: int,
    folder: Path,
    postgres: Callable[[], Postgres],
    *,
    flame: Path | None = None,
    own: bool = False,
) -> list[Figure]:
    """Measure all ways of a case; `flame` is where a profile of the first one is to go.

    `own`: poll our own server even where there is nginx.
    """
    with ExitStack() as stack:
        hosts = max(way.feeds for way in case.ways)
        site = stack.enter_context(open_site(folder, case.kind, hosts, tls=case.tls, own=own))
        ways = [
            (way, stack.enter_context(_started(way, case, site, rounds, postgres)))
            for way in case.ways
        ]
        site.server.answers(0)  # whoever looked around first
        first = 0 if case.fresh else -1  # else one round warms up
        for number in range(first, rounds):
            if number > first and not case.fresh and case.kind == "new":
                site.publish()
            for way, measured in ways:
                _one_round(case, way, measured, site, number - first, keep=number >= 0)
        done = rounds - first
        if flame is not None:
            done += _draw_flames(case, ways[0], site, done, flame)
        for position, (way, measured) in enumerate(ways):
            _check_counts(case, way, measured, done if position == 0 else rounds - first)
    return [_figure(case, way, measured) for way, measured in ways]


def _started(
    way: Way, case: Case, site: Site, rounds: int, postgres: Callable[[], Postgres]
) -> Measured:
    name = "".join(c if c.isalnum() else "-" for c in way.name)
    also: Sequence[int] = ()
    if way.database == "postgres":
        server = postgres()
        also = (server.pid,)
        new = server.new_database
    else:
        numbers = iter(range(rounds + 1))
        prefix = "sqlite:///" if way.database == "sqlite" else ""

        def new() -> str:
            return f"{prefix}{site.folder}/{name}-{next(numbers)}.db"

    if case.fresh:
        places: dict[str, object] = {"databases": [new() for _ in range(rounds)]}
    else:
        places = {"database": new()}
    target = {"kind": site.kind, "port": site.port, "scheme": site.scheme, "feeds": way.feeds}
    authority = "" if site.authority is None else str(site.authority)
    trust = {"SSL_CERT_FILE": authority} if authority else {}
    environ = {**trust, "LD_LIBRARY_PATH": tools.library_path(), **way.environ}
    python = str(tools.peers_python()) if way.peer else way.python
    return Measured(
        command=[python, "-m", way.module],
        config={**target, **places, "ca": authority, **way.options},
        cores=machine.cores() if way.both_cores else [machine.CLIENT_CORE],
        environ=environ,
        also=also,
    )


def _one_round(
    case: Case, way: Way, measured: Measured, site: Site, number: int, *, keep: bool
) -> None:
    measured.round(keep=keep)
    expected = case.expected_answers(way, number)
    answers = site.server.answers(expected.total() if way.exact else measured.count)
    if not way.exact:
        if not measured.count <= answers.total() <= measured.count + _WRK_IN_FLIGHT:
            raise WrongCount(f"{way.name} counts {measured.count}, the server {answers}")
        return
    if measured.count != way.feeds or answers != expected:
        raise WrongCount(
            f"{case.name}, {way.name}: {measured.count} polls, the server answered "
            f"{dict(answers)} instead of {dict(expected)}"
        )


def _check_counts(case: Case, way: Way, measured: Measured, rounds: int) -> None:
    counts = measured.counts()
    done = 1 if case.fresh else rounds
    posts = case.expected_posts(way, done)
    expected: Mapping[str, int] = {
        "sources": way.feeds,
        "enabled": way.feeds,
        "failing": 0,
        "posts": posts,
        "polls": way.feeds * done,
        "entries": way.feeds * 20 * done,
    }
    statuses: Counter[str] = Counter()
    for number in range(done):
        statuses.update(case.expected_answers(way, number))
    expected = {**expected, **statuses}
    wrong = {name: n for name, n in counts.items() if n != expected.get(name)}
    if wrong:
        raise WrongCount(f"{case.name}, {way.name}: {wrong} instead of {expected}")


def _draw_flames(
    case: Case, first: tuple[Way, Measured], site: Site, done: int, flame: Path
) -> int:
    """Some more rounds of a way under a sampling profiler; answer how many."""
    way, measured = first
    spy = tools.peers_python().with_name("py-spy")
    command = [str(spy), "record", "--rate", "200", "--output", str(flame), "--duration", "3600"]
    with subprocess.Popen(
        [*command, "--pid", str(measured.pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as sampler:
        for number in range(done, done + _FLAME_ROUNDS):
            if case.kind == "new":
                site.publish()
            _one_round(case, way, measured, site, number, keep=False)
        sampler.send_signal(2)
    return _FLAME_ROUNDS


def _figure(case: Case, way: Way, measured: Measured) -> Figure:
    return Figure(
        case=case.name,
        way=way.name,
        unit="ms",
        values=tuple(measured.cpu_ms),
        rates=tuple(measured.rates),
        note=f"{way.feeds:,} feeds" if way.exact else "",
    )
