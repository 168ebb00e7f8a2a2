"""A story from its seed: who is polled, what goes wrong, and what came of it."""

from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from headwater.engine.engine import Pace
from headwater.rules.policy import Policy
from headwater.simulation.capacity import LaneLoad, as_plain, loads
from headwater.simulation.loop import START
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
    digest: str  # the same for the same story, whoever plays it
    lateness: dict[str, float]  # seconds, by percentile
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
    start: datetime = START,
) -> Scenario:
    """What happens to these sources, from the seed."""
    rng = Random(seed)  # noqa: S311 - a story, and no secret
    plan = calm(days)
    if faults:
        population = troubled(population, days, rng)
        plan = stormy(days, rng)
    # what was seen late is remembered by the real store alone (R8)
    policy = replace(policy, late_entry_hours=0)
    return Scenario(seed, days, population, plan, policy, pace, start, slow_store=faults)


def told(simulation: Simulation) -> Report:
    """Play a story and sum it up."""
    checker, scenario = simulation.run(), simulation.scenario
    sources = list(simulation.store.sources.all())
    tally = checker.tally
    return Report(
        seed=scenario.seed,
        days=scenario.days,
        sources=len(sources),
        hosts=len(scenario.population.hosts),
        polls=checker.polls,
        failing=sum(source.enabled and source.consecutive_failures > 0 for source in sources),
        disabled=sum(not source.enabled for source in sources),
        outages=checker.machine.outages,
        digest=f"{checker.digest:012x}",
        lateness=dict(zip(_PERCENTS, tally.lateness(), strict=True)),
        per_minute=tally.day(int(scenario.days * MINUTES_A_DAY)),
        most_in_a_second=tally.most_in_a_second,
        loads=loads(scenario.population, scenario.policy, tally),
        violation=checker.violation,
    )
