"""Counts for monitoring: the SQL, its Python twins, and what it costs (S5)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model import Health, Hold, Source, SourceType
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds
from headwater.rules.schedule import due_at, is_due
from headwater.store import Store
from headwater.store.census import Backlog
from headwater.store.hosts import keep_holds
from tests.store.pieces import DAY, HOUR, MINUTE, NOW, a_source
from tests.store.test_due import policies, watched
from tests.store.test_due_plans import _full_scans, both_plans

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
    found = await store.census.backlog(NOW, policy, PATIENCE)
    due = [
        due_at(source, policy)
        for source in sources
        if is_due(source, NOW, policy) and hold_seconds(source.hold, NOW) <= 0
    ]
    late = [moment for moment in due if moment is not None and moment <= NOW - PATIENCE]
    assert found == Backlog(len(due), len(late), min(late, default=None))


async def test_p9_who_waits_for_a_hold_is_due_but_not_overdue(store: Store):
    long_ago = NOW - DAY
    feed = a_source(url="https://a.example/feed", host="a.example", last_polled=long_ago)
    other = a_source(url="https://b.example/feed", host="b.example", last_polled=long_ago)
    tweets = a_source(type=SourceType.TWITTER, url="ada", host="x.com", last_polled=long_ago)
    await only(store, [feed, other, tweets])
    overdue = (await store.census.backlog(NOW, Policy(), PATIENCE)).overdue
    hold = Hold(NOW + HOUR, NOW, "asked for a pause")
    past = Hold(NOW - MINUTE, NOW - HOUR, "over")
    holds = [("a.example", hold), ("x.com/default", hold), ("b.example", past)]
    await store.database.write(lambda s: keep_holds(s, holds))
    found = await store.census.backlog(NOW, Policy(), PATIENCE)
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
        replace(a_source(), enabled=enabled, consecutive_failures=failures, last_success_at=success)
        for enabled, failures, success in states
    ]
    await only(store, sources)
    wanted = Counter(health_of(source) for source in sources)
    assert await store.census.by_health() == {health: wanted[health] for health in Health}


async def test_s5_counting_what_is_due_reads_the_due_ones_only(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def look() -> None:
        found = await store.census.backlog(NOW, Policy(), PATIENCE)
        assert found.due == 1

    for plan in await both_plans(store, look, monkeypatch):
        for index in (
            "sources_backoff_due",
            "sources_cap_due",
            "sources_last_polled",
            "sources_requested",
        ):
            assert index in plan, plan
        assert _full_scans(plan, kind) == [], plan
