"""Counts for monitoring: the SQL agrees with the rules, and its cost (S5)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model import Health, Hold, Source, SourceType
from headwater.operations.users_and_podcasts import add_podcast, add_user
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds
from headwater.rules.schedule import due_at, is_due
from headwater.store import Store
from headwater.store.hosts import keep_holds
from headwater.store.source_counts import DueCounts
from tests.store.store_data import DAY, HOUR, MINUTE, NOW, a_polled_source
from tests.store.test_due_plans import both_plans, full_scans, uses
from tests.store.test_due_sources import policies, watched

PATIENCE = 2 * MINUTE
both = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def only(store: Store, sources: Sequence[Source]) -> None:
    await store.database.write(lambda s: s.execute("DELETE FROM sources"))
    await store.sources.add_many(sources)


@both
@given(sources=st.lists(watched(), max_size=30), policy=policies)
async def test_the_backlog_agrees_with_the_rules(
    store: Store, sources: Sequence[Source], policy: Policy
):
    await only(store, sources)
    found = await store.source_counts.due(NOW, policy, PATIENCE)
    due = [
        due_at(source, policy)
        for source in sources
        if is_due(source, NOW, policy) and hold_seconds(source.hold, NOW) <= 0
    ]
    late = [moment for moment in due if moment is not None and moment <= NOW - PATIENCE]
    assert found == DueCounts(len(due), len(late), min(late, default=None))


async def test_s3_a_source_whose_backoff_is_over_was_due_since_its_cap(store: Store):
    failing = a_polled_source(
        poll_interval_minutes=60, consecutive_failures=5, last_polled=NOW - 3 * DAY
    )
    await only(store, [failing, replace(a_polled_source(), enabled=False)])
    policy = Policy(max_backoff_hours=6)  # the backoff of 32 hours is over, too
    found = await store.source_counts.due(NOW, policy, PATIENCE)
    assert found == DueCounts(1, 1, NOW - 3 * DAY + 6 * HOUR)


async def test_p9_a_source_that_waits_for_a_hold_is_due_but_not_overdue(store: Store):
    long_ago = NOW - DAY
    feed = a_polled_source(url="https://a.example/feed", host="a.example", last_polled=long_ago)
    other = a_polled_source(url="https://b.example/feed", host="b.example", last_polled=long_ago)
    tweets = a_polled_source(type=SourceType.TWITTER, url="ada", host="x.com", last_polled=long_ago)
    await only(store, [feed, other, tweets])
    overdue = (await store.source_counts.due(NOW, Policy(), PATIENCE)).overdue
    hold = Hold(NOW + HOUR, NOW, "asked for a pause")
    past = Hold(NOW - MINUTE, NOW - HOUR, "over")
    holds = [("a.example", hold), ("x.com/default", hold), ("b.example", past)]
    await store.database.write(lambda s: keep_holds(s, holds))
    found = await store.source_counts.due(NOW, Policy(), PATIENCE)
    assert (overdue, found.due, found.overdue) == (3, 3, 1)


@both
@given(
    states=st.lists(
        st.tuples(st.booleans(), st.sampled_from([0, 1, 9]), st.sampled_from([None, NOW])),
        max_size=20,
    )
)
async def test_counts_by_health_agree_with_the_rule(store: Store, states: list[tuple[Any, ...]]):
    sources = [
        replace(
            a_polled_source(),
            enabled=enabled,
            consecutive_failures=failures,
            last_success_at=success,
        )
        for enabled, failures, success in states
    ]
    await only(store, sources)
    wanted = Counter(health_of(source) for source in sources)
    assert await store.source_counts.by_health() == {health: wanted[health] for health in Health}


async def test_s5_counting_what_is_due_reads_the_due_ones_only(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def query() -> None:
        found = await store.source_counts.due(NOW, Policy(), PATIENCE)
        assert found.due == 1

    for plan in await both_plans(store, query, monkeypatch):
        for index in (
            "sources_backoff_due",
            "sources_cap_due",
            "sources_last_polled",
            "sources_requested",
        ):
            assert uses(plan, index), plan
        assert full_scans(plan, kind) == [], plan


async def test_backlogs_are_reported_owner_by_owner(store: Store):
    bob, theirs = await a_user_with_podcast(store, "bob")
    late, fresh = {"last_polled": NOW - DAY}, {"last_polled": NOW}
    await only(
        store,
        [
            a_polled_source(**late),
            a_polled_source(**fresh),
            a_polled_source(podcast_id=theirs, **late),
        ],
    )
    found = await store.source_counts.due_by_owner(NOW, Policy(), PATIENCE)
    together = await store.source_counts.due(NOW, Policy(), PATIENCE)
    assert {owner: backlog.due for owner, backlog in found.items()} == {"default": 1, bob: 1}
    assert sum(backlog.overdue for backlog in found.values()) == together.overdue == 2
    assert found[bob].oldest_overdue_at == together.oldest_overdue_at


async def test_counts_by_podcast_add_up_to_all(store: Store):
    bob, theirs = await a_user_with_podcast(store, "bob")
    await only(
        store,
        [
            a_polled_source(),
            a_polled_source(consecutive_failures=2),
            a_polled_source(podcast_id=theirs, enabled=False),
        ],
    )
    found = {tally.podcast_id: tally for tally in await store.source_counts.by_podcast()}
    assert (found[theirs].owner, found["default"].owner) == (bob, "default")
    assert found[theirs].by_health[Health.DISABLED] == 1
    assert found["default"].by_health[Health.FAILING] == 1
    whole = await store.source_counts.by_health()
    assert whole == {h: sum(tally.by_health[h] for tally in found.values()) for h in Health}


async def test_hosts_of_enabled_sources_are_counted_by_owner(store: Store):
    bob, theirs = await a_user_with_podcast(store, "bob")
    await only(
        store,
        [
            a_polled_source(host="a.example"),
            a_polled_source(host="a.example", enabled=False),
            a_polled_source(host="a.example", podcast_id=theirs),
            a_polled_source(host="b.example"),
        ],
    )
    found = await store.source_counts.on_hosts(["a.example", "c.example"])
    assert found == {"a.example": {"default": 1, bob: 1}}
    assert await store.source_counts.on_hosts([]) == {}


async def test_u2_whether_sources_exist_is_reported_by_owner(store: Store):
    bob, theirs = await a_user_with_podcast(store, "bob")
    await only(store, [])
    assert not await store.source_counts.any_sources(None)
    await only(store, [a_polled_source()])
    assert await store.source_counts.any_sources(None)
    assert await store.source_counts.any_sources("default")
    assert not await store.source_counts.any_sources(bob)
    await only(store, [a_polled_source(podcast_id=theirs)])
    assert await store.source_counts.any_sources(bob)


async def a_user_with_podcast(store: Store, name: str) -> tuple[str, str]:
    """Add a user with a podcast; return both ids."""
    user = await add_user(store, name, NOW)
    return user.id, (await add_podcast(store, user, name, NOW)).id
