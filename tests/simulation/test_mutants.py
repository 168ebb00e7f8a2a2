"""The checker can fail: an engine with a fault in it is caught, by the rule that it breaks."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from headwater.engine import engine, outage, tick
from headwater.engine.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.engine.outage import OutageGuard
from headwater.rules import outcome, schedule
from headwater.simulation import memory_sources, memory_store
from headwater.simulation.population import invented
from headwater.simulation.run import Scenario, Simulation
from headwater.simulation.weather import Event, Happening
from headwater.simulation.web import Trouble
from tests.simulation.stories import HOUR, obstacle_course, played

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
    real = outcome._disabled_if_hopeless

    def late(source, policy):
        limit = source.max_failures or policy.max_failures
        return real(replace(source, max_failures=limit + 1), policy)

    patch.setattr(outcome, "_disabled_if_hopeless", late)


def transient_failures_disable(patch):
    real = outcome._worse

    def worse(source, failure, now):
        after = real(source, failure, now)
        return replace(after, permanent_failures=source.permanent_failures + 1)

    patch.setattr(outcome, "_worse", worse)


def failures_that_stay(patch):
    real = outcome._well_again

    def well_again(now):
        changes = real(now)
        del changes["consecutive_failures"]
        return changes

    patch.setattr(outcome, "_well_again", well_again)


def disabled_ones_polled(patch):
    real = schedule.due_at

    def due_at(source, policy):
        return real(replace(source, enabled=True), policy)

    for module in (schedule, memory_sources):
        patch.setattr(module, "due_at", due_at)


def one_due_time_twice(patch):
    real = memory_sources.MemorySources.store

    def store(self, told):
        before = told.before.last_polled
        forgetful = told.source.id.endswith("1")
        return real(self, replace(told, source=replace(told.source, last_polled=before))
                    if forgetful else told)  # fmt: skip

    patch.setattr(memory_sources.MemorySources, "store", store)


def lanes_that_stop(patch):
    def done(self, task, lane, due):
        del self._running[task]
        lane.sources.pop(due.id, None)

    patch.setattr(Lanes, "_done", done)


def forgotten_sources(patch):
    real = tick.Ticker._hand_over

    async def hand_over(self, due):
        return await real(self, [one for one in due if not one.id.endswith("-1")])

    patch.setattr(tick.Ticker, "_hand_over", hand_over)


def silence_after_a_clock_set_back(patch):
    async def bring_back(self, now):
        return 0

    patch.setattr(memory_sources.MemorySources, "bring_back", bring_back)


def outages_count(patch):
    patch.setattr(outage, "as_local", lambda failure: failure)


def nothing_given_back(patch):
    async def give_back(self, kind):
        return 0

    patch.setattr(OutageGuard, "give_back", give_back)


def polls_through_an_outage(patch):
    patch.setattr(Lanes, "pause", lambda self: None)


def all_back_at_once(patch):
    patch.setattr(engine, "spread_seconds", lambda lanes: 0.0)


def polls_that_never_end(patch):
    patch.setattr(Lanes, "probe", lambda self, names: True)


def posts_stored_twice(patch):
    patch.setattr(memory_store.MemoryPosts, "insert", lambda *_: None)


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
    forgotten_sources: "S6",
    silence_after_a_clock_set_back: "S2",
    outages_count: "F6",
    nothing_given_back: "O2",
    polls_through_an_outage: "O2",
    polls_that_never_end: "O2",
    posts_stored_twice: "D1",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_faulty_engine_is_caught(monkeypatch, mutant):
    mutant(monkeypatch)
    violation = Simulation(obstacle_course()).run().violation
    assert violation is not None
    assert violation.rule == MUTANTS[mutant], violation


def test_a_sound_engine_is_not():
    assert played(obstacle_course()).polls > 900


def test_o2_a_burst_after_an_outage_is_caught(monkeypatch):
    all_back_at_once(monkeypatch)
    people = invented(300, Random(1), interval=30)
    plan = [Happening(HOUR, Event.TROUBLE, HOUR, Trouble.DENIAL)]
    violation = Simulation(Scenario(1, 0.1, people, plan)).run().violation
    assert violation is not None
    assert "hosts in one second after an outage" in violation.what


@pytest.mark.parametrize("event", [Event.SUSPEND, Event.CLOCK])
def test_o4_a_burst_after_a_sleep_or_a_jump_is_caught(monkeypatch, event):
    people = invented(300, Random(1), interval=30)
    scenario = Scenario(1, 0.1, people, [Happening(HOUR, event, 8 * HOUR)])
    assert played(scenario).polls > 300
    monkeypatch.setattr(Lanes, "spread", lambda *_: None)
    violation = Simulation(scenario).run().violation
    assert violation is not None
    assert "hosts in one second after" in violation.what


def test_a_broken_rule_comes_with_its_story(monkeypatch):
    without_delay(monkeypatch)
    one, again = (Simulation(obstacle_course()).run().violation for _ in range(2))
    assert one is not None
    assert one.what.startswith(one.host)
    assert any(f"asked for {one.source_id}" in line for line in one.story[-2:])
    assert one == again
