"""Incidents and failure storms in the simulation: none is missed, none wrong (Y1, Y6)."""

from dataclasses import replace

import pytest

from headwater.engine import fault_attribution, incident_watch
from headwater.rules import incidents
from headwater.rules.incidents import Evidence, IncidentKind, ServiceState
from headwater.simulation import memory_incidents
from headwater.simulation.checker import Checker
from headwater.simulation.faults import FaultKind, PlannedFault, checks_only
from headwater.simulation.population import Population
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_hosts import DAY_SECONDS, HostBehaviour, Silence, VirtualHost
from headwater.simulation.virtual_web import NetworkFault
from tests.factories import a_source
from tests.simulation.short_scenarios import HOUR, run_scenario

DAYS = 12
HOSTS = (
    # name, sources, behaviour, first and last hour of it
    ("storm.example", 6, HostBehaviour.STORM, 5, 35),
    ("gone.example", 1, HostBehaviour.STORM, 5, float("inf")),
    ("dead.example", 2, HostBehaviour.REFUSING, 10, 60),
    ("rejecting.example", 2, HostBehaviour.REJECTING, 10, 20),
    ("flapping.example", 2, HostBehaviour.FLAPPING, 10, 100),
    ("cleared.example", 5, HostBehaviour.STEADY, 0, 0),
    ("silent.example", 1, HostBehaviour.STEADY, 0, 0),
    *((f"steady{number}.example", 1, HostBehaviour.STEADY, 0, 0) for number in range(8)),
)
EXPECTED = {
    "storm.example": [IncidentKind.STORM],
    "gone.example": [IncidentKind.DISABLED],
    "dead.example": [IncidentKind.FAILING],
    "rejecting.example": [IncidentKind.REJECTING],
    # its feeds die at once and for good, except one that ends the storm
    "cleared.example": [IncidentKind.STORM, IncidentKind.DISABLED],
    "silent.example": [IncidentKind.SILENT],
    None: [IncidentKind.OUTAGE],
}


def problems() -> Scenario:
    """Return twelve days with a problem of every kind, an outage and restarts."""
    hosts = {
        name: VirtualHost(name, 0.5, behaviour, since * HOUR, until * HOUR)
        for name, _, behaviour, since, until in HOSTS
    }
    sources = tuple(
        a_source(
            id=f"{name}-{number}",
            url=f"https://{name}/{number}",
            host=name,
            poll_interval_minutes=30,
            max_backoff_hours=1,
        )
        for name, count, *_ in HOSTS
        for number in range(count)
    )
    silences = {"https://silent.example/0": Silence(2 * DAY_SECONDS, 10 * DAY_SECONDS)}
    deaths = {f"https://cleared.example/{number}": 50 * HOUR for number in range(4)}
    plan = [
        *checks_only(DAYS),
        PlannedFault(12 * HOUR, FaultKind.KILL, 20.0),
        PlannedFault(40 * HOUR, FaultKind.STOP, 20.0),
        PlannedFault(110 * HOUR, FaultKind.NETWORK, HOUR, NetworkFault.NXDOMAIN),
        PlannedFault(110.75 * HOUR, FaultKind.CHECK),
    ]
    plan.sort(key=lambda fault: fault.at)
    population = Population(sources, hosts, silences=silences, deaths=deaths)
    return Scenario(1, DAYS, population, plan, slow_store=True)


def storm_with_a_clock_set_back() -> Scenario:
    """Return two days with a storm, in which the clock is set back."""
    scenario = problems()
    plan = [*checks_only(2), PlannedFault(20 * HOUR, FaultKind.CLOCK, -60 * HOUR)]
    return replace(scenario, days=2, plan=sorted(plan, key=lambda fault: fault.at))


@pytest.fixture(scope="module")
def checker() -> Checker:
    return run_scenario(problems())


def test_y1_every_problem_opens_one_incident_and_closes_it(checker):
    found: dict[str | None, list[IncidentKind]] = {}
    for incident in checker.incident_checks.opened:
        found.setdefault(incident.host, []).append(incident.kind)
    assert found == EXPECTED
    number = sum(map(len, EXPECTED.values()))
    assert len(checker.incident_checks.closed) == number - 2  # two hosts have feeds that are gone


def test_y6_a_storm_of_a_host_disables_no_source(checker):
    of_host = [one.source for one in checker.sources.values() if one.lane == "storm.example"]
    assert [source.enabled for source in of_host] == [True] * 6
    assert {source.permanent_failures for source in of_host} == {0}


