"""Short stories with everything going wrong."""

from dataclasses import replace
from random import Random

from headwater.engine.engine import Pace
from headwater.model import SourceType
from headwater.rules.policy import HoldScope, HostOverride, Policy
from headwater.simulation.checker import Checker
from headwater.simulation.hosts import Manner, VirtualHost
from headwater.simulation.population import Population, invented
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.story import scenario_of
from headwater.simulation.weather import Event, Happening
from headwater.simulation.web import Trouble
from tests.factories import a_source

POLICY = Policy(
    type_delay_seconds={SourceType.WEBSITE: 2},
    host_overrides={
        "nitter.net": HostOverride(3),
        "*.example": HostOverride(1),
        "medium.example": HostOverride(hold_scope=HoldScope.SOURCE),
    },
)


def stormy_story(
    seed: int, *, sources: int = 60, days: float = 3, interval: int | None = 30, slots: int = 256
) -> Scenario:
    """Faults of every kind, from a seed."""
    people = invented(sources, Random(seed), interval=interval)
    pace = Pace(slots=slots)
    return scenario_of(people, seed=seed, days=days, faults=True, policy=POLICY, pace=pace)


HOUR = 3600.0
_HOSTS = (
    # name, seconds to answer, how it behaves, sources, delay
    ("busy.example", 2.0, Manner.STEADY, 4, 5),
    ("slow.example", 30.0, Manner.STEADY, 4, 40),
    ("limiting.example", 0.5, Manner.LIMITING, 4, 0),
    ("gone.example", 0.5, Manner.NAMELESS, 1, 0),
    ("dead.example", 0.5, Manner.REFUSING, 2, 0),
    ("broken.example", 0.5, Manner.BROKEN, 2, 0),
    ("flapping.example", 0.5, Manner.FLAPPING, 2, 0),
    *((f"steady{number}.example", 0.5, Manner.STEADY, 1, 0) for number in range(8)),
)


def obstacle_course(seed: int = 1) -> Scenario:
    """Half a day with one fault after another, in seconds."""
    hosts = {name: VirtualHost(name, seconds, manner) for name, seconds, manner, _, _ in _HOSTS}
    sources = [
        a_source(
            id=f"{name}-{number}",
            url=f"https://{name}/{number}",
            host=name,
            poll_interval_minutes=10,
            poll_delay_seconds=delay,
        )
        for name, _, _, count, delay in _HOSTS
        for number in range(count)
    ]
    kills = [Happening(HOUR + 97.0 * number, Event.KILL, 1.0) for number in range(20)]
    plan = [
        *kills,
        Happening(2.5 * HOUR, Event.STOP, 20.0),
        Happening(3 * HOUR, Event.CLOCK, -5 * HOUR),
        Happening(3.5 * HOUR, Event.LOOK),
        Happening(4 * HOUR, Event.SUSPEND, 2 * HOUR),
        Happening(5 * HOUR, Event.TROUBLE, HOUR, Trouble.DENIAL),
        Happening(5.5 * HOUR, Event.LOOK),
        Happening(7 * HOUR, Event.TROUBLE, HOUR, Trouble.PORTAL),
        Happening(9 * HOUR, Event.CLOCK, 5 * HOUR),
    ]
    people = Population(tuple(sources), hosts)
    return Scenario(seed, 0.4, people, plan, replace(POLICY, max_backoff_hours=1), slow_store=True)


def played(scenario: Scenario) -> Checker:
    """What a story came to; it must have come to its end."""
    checker = Simulation(scenario).run()
    broken = checker.violation
    assert broken is None, "\n".join([str(broken), *(broken.story if broken else ())])
    return checker
