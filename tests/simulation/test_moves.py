"""Moved hosts in the simulation: a move is suggested in time, and never too early (Y4)."""

import pytest

from headwater.rules import moves
from headwater.simulation.faults import FaultKind, PlannedFault
from headwater.simulation.population import Population
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_hosts import DAY_SECONDS, HostBehaviour, VirtualHost
from tests.factories import a_source
from tests.simulation.short_scenarios import HOUR, run_scenario

LASTS = {"forever.example": 99.0, "short.example": 2.0, "while.example": 4.5, "tmp.example": 99.0}


def moved_hosts() -> Scenario:
    """Return a scenario of eight days in which hosts redirect from the second day on."""
    hosts = {
        name: VirtualHost(
            name,
            0.5,
            HostBehaviour.MOVED,
            since=DAY_SECONDS,
            until=(1 + days) * DAY_SECONDS,
            redirects_to="new.example",
            has_moved_for_good=name != "tmp.example",
        )
        for name, days in LASTS.items()
    }
    sources = tuple(
        a_source(
            id=f"{name}-{minutes}",
            url=f"https://{name}/{minutes}",
            host=name,
            poll_interval_minutes=minutes,
        )
        for name in LASTS
        for minutes in (360, 1440)
    )
    kills = [
        PlannedFault(5 * DAY_SECONDS + number * HOUR, FaultKind.KILL, 1.0) for number in (1, 5)
    ]
    return Scenario(1, 8, Population(sources, hosts), kills)


def test_y4_moves_are_suggested_after_enough_polls_only():
    suggested = {
        id_: record.source.redirect is not None and record.source.redirect.is_suggested
        for id_, record in run_scenario(moved_hosts()).sources.items()
    }
    assert {id_ for id_, is_suggested in suggested.items() if is_suggested} == {
        "forever.example-360",
        "forever.example-1440",
    }


def too_early(patch):
    patch.setattr(moves, "is_confirmed", lambda redirect, now: redirect.polls >= 3)


def never(patch):
    patch.setattr(moves, "is_confirmed", lambda *_: False)


def other_targets_count(patch):
    real = moves.followed_redirect

    def followed_redirect(source, moved_to, now, *, is_other):
        known = source.redirect
        return real(source, moved_to or (known and known.url), now, is_other=is_other)

    patch.setattr("headwater.rules.outcome.followed_redirect", followed_redirect)


@pytest.mark.parametrize("mutant", [too_early, never, other_targets_count])
def test_y4_a_faulty_engine_is_caught(monkeypatch, mutant):
    mutant(monkeypatch)
    violation = Simulation(moved_hosts()).run().violation
    assert violation is not None
    assert violation.rule == "Y4", violation
