"""Short scenarios with faults of every kind."""

from dataclasses import replace
from random import Random

from headwater.engine.engine import Pace
from headwater.model import SourceType
from headwater.rules.policy import HoldScope, HostOverride, Policy
from headwater.simulation.checker import Checker
from headwater.simulation.faults import FaultKind, PlannedFault
from headwater.simulation.population import Population, generated_population
from headwater.simulation.scenarios import scenario_of
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_hosts import HostBehaviour, VirtualHost
from headwater.simulation.virtual_web import NetworkFault
from headwater.source_settings import FullText
from tests.factories import a_source

POLICY = Policy(
    type_delay_seconds={SourceType.WEBSITE: 2},
    host_overrides={
        "nitter.net": HostOverride(3),
        "*.example": HostOverride(1),
        "medium.example": HostOverride(hold_scope=HoldScope.SOURCE),
    },
)


def faulty_scenario(
    seed: int, *, sources: int = 60, days: float = 3, interval: int | None = 30, slots: int = 256
) -> Scenario:
    """Return a scenario with random faults."""
    population = generated_population(sources, Random(seed), interval=interval)
    pace = Pace(slots=slots)
    return scenario_of(population, seed=seed, days=days, faults=True, policy=POLICY, pace=pace)


HOUR = 3600.0
_HOSTS = (
    # name, response seconds, behaviour, sources, delay
    ("busy.example", 2.0, HostBehaviour.STEADY, 4, 5),
    ("slow.example", 30.0, HostBehaviour.STEADY, 4, 40),
    ("limiting.example", 0.5, HostBehaviour.RATE_LIMITED, 4, 0),
    ("gone.example", 0.5, HostBehaviour.NO_DNS_RECORD, 1, 0),
    ("dead.example", 0.5, HostBehaviour.REFUSING, 2, 0),
    ("broken.example", 0.5, HostBehaviour.BROKEN, 2, 0),
    ("flapping.example", 0.5, HostBehaviour.FLAPPING, 2, 0),
    *((f"steady{number}.example", 0.5, HostBehaviour.STEADY, 1, 0) for number in range(8)),
)


def obstacle_course(seed: int = 1) -> Scenario:
    """Return a scenario of ten hours with one fault after another."""
    hosts = {
        name: VirtualHost(name, seconds, behaviour) for name, seconds, behaviour, _, _ in _HOSTS
    }
    hosts["pages1.example"] = VirtualHost("pages1.example", 0.5, HostBehaviour.REFUSING)
    sources = [
        a_source(
            id=f"{name}-{number}",
            url=f"https://{name}/{number}",
            host=name,
            poll_interval_minutes=10,
            poll_delay_seconds=delay,
            full_text=FullText.ON if number == 0 else FullText.OFF,
        )
        for name, _, _, count, delay in _HOSTS
        for number in range(count)
    ]
    sources += [
        replace(source, id=f"{source.id}-again", poll_interval_minutes=21, poll_delay_seconds=90)
        for source in sources
        if source.id.endswith("-0")
    ]
    kills = [PlannedFault(HOUR + 97.0 * number, FaultKind.KILL, 1.0) for number in range(20)]
    plan = [
        *kills,
        PlannedFault(2.4 * HOUR, FaultKind.CHECK),
        PlannedFault(2.5 * HOUR, FaultKind.STOP, 20.0),
        PlannedFault(3 * HOUR, FaultKind.CLOCK, -5 * HOUR),
        PlannedFault(3.5 * HOUR, FaultKind.CHECK),
        PlannedFault(4 * HOUR, FaultKind.SUSPEND, 2 * HOUR),
        PlannedFault(5 * HOUR, FaultKind.NETWORK, HOUR, NetworkFault.NXDOMAIN),
        PlannedFault(5.5 * HOUR, FaultKind.CHECK),
        PlannedFault(7 * HOUR, FaultKind.NETWORK, HOUR, NetworkFault.CAPTIVE_PORTAL),
        PlannedFault(9 * HOUR, FaultKind.CLOCK, 5 * HOUR),
    ]
    population = Population(tuple(sources), hosts)
    policy = replace(POLICY, max_backoff_hours=1)
    return Scenario(seed, 0.4, population, plan, policy, slow_store=True)


def run_scenario(scenario: Scenario) -> Checker:
    """Run a scenario to its end without a violation, and return its checker."""
    checker = Simulation(scenario).run()
    broken = checker.violation
    assert broken is None, "\n".join([str(broken), *(broken.trace if broken else ())])
    return checker
