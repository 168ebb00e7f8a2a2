"""Lost feeds, probation and messages in the simulation, and mutants that the checker notices."""

from dataclasses import replace
from datetime import datetime

import pytest

from headwater.engine import webhooks
from headwater.engine.engine import Pace
from headwater.engine.notifier import Notifier
from headwater.errors import NotSent
from headwater.rules import feed_search, outcome, schedule
from headwater.rules.policy import Policy
from headwater.rules.urls import url_host
from headwater.simulation import memory_outbox, memory_searches
from headwater.simulation.checker import Checker
from headwater.simulation.event_trail import TrailStep
from headwater.simulation.faults import FaultKind, PlannedFault, checks_only
from headwater.simulation.memory_outbox import AT_ONCE, DAILY, POSTS
from headwater.simulation.population import Population
from headwater.simulation.simulation_run import Scenario, Simulation
from headwater.simulation.virtual_hosts import DAY_SECONDS, HostBehaviour, VirtualHost
from headwater.simulation.virtual_loop import START
from tests.factories import a_source
from tests.simulation.short_scenarios import HOUR, run_scenario

DAYS = 36
NAMES = ("dead.example", "back.example", "moved-away2.example", "steady.example")
LOST = "https://moved-away2.example/0"


def broken_sources() -> Scenario:
    """Return weeks in which one feed is gone, one comes back, and one is at another address."""
    hosts = {name: VirtualHost(name, 0.5) for name in NAMES}
    hosts["dead.example"] = VirtualHost("dead.example", 0.5, HostBehaviour.STORM, 2 * DAY_SECONDS)
    hosts["back.example"] = VirtualHost(
        "back.example", 0.5, HostBehaviour.STORM, 2 * DAY_SECONDS, 12 * DAY_SECONDS
    )
    sources = tuple(
        a_source(
            id=name,
            url=f"https://{name}/0",
            host=name,
            poll_interval_minutes=60,
            max_failures=3,
            max_backoff_hours=1,
        )
        for name in NAMES
    )
    plan = [
        *checks_only(DAYS),
        PlannedFault(2 * DAY_SECONDS + 5 * HOUR, FaultKind.KILL, 20.0),
        PlannedFault(12 * DAY_SECONDS, FaultKind.STOP, 20.0),
    ]
    plan.sort(key=lambda fault: fault.at)
    population = Population(sources, hosts, deaths={LOST: 3 * DAY_SECONDS})
    policy = Policy(probation=True)
    pace = Pace(tick_seconds=600)
    return Scenario(3, DAYS, population, plan, policy, pace, slow_store=True)


@pytest.fixture(scope="module")
def checker() -> Checker:
    return run_scenario(broken_sources())


def steps_of(checker: Checker, name: str, what: str) -> list[TrailStep]:
    return [one for one in checker.lane(name).steps if one.what == what and one.source_id == name]


def test_y9_a_disabled_source_is_polled_after_1_3_7_14_and_28_days(checker):
    dead = checker.sources["dead.example"].source
    assert dead.disabled_at is not None
    assert not dead.enabled
    polls = [one.wall for one in steps_of(checker, "dead.example", "asked for")]
    after = [at for at in polls if (at - dead.disabled_at).total_seconds() > HOUR]
    days = [(at - dead.disabled_at).total_seconds() / DAY_SECONDS for at in after]
    attempts = sorted({min((1, 3, 7, 14, 28), key=lambda one: abs(one - day)) for day in days})
    assert attempts == [1, 3, 7, 14, 28]


def test_y9_a_success_enables_and_closes_the_incident(checker):
    back = checker.sources["back.example"].source
    assert back.enabled
    assert back.last_success_at is not None
    (incident,) = [one for one in checker.incident_checks.closed if one.host == "back.example"]
    assert incident.closed_at is not None
    assert days_of(incident.closed_at) == pytest.approx(2.1 + 14, abs=0.2)


def days_of(moment: datetime) -> float:
    return (moment - START).total_seconds() / DAY_SECONDS


