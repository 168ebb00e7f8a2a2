"""How many messages a user with 200 sources gets in 30 days with faults of every kind.

python -m bench.incident_study [SEEDS]
"""

import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

from headwater import logs
from headwater.rules.incidents import Incident
from headwater.rules.policy import Policy
from headwater.simulation.checker import Checker
from headwater.simulation.faults import DAY, HOUR, FaultKind, PlannedFault, checks_only
from headwater.simulation.incident_checks import IncidentChecks
from headwater.simulation.population import Population, generated_population
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_hosts import HostBehaviour, Silence, VirtualHost
from headwater.simulation.virtual_web import NetworkFault

SOURCES, DAYS, INTERVAL = 200, 30, 60
_HOSTS_PER_FAULT = 3
_LENGTHS = (2 * HOUR, 12 * HOUR, 3 * DAY, 10 * DAY)  # of the faults of hosts
_SILENT = 8  # sources
_STORM_SOURCES = 3  # a storm needs as many on one host
_ROWS = (
    ("messages, as shipped", "messages"),
    ("messages, the same incidents without hysteresis", "eager"),
    ("messages, one per source that begins or stops failing", "plain"),
    ("incidents opened", "opened"),
    ("opened again within a day", "again"),
    ("incidents missed, opened twice or closed wrongly", "violations"),
)


def population_with_faults(rng: Random) -> Population:
    """Return sources whose hosts fail in every way that the simulation knows."""
    population = generated_population(SOURCES, rng, interval=INTERVAL)
    sources = (
        replace(one, max_failures=None, max_backoff_hours=None) for one in population.sources
    )
    population = replace(population, sources=tuple(sources))
    hosts = dict(population.hosts)
    per_host = Counter(population.lane(source) for source in population.sources)
    healthy = sorted(hosts)
    rng.shuffle(healthy)
    healthy.sort(key=lambda name: per_host[name] < _STORM_SOURCES)  # storms first
    kinds = sorted(set(HostBehaviour) - {HostBehaviour.STEADY}, key=_storms_first)
    for behaviour in kinds:
        for _ in range(_HOSTS_PER_FAULT):
            name = healthy.pop(0)
            since, length = rng.uniform(1, DAYS - 4) * DAY, rng.choice(_LENGTHS)
            hosts[name] = VirtualHost(
                name, 0.5, behaviour, since, since + length, redirects_to=_target(behaviour)
            )
    quiet = rng.sample([one.url for one in population.sources], _SILENT)
    silences = {
        url: Silence(since := rng.uniform(2, 15) * DAY, since + rng.choice((2, 10)) * DAY)
        for url in quiet
    }
    return replace(population, hosts=hosts, silences=silences)


def _storms_first(behaviour: HostBehaviour) -> tuple[bool, str]:
    return behaviour is not HostBehaviour.STORM, behaviour.value


def _target(behaviour: HostBehaviour) -> str | None:
    return "elsewhere.example" if behaviour is HostBehaviour.MOVED else None


def machine_faults(rng: Random) -> list[PlannedFault]:
    """Return outages, sleep, restarts and small clock changes, and what the user does."""
    kinds = {FaultKind.SUSPEND: 8 * HOUR, FaultKind.STOP: 600.0, FaultKind.KILL: 20.0}
    plan = checks_only(DAYS)
    for kind, seconds in kinds.items():
        plan += [PlannedFault(rng.uniform(1, DAYS) * DAY, kind, seconds) for _ in range(4)]
    for number in range(6):
        at, network = rng.uniform(1, DAYS) * DAY, list(NetworkFault)[number % 3]
        plan.append(PlannedFault(at, FaultKind.NETWORK, rng.choice((900.0, 6 * HOUR)), network))
    for change in (HOUR, -HOUR):
        plan.append(PlannedFault(rng.uniform(1, DAYS) * DAY, FaultKind.CLOCK, change))
    for kind in (FaultKind.REQUEST, FaultKind.ENABLE):
        plan += [PlannedFault(rng.uniform(1, DAYS) * DAY, kind) for _ in range(5)]
    return sorted(plan, key=lambda fault: fault.at)


def run(seed: int, policy: Policy) -> Checker:
    """Run the scenario of a seed."""
    rng = Random(seed)
    population = population_with_faults(rng)
    policy = replace(policy, late_entry_hours=0)
    scenario = Scenario(seed, DAYS, population, machine_faults(rng), policy, slow_store=True)
    return Simulation(scenario).run()


def study(seed: int) -> dict[str, int]:
    """Return the figures of a seed, with and without hysteresis."""
    shipped, eager = run(seed, Policy()), run(seed, Policy(failing_hours=0))
    for checker in (shipped, eager):
        if checker.violation is not None:
            print(checker.violation, *checker.violation.trace, sep="\n", file=sys.stderr)
    incidents = shipped.incident_checks
    return {
        "messages": _messages(incidents),
        "eager": _messages(eager.incident_checks),
        "plain": incidents.failures_begun + incidents.failures_ended,
        "opened": len(incidents.opened),
        "again": _opened_again(incidents),
        "violations": int(shipped.violation is not None),
        "polls": shipped.polls,
    }


def _messages(incidents: IncidentChecks) -> int:
    return len(incidents.opened) + len(incidents.closed)


def _opened_again(incidents: IncidentChecks) -> int:
    """Return how many incidents opened within a day after the same problem had ended."""

    def follows(one: Incident, before: Incident) -> bool:
        gap = one.opened_at - (before.closed_at or one.opened_at)
        return before.key == one.key and timedelta() < gap < timedelta(days=1)

    return sum(any(follows(one, end) for end in incidents.closed) for one in incidents.opened)


def main() -> None:
    """Print the table, a column for each seed."""
    logs.configure("text", "error")
    seeds = range(1, 1 + int(sys.argv[1] if len(sys.argv) > 1 else 3))
    found = {seed: study(seed) for seed in seeds}
    print(
        f"| {SOURCES} sources, {DAYS} days | " + " | ".join(f"seed {seed}" for seed in seeds), "|"
    )
    print("|---|" + "---:|" * len(found))
    for text, name in _ROWS:
        print(f"| {text} |", " | ".join(f"{found[seed][name]:,}" for seed in seeds), "|")
    sys.exit(any(one["violations"] for one in found.values()))


if __name__ == "__main__":
    main()
