"""Parts: a large simulation as several independent ones, in several processes.

Hosts do not affect each other unless something fails or connections are scarce. So sources can be
simulated host by host, and the parts together are what one process would do. Parts depend on the
sources and not on the number of processes: the same seed gives the same report with any number.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from headwater import logs
from headwater.garbage_collection import collect_garbage_very_rarely
from headwater.model import Source
from headwater.rules.politeness import host_of
from headwater.simulation.population import Population
from headwater.simulation.scenarios import PartResult, Report, report_of, run_part
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.source_settings import FullText

_LEAST_SOURCES = 10_000  # of a part: the ticks of each one take time
_MAX_PARTS = 4  # about a quarter of generated sources cannot be divided: see _groups
_MAX_BUSY = 0.5  # the share of connections that the polls of an average tick may need


class DividedSimulation:
    """One run of a scenario, in as many processes as are allowed and useful."""

    def __init__(self, scenario: Scenario, *, jobs: int = 1, parts: int | None = None) -> None:
        """`parts`: how many, instead of as many as suit the scenario."""
        self._scenario = scenario
        self._parts = parts_of(scenario, suitable_parts(scenario) if parts is None else parts)
        self._jobs = min(jobs, len(self._parts))
        self._running: Simulation | None = None
        self._ended = 0
        self._own = 1

    @property
    def share_done(self) -> float:
        """The share of this process's parts that is done; parts are of about the same size."""
        running = 0.0 if self._running is None else self._running.share_done
        return min((self._ended + running) / self._own, 1.0)

    def run(self) -> Report:
        """Run all parts and return their common report."""
        report = report_of(self._scenario, self._run(self._parts, self._jobs))
        if len(self._parts) > 1 and report.most_at_once > report.connections:
            # the parts would have waited for each other's connections
            return report_of(self._scenario, self._run([self._scenario], 1))
        return report

    def _run(self, parts: Sequence[Scenario], jobs: int) -> list[PartResult]:
        own, others = parts[::jobs], [parts[number::jobs] for number in range(1, jobs)]
        self._ended, self._own = 0, len(own)
        if not others:
            return [self._run_here(part) for part in own]
        results: list[PartResult | None] = [None] * len(parts)
        with ProcessPoolExecutor(jobs - 1, get_context("spawn")) as pool:
            running = [pool.submit(_run_in_process, some) for some in others]
            results[::jobs] = [self._run_here(part) for part in own]
            for number, some in enumerate(running, 1):
                results[number::jobs] = some.result()
        return [result for result in results if result is not None]

    def _run_here(self, part: Scenario) -> PartResult:
        self._running = Simulation(part)
        result = run_part(self._running)
        self._running, self._ended = None, self._ended + 1
        return result


def _run_in_process(parts: Sequence[Scenario]) -> list[PartResult]:
    logs.configure("text", "error")
    collect_garbage_very_rarely()
    return [run_part(Simulation(part)) for part in parts]


def suitable_parts(scenario: Scenario) -> int:
    """Return how many parts a scenario is divided into: 1 if they would affect each other."""
    pace, sources = scenario.pace, scenario.population.sources
    polls_per_tick = sum(map(_polls_per_minute, sources)) * pace.tick_seconds / 60
    if scenario.faults or polls_per_tick > pace.slots * _MAX_BUSY:
        return 1
    return max(min(len(sources) // _LEAST_SOURCES, _MAX_PARTS), 1)


def parts_of(scenario: Scenario, count: int) -> list[Scenario]:
    """Divide a scenario into parts with different hosts and about as many polls each."""
    if count == 1:
        return [scenario]
    loads, ids = [0.0] * count, [set[str]() for _ in range(count)]
    groups = [(sum(map(_polls_per_minute, group)), group) for group in _groups(scenario.population)]
    for load, group in sorted(groups, key=lambda one: -one[0]):
        least = loads.index(min(loads))
        loads[least] += load
        ids[least].update(source.id for source in group)
    return [
        replace(scenario, population=_only(scenario.population, some), part=number)
        for number, some in enumerate(filter(None, ids), 1)
    ]


def _groups(population: Population) -> list[list[Source]]:
    """Return the sources by host; those with full text together, as their pages share hosts."""
    with_pages = {host_of(one) for one in population.sources if one.full_text is FullText.ON}
    groups: dict[tuple[bool, str | None], list[Source]] = {}
    for source in population.sources:
        host = host_of(source)
        key = (True, None) if host in with_pages else (False, host)
        groups.setdefault(key, []).append(source)
    return list(groups.values())


def _only(population: Population, ids: set[str]) -> Population:
    sources = tuple(source for source in population.sources if source.id in ids)
    lanes = dict.fromkeys(map(population.lane, sources))
    return replace(
        population, sources=sources, hosts={lane: population.hosts[lane] for lane in lanes}
    )


def _polls_per_minute(source: Source) -> float:
    return 1.0 / source.poll_interval_minutes