def test_y5_the_site_of_a_lost_feed_is_searched_once_a_week(checker):
    visits = steps_of(checker, "moved-away2.example", "asked for")
    assert visits
    searched = checker.search_checks.searches
    assert {"dead.example", "back.example", "moved-away2.example"} <= set(searched)
    lost = searched["moved-away2.example"]
    assert lost.pages == [LOST, "https://moved-away2.example/"]
    assert 1 <= len(lost.candidates) <= 3


def test_y3_every_incident_is_reported_once_when_it_begins_and_once_when_it_ends(checker):
    opened, closed = (len(found) for found in both(checker))
    assert opened == 3
    assert closed == 1
    for receiver in (AT_ONCE, DAILY):
        keys = {key for one in checker.message_checks.received[receiver] for key in one.keys}
        assert len(keys) == opened + closed
    assert checker.message_checks.received[POSTS]


def both(checker):
    return checker.incident_checks.opened, checker.incident_checks.closed


def incidents_are_reported_twice(patch):
    real, numbers = memory_outbox.MemoryChannels.publish, iter(range(10**6))
    patch.setattr(memory_outbox, "message_id", lambda *_: f"msg_{next(numbers)}")
    patch.setattr(memory_outbox.MemoryChannels, "publish", lambda *a: (real(*a), real(*a))[0])


def digests_are_sent_at_once(patch):
    patch.setattr(memory_outbox, "due_at", lambda _channel, at: at)


def nothing_is_sent(patch):
    async def run(_deliverer):
        return

    patch.setattr(webhooks.Deliverer, "run", run)


def failed_messages_count_as_sent(patch):
    real = Notifier.send

    async def send(*arguments):
        try:
            await real(*arguments)
        except NotSent:
            return

    patch.setattr(Notifier, "send", send)


def messages_are_given_up_after_one_failure(patch):
    patch.setattr(webhooks, "retry_at", lambda *_: None)


def lost_feeds_are_not_searched_for(patch):
    patch.setattr(memory_searches, "wants_search", lambda _: False)


def lost_feeds_are_searched_for_daily(patch):
    patch.setattr(memory_searches, "MIN_PAUSE", feed_search.MIN_PAUSE / 7)


def too_many_pages_are_visited(patch):
    real = feed_search.new_search

    def new_search(source, now):
        search = real(source, now)
        return replace(search, pages=(source.url, *search.pages))

    patch.setattr(memory_searches, "new_search", new_search)


def too_many_candidates_are_fetched(patch):
    patch.setattr(feed_search, "MAX_CANDIDATES", 9)


def candidates_are_fetched_in_the_lane_of_the_feed(patch):
    patch.setattr(memory_searches, "host_of_step", lambda search: url_host(search.feed_url))


def every_candidate_is_suggested(patch):
    real = feed_search.after_candidate

    def after_candidate(search, now, *, is_feed, title=None):
        del is_feed
        return real(search, now, is_feed=True, title=title)

    patch.setattr("headwater.engine.feed_search.after_candidate", after_candidate)


def probation_begins_too_early(patch):
    patch.setattr(schedule, "PROBATION_DAYS", (0.5, 3, 7, 14, 28))


def probation_never_enables(patch):
    patch.setattr(outcome, "is_due", lambda *_: False)


def probation_is_left_out(patch):
    patch.setattr(schedule, "probation_at", lambda _: None)


MUTANTS = {
    incidents_are_reported_twice: "Y3",
    digests_are_sent_at_once: "Y3",
    failed_messages_count_as_sent: "Y3",
    messages_are_given_up_after_one_failure: "Y3",
    nothing_is_sent: "V2",
    lost_feeds_are_not_searched_for: "Y5",
    lost_feeds_are_searched_for_daily: "Y5",
    too_many_pages_are_visited: "Y5",
    too_many_candidates_are_fetched: "Y5",
    candidates_are_fetched_in_the_lane_of_the_feed: "Y5",
    every_candidate_is_suggested: "Y5",
    probation_begins_too_early: "Y9",
    probation_never_enables: "Y9",
    probation_is_left_out: "S6",  # the source is due and not polled
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_faulty_engine_is_caught(monkeypatch, mutant):
    mutant(monkeypatch)
    violation = Simulation(broken_sources()).run().violation
    assert violation is not None
    assert violation.rule == MUTANTS[mutant], violation
