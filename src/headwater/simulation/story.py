"""A story from its seed: who is polled, what goes wrong, and what came of it."""

from dataclasses import dataclass, replace
from random import Random

from headwater.engine.engine import Pace
from headwater.rules.policy import Policy
from headwater.simulation.capacity import LaneLoad, as_plain, loads
from headwater.simulation.population import Population, troubled
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.tally import MINUTES_A_DAY, SHARES
from headwater.simulation.trail import Violation
from headwater.simulation.weather import calm, stormy

_PERCENTS = tuple(f"p{share * 100:.0f}" if share < 1 else "most" for share in SHARES)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a story."""

    seed: int
    days: float
    sources: int
    hosts: int
    polls: int
    failing: int
    disabled: int
    outages: int
    faults: bool
    asleep_seconds: float  # on top of the days: a machine that sleeps does not count them
    down_seconds: float
    connections: int  # that there are
    most_at_once: int  # of them in use
    digest: str  # the same for the same story, whoever plays it
    lateness: dict[str, float]  # seconds that polls could have begun sooner, by percentile
    per_minute: list[int]  # requests, over the last whole day
    most_in_a_second: int
    loads: list[LaneLoad]
    violation: Violation | None

    def plain(self) -> dict[str, object]:
        """The report as JSON has it."""
        broken = self.violation
        return {
            "seed": self.seed,
            "days": self.days,
            "sources": self.sources,
            "hosts": self.hosts,
            "polls": self.polls,
            "failing": self.failing,
            "disabled": self.disabled,
            "outages": self.outages,
            "faults": self.faults,
            "asleepSeconds": round(self.asleep_seconds, 3),
            "downSeconds": round(self.down_seconds, 3),
            "connections": self.connections,
            "mostAtOnce": self.most_at_once,
            "digest": self.digest,
            "latenessSeconds": {name: round(value, 3) for name, value in self.lateness.items()},
            "requestsPerMinute": self.per_minute,
            "mostInOneSecond": self.most_in_a_second,
            "lanes": [as_plain(load) for load in self.loads],
            "violation": None
            if broken is None
            else {"rule": broken.rule, "what": broken.what, "story": list(broken.story)},
        }


def scenario_of(
    population: Population,
    *,
    seed: int,
    days: float,
    faults: bool,
    policy: Policy,
    pace: Pace,
) -> Scenario:
    """What happens to these sources, from the seed."""
    rng = Random(seed)  # noqa: S311 - a story, and no secret
    plan = calm(days)
    if faults:
        population = troubled(population, days, rng)
        plan = stormy(days, rng)
    # what was seen late is remembered by the real store alone (R8)
    policy = replace(policy, late_entry_hours=0)
    return Scenario(seed, days, population, plan, policy, pace, slow_store=faults, faults=faults)


def told(simulation: Simulation) -> Report:
    """Play a story and sum it up."""
    checker, scenario = simulation.run(), simulation.scenario
    sources = list(simulation.store.sources.all())
    tally, machine = checker.tally, checker.machine
    return Report(
        seed=scenario.seed,
        days=scenario.days,
        sources=len(sources),
        hosts=len(scenario.population.hosts),
        polls=checker.polls,
        failing=sum(source.enabled and source.consecutive_failures > 0 for source in sources),
        disabled=sum(not source.enabled for source in sources),
        outages=machine.outages,
        faults=scenario.faults,
        asleep_seconds=machine.slept_seconds,
        down_seconds=machine.down_seconds,
        connections=machine.slots,
        most_at_once=machine.most_flying,
        digest=f"{checker.digest:012x}",
        lateness=dict(zip(_PERCENTS, tally.lateness(), strict=True)),
        per_minute=tally.day(int(scenario.days * MINUTES_A_DAY)),
        most_in_a_second=tally.most_in_a_second,
        loads=loads(scenario.population, scenario.policy, tally),
        violation=checker.violation,
    )
