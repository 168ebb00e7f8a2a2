"""Scenarios from a seed, and the report of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from random import Random

from pydantic.alias_generators import to_camel

from headwater.engine.engine import Pace
from headwater.rules.policy import Policy
from headwater.simulation.capacity import LaneLoad, lane_loads
from headwater.simulation.checker import combined_digest
from headwater.simulation.event_trail import Violation
from headwater.simulation.faults import checks_only, random_faults
from headwater.simulation.population import Population, with_dead_feeds, with_faulty_hosts
from headwater.simulation.request_counts import MINUTES_A_DAY, SHARES, RequestCounts
from headwater.simulation.simulation_run import Scenario, Simulation

_PERCENTILES = tuple(f"p{share * 100:.0f}" if share < 1 else "most" for share in SHARES)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run."""

    seed: int
    days: float
    sources: int
    hosts: int
    polls: int
    failing: int
    disabled: int
    outages: int
    faults: bool
    asleep_seconds: float  # not part of the days
    down_seconds: float
    connections: int  # the limit
    most_at_once: int  # connections in use
    digest: str  # equal for equal runs, on every machine
    lateness_seconds: dict[str, float]  # by percentile: start of a poll minus earliest start
    requests_per_minute: list[int]  # over the last full day
    most_in_one_second: int  # requests
    lanes: list[LaneLoad]
    violation: Violation | None

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        broken, lateness = self.violation, self.lateness_seconds.items()
        return {to_camel(one.name): getattr(self, one.name) for one in fields(self)} | {
            "asleepSeconds": round(self.asleep_seconds, 3),
            "downSeconds": round(self.down_seconds, 3),
            "latenessSeconds": {name: round(value, 3) for name, value in lateness},
            "lanes": [load.to_json() for load in self.lanes],
            "violation": None
            if broken is None
            else {"rule": broken.rule, "what": broken.what, "story": list(broken.trace)},
        }


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of a simulation of some of the sources, or of all."""

    polls: int
    failing: int
    disabled: int
    outages: int
    asleep_seconds: float
    down_seconds: float
    digest: int
    counts: RequestCounts
    violation: Violation | None


def scenario_of(
    population: Population, *, seed: int, days: float, faults: bool, policy: Policy, pace: Pace
) -> Scenario:
    """Return the scenario of a seed for these sources."""
    rng = Random(seed)  # noqa: S311 - not a secret
    plan = checks_only(days)
    if faults:
        population = with_faulty_hosts(population, days, rng)
        population = with_dead_feeds(population, days, Random(f"dead {seed}"))  # noqa: S311
        plan = random_faults(days, rng)
    # only the real store remembers late entries (R8)
    policy = replace(policy, late_entry_hours=0)
    return Scenario(seed, days, population, plan, policy, pace, slow_store=faults, faults=faults)


def run_part(simulation: Simulation) -> PartResult:
    """Run a simulation, of all sources or of a part of them."""
    checker = simulation.run()
    sources, history = list(simulation.store.sources.all()), checker.fault_history
    return PartResult(
        polls=checker.polls,
        failing=sum(source.enabled and source.consecutive_failures > 0 for source in sources),
        disabled=sum(not source.enabled for source in sources),
        outages=history.outages,
        asleep_seconds=history.slept_seconds,
        down_seconds=history.down_seconds,
        digest=checker.digest,
        counts=checker.request_counts,
        violation=checker.violation,
    )


def report_of(scenario: Scenario, parts: Sequence[PartResult]) -> Report:
    """Return the report of a scenario that was run in one or several parts."""
    counts = RequestCounts.of_all(part.counts for part in parts)
    violations = [part.violation for part in parts if part.violation is not None]
    return Report(
        seed=scenario.seed,
        days=scenario.days,
        sources=len(scenario.population.sources),
        hosts=len(scenario.population.hosts),
        polls=sum(part.polls for part in parts),
        failing=sum(part.failing for part in parts),
        disabled=sum(part.disabled for part in parts),
        outages=sum(part.outages for part in parts),
        faults=scenario.faults,
        asleep_seconds=sum(part.asleep_seconds for part in parts),
        down_seconds=sum(part.down_seconds for part in parts),
        connections=scenario.pace.slots,
        most_at_once=counts.max_at_once(),
        digest=f"{reduce(combined_digest, (part.digest for part in parts)):012x}",
        lateness_seconds=dict(zip(_PERCENTILES, counts.lateness(), strict=True)),
        requests_per_minute=counts.last_day(int(scenario.days * MINUTES_A_DAY)),
        most_in_one_second=counts.max_per_second(),
        lanes=lane_loads(scenario.population, scenario.policy, counts),
        violation=min(violations, key=lambda one: one.at, default=None),
    )


def run_and_report(simulation: Simulation) -> Report:
    """Run a simulation as a whole and return its report."""
    return report_of(simulation.scenario, [run_part(simulation)])