def test_f3_a_single_dead_feed_is_disabled(checker):
    dead = checker.sources["gone.example-0"].source
    assert dead.disabled_reason == "Auto-disabled after 5 consecutive 404 errors"


def test_f3_feeds_that_died_at_once_are_disabled(checker):
    of_host = [one.source for one in checker.sources.values() if one.lane == "cleared.example"]
    assert [source.enabled for source in of_host] == [False] * 4 + [True]


def storms_count(patch):
    patch.setattr(fault_attribution, "as_fault_of_host", lambda failure: failure)


def every_failure_is_the_fault_of_the_host(patch):
    patch.setattr(fault_attribution, "MIN_SOURCES", 1)


def failures_before_a_storm_stay(patch):
    patch.setattr(fault_attribution, "without_counted", lambda current, **_: current)


def storms_unnoticed(patch):
    async def others_polled(*_, limit, **__):
        return limit

    patch.setattr(memory_incidents.MemoryStorms, "others_polled", others_polled)


def dead_feeds_begin_storms(patch):
    patch.setattr(fault_attribution, "has_recovered", lambda *_: True)


def storms_leave_their_backoff(patch):
    async def finish(storms, now):
        return []

    patch.setattr(memory_incidents.MemoryStorms, "finish", finish)


def storms_prolonged_by_a_clock_set_back(patch):
    patch.setattr(memory_incidents, "replace", lambda storm, **_: storm)


def changed_incidents(patch, change):
    """Let a function change what the rules return."""
    real = incidents.incident_changes
    patch.setattr(incident_watch, "incident_changes", lambda *a, **k: change(real(*a, **k)))


def incidents_missed(patch):
    changed_incidents(patch, lambda changes: replace(changes, opened=[]))


def incidents_opened_twice(patch):
    changed_incidents(patch, lambda changes: replace(changes, opened=changes.opened * 2))


def incidents_never_closed(patch):
    changed_incidents(patch, lambda changes: replace(changes, closed=[]))


def incidents_closed_too_early(patch):
    real = incidents.incident_changes

    def incident_changes(evidence, service, now, **options):
        if evidence.incidents and now.minute == 0:
            evidence = Evidence(evidence.incidents, ())
        return real(evidence, service, now, **options)

    patch.setattr(incident_watch, "incident_changes", incident_changes)


def without_hysteresis(patch):
    real = incidents.incident_changes

    def incident_changes(evidence, service, now, *, failing_hours):
        del failing_hours
        return real(evidence, service, now, failing_hours=1)

    patch.setattr(incident_watch, "incident_changes", incident_changes)


def rejections_unnoticed(patch):
    patch.setattr(incidents, "REJECTED_KINDS", frozenset())


def silence_unnoticed(patch):
    patch.setattr(memory_incidents, "silent_after", lambda _: None)


def outages_not_reported(patch):
    real = incidents.incident_changes
    patch.setattr(
        incident_watch,
        "incident_changes",
        lambda evidence, _, now, **options: real(evidence, ServiceState(), now, **options),
    )


MUTANTS = {
    storms_count: "Y6",
    every_failure_is_the_fault_of_the_host: "Y6",
    failures_before_a_storm_stay: "Y6",
    storms_unnoticed: "Y6",
    dead_feeds_begin_storms: "Y6",
    storms_leave_their_backoff: "Y6",
    incidents_missed: "Y1",
    incidents_opened_twice: "Y1",
    incidents_never_closed: "Y1",
    incidents_closed_too_early: "Y1",
    without_hysteresis: "Y1",
    rejections_unnoticed: "Y1",
    silence_unnoticed: "Y1",
    outages_not_reported: "Y1",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_faulty_engine_is_caught(monkeypatch, mutant):
    mutant(monkeypatch)
    violation = Simulation(problems()).run().violation
    assert violation is not None
    assert violation.rule == MUTANTS[mutant], violation


def test_o4_a_clock_set_back_does_not_prolong_a_storm(monkeypatch):
    checker = run_scenario(storm_with_a_clock_set_back())
    kinds = [one.kind for one in checker.incident_checks.closed if one.host == "storm.example"]
    assert kinds == [IncidentKind.STORM]
    storms_prolonged_by_a_clock_set_back(monkeypatch)
    violation = Simulation(storm_with_a_clock_set_back()).run().violation
    assert violation is not None
    assert "the storm lasts after a success" in violation.what
