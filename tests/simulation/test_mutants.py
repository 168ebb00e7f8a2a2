"""The checker can fail: it catches an engine with a defect by the rule that it violates."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from headwater.engine import engine, outage_guard, page_visits, poller
from headwater.engine.hosts.gates import Gates
from headwater.engine.lane_table import Lane
from headwater.engine.lanes import Lanes
from headwater.engine.outage_guard import OutageGuard
from headwater.rules import full_text, outcome, schedule
from headwater.rules.admission import Known
from headwater.simulation import memory_pages, memory_sources, memory_store
from headwater.simulation.faults import FaultKind, PlannedFault
from headwater.simulation.population import generated_population
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_web import NetworkFault
from tests.simulation.short_scenarios import HOUR, obstacle_course, run_scenario

Patch = Callable[[pytest.MonkeyPatch], None]


def without_delay(patch):
    patch.setattr(Gates, "mark_visited", lambda *_: None)


def without_holds(patch):
    patch.setattr(Gates, "hold", lambda *_: None)


def without_delay_after_a_kill(patch):
    patch.setattr(Gates, "allow_for_lost_visit", lambda *_: None)


def two_at_once(patch):
    real = Lanes._run

    def run(self, lane):
        real(self, lane)
        if lane.queue:
            real(self, lane)

    patch.setattr(Lanes, "_run", run)


def backoff_off_by_one(patch):
    real = schedule.effective_minutes
    patch.setattr(schedule, "effective_minutes", lambda i, n, cap: real(i, max(n - 1, 0), cap))


def backoff_without_cap(patch):
    patch.setattr(schedule, "backoff_cap_minutes", lambda *_: 10**6)


def due_too_soon(patch):
    real = schedule.effective_interval
    patch.setattr(schedule, "effective_interval", lambda *args: real(*args) * 0.9)


def disabled_too_late(patch):
    real = outcome._disabled_if_over_limit

    def late(source, policy):
        limit = source.max_failures or policy.max_failures
        return real(replace(source, max_failures=limit + 1), policy)

    patch.setattr(outcome, "_disabled_if_over_limit", late)


def transient_failures_disable(patch):
    real = outcome._with_failure

    def worse(source, failure, now):
        after = real(source, failure, now)
        return replace(after, permanent_failures=source.permanent_failures + 1)

    patch.setattr(outcome, "_with_failure", worse)


def failures_that_stay(patch):
    real = outcome._success_fields

    def well_again(now):
        changes = real(now)
        del changes["consecutive_failures"]
        return changes

    patch.setattr(outcome, "_success_fields", well_again)


def disabled_ones_polled(patch):
    real = schedule.due_at

    def due_at(source, policy):
        return real(replace(source, enabled=True), policy)

    for module in (schedule, memory_sources):
        patch.setattr(module, "due_at", due_at)


def one_due_time_twice(patch):
    real = memory_sources.MemorySources.store

    def store(self, polled):
        if polled.source.id.endswith("1"):
            source = replace(polled.source, last_polled=polled.before.last_polled)
            polled = replace(polled, source=source)
        return real(self, polled)

    patch.setattr(memory_sources.MemorySources, "store", store)


def lanes_that_stop(patch):
    def done(self, task, lane, due, entry):
        del self._running[task]
        lane.sources.pop(due.id, None)

    patch.setattr(Lanes, "_done", done)


def forgotten_sources(patch):
    real = Lanes.queue

    def queue(self, due):
        return real(self, [one for one in due if not one.id.endswith("-1")])

    patch.setattr(Lanes, "queue", queue)


def silence_after_a_clock_set_back(patch):
    async def clamp_future_polls(self, now):
        return 0

    patch.setattr(memory_sources.MemorySources, "clamp_future_polls", clamp_future_polls)


def outages_count(patch):
    patch.setattr(outage_guard, "as_local", lambda failure: failure)


def nothing_reverted(patch):
    async def revert_failures(self, kind):
        return 0

    patch.setattr(OutageGuard, "undo_failures", revert_failures)


def polls_through_an_outage(patch):
    patch.setattr(Lanes, "pause", lambda self: None)


def all_resume_at_once(patch):
    patch.setattr(engine, "spread_seconds", lambda lanes: 0.0)


def polls_that_never_end(patch):
    patch.setattr(Lanes, "probe", lambda self, names: True)


def posts_stored_twice(patch):
    async def nothing_known(*_):
        return Known()

    patch.setattr(memory_store.MemoryStore, "known", nothing_known)


def pages_visited_again(patch):
    def store(self, result):
        self._checks.page_stored(result)
        return True

    patch.setattr(memory_pages.MemoryPageVisits, "store", store)


def pages_forgotten(patch):
    patch.setattr(memory_pages.MemoryPageVisits, "add", lambda *_: None)


def pages_for_ever(patch):
    real = full_text.failed_visit

    def failed_visit(visit, outcome, now):
        result = real(replace(visit, attempts=0), outcome, now)
        retry = result.retry and replace(result.retry, attempts=visit.attempts + 1)
        return replace(result, retry=retry)

    patch.setattr(page_visits, "failed_visit", failed_visit)


def pages_without_delay(patch):
    patch.setattr(full_text, "own_delay", lambda *_: 0)


def nothing_shared(patch):
    real = Lane.pop
    patch.setattr(Lane, "pop", lambda lane: real(lane)[:1])


def a_304_for_all(patch):
    patch.setattr(poller, "shared_request", lambda subjects: subjects[0])


def shared_too_early(patch):
    patch.setattr(poller, "is_due", lambda *_: True)
    real = memory_sources.MemorySources.due

    async def due(self, now, policy):
        keys = {
            (await self.get(one.id)).url: n for n, one in enumerate(await real(self, now, policy))
        }
        sources = [one for one in self.all() if one.url in keys and one.enabled]
        return [
            replace(await self.due_one(one.id, policy), request_key=keys[one.url])
            for one in sources
        ]

    patch.setattr(memory_sources.MemorySources, "due", due)


def the_shortest_delay(patch):
    patch.setattr(poller, "longest_delay", lambda subjects, _: subjects[0].source)


MUTANTS: dict[Patch, str] = {
    without_delay: "P3",
    without_holds: "P9",
    without_delay_after_a_kill: "P3",
    two_at_once: "P1",
    backoff_off_by_one: "S2",
    backoff_without_cap: "S6",
    due_too_soon: "S2",
    disabled_too_late: "F2",
    transient_failures_disable: "F2",
    failures_that_stay: "F2",
    disabled_ones_polled: "S4",
    one_due_time_twice: "S7",
    lanes_that_stop: "S6",
    forgotten_sources: "P1",
    silence_after_a_clock_set_back: "S2",
    outages_count: "F6",
    nothing_reverted: "O2",
    polls_through_an_outage: "O2",
    polls_that_never_end: "O2",
    posts_stored_twice: "D1",
    pages_visited_again: "T4",
    pages_forgotten: "T4",
    pages_for_ever: "T4",
    pages_without_delay: "P3",
    nothing_shared: "Y7",
    a_304_for_all: "Y7",
    shared_too_early: "S2",
    the_shortest_delay: "P3",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_faulty_engine_is_caught(monkeypatch, mutant):
    mutant(monkeypatch)
    violation = Simulation(obstacle_course()).run().violation
    assert violation is not None
    assert violation.rule == MUTANTS[mutant], violation


def test_a_correct_engine_passes():
    assert run_scenario(obstacle_course()).polls > 900


def test_o2_a_burst_after_an_outage_is_caught(monkeypatch):
    all_resume_at_once(monkeypatch)
    population = generated_population(300, Random(1), interval=30)
    plan = [PlannedFault(HOUR, FaultKind.NETWORK, HOUR, NetworkFault.NXDOMAIN)]
    violation = Simulation(Scenario(1, 0.1, population, plan)).run().violation
    assert violation is not None
    assert "hosts in one second after an outage" in violation.what


@pytest.mark.parametrize("kind", [FaultKind.SUSPEND, FaultKind.CLOCK])
def test_o4_a_burst_after_a_sleep_or_a_jump_is_caught(monkeypatch, kind):
    population = generated_population(300, Random(1), interval=30)
    scenario = Scenario(1, 0.1, population, [PlannedFault(HOUR, kind, 8 * HOUR)])
    assert run_scenario(scenario).polls > 300
    monkeypatch.setattr(Lanes, "spread", lambda *_: None)
    violation = Simulation(scenario).run().violation
    assert violation is not None
    assert "hosts in one second after" in violation.what


def test_a_broken_rule_is_reported_with_its_trace(monkeypatch):
    without_delay(monkeypatch)
    one, again = (Simulation(obstacle_course()).run().violation for _ in range(2))
    assert one is not None
    assert one.what.startswith(one.host)
    assert any(f"asked for {one.source_id}" in line for line in one.trace[-2:])
    assert one == again
