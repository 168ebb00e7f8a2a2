"""Due sources: the SQL agrees with the rules, and its cost (S2, S3, S5, S9)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import NotFound
from headwater.model import Hold, Outcome, OutcomeKind, SealedSecret, Source, SourceType
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds
from headwater.rules.schedule import due_at, effective_interval, is_due
from headwater.store import Store
from headwater.store.sources import SourceFilter
from headwater.watch_settings import WatchSettings
from tests.store.store_data import DAY, HOUR, MINUTE, NOW, a_polled_source, stored

MS = timedelta(milliseconds=1)
POLICY = Policy()


@st.composite
def watched(draw: st.DrawFn) -> Source:
    """A source in any scheduling state, often within a millisecond of being due."""
    own_hold = st.builds(
        lambda until, set_at: Hold(NOW + until, NOW + set_at, "busy"),
        st.sampled_from([-HOUR, -MS, timedelta(0), MS, HOUR]),
        st.sampled_from([-HOUR, timedelta(0), HOUR]),
    )
    source = a_polled_source(
        enabled=draw(st.booleans() | st.just(True)),
        poll_interval_minutes=draw(st.sampled_from([1, 30, 60, 1440, 525_600])),
        consecutive_failures=draw(st.sampled_from([0, 0, 1, 2, 5, 26, 27, 28, 63, 64, 10**9])),
        max_backoff_hours=draw(st.sampled_from([None, None, 1, 6, 24, 1_000_000])),
        requested_at=draw(st.sampled_from([None, None, None, NOW - DAY, NOW])),
        hold=draw(st.none() | own_hold),
    )
    if not source.enabled and draw(st.booleans()):  # auto-disabled (Y9)
        days, offset = draw(st.integers(0, 30)), draw(st.sampled_from([-MS, timedelta(0), MS]))
        source = replace(source, disabled_at=NOW - days * DAY + offset)
    offsets = st.sampled_from([-DAY, -MS, timedelta(0), MS, 4 * 1000 * MS, DAY])
    ages = st.one_of(
        st.none(),
        offsets,
        offsets.map(lambda offset: effective_interval(source, draw(policies)) + offset),
        st.integers(-(10**9), 10**11).map(lambda ms: ms * MS),
    )
    age = draw(ages)
    return replace(source, last_polled=None if age is None else NOW - age)


policies = st.builds(
    Policy, max_backoff_hours=st.sampled_from([1, 24, 1_000_000]), probation=st.booleans()
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sources=st.lists(watched(), max_size=30), policy=policies)
async def test_s2_the_due_query_agrees_with_the_rule(
    store: Store, sources: Sequence[Source], policy: Policy
):
    await store.database.write(lambda s: s.execute("DELETE FROM sources"))
    await store.sources.add_many(sources)

    found = await store.sources.due(NOW, policy)

    wanted = {
        source.id: due_at(source, policy)
        for source in sources
        if is_due(source, NOW, policy) and hold_seconds(source.hold, NOW) <= 0
    }
    assert {due.id: due.overdue_since for due in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("changes", "interval"),
    [
        ({"poll_interval_minutes": 30}, 30 * MINUTE),
        ({"poll_interval_minutes": 60, "consecutive_failures": 1}, 2 * HOUR),
        ({"poll_interval_minutes": 60, "consecutive_failures": 5}, DAY),
        ({"poll_interval_minutes": 60, "consecutive_failures": 10**9}, DAY),
        ({"consecutive_failures": 10, "max_backoff_hours": 6}, 6 * HOUR),
        ({"poll_interval_minutes": 2880, "consecutive_failures": 3}, 2 * DAY),
        (
            {"poll_interval_minutes": 600, "consecutive_failures": 3, "max_backoff_hours": 1},
            10 * HOUR,
        ),
    ],
)
async def test_s3_a_source_is_due_at_the_exact_millisecond(
    store: Store, changes: dict[str, Any], interval: timedelta
):
    source = await stored(store, last_polled=NOW, **changes)

    assert await store.sources.due(NOW + interval - MS, POLICY) == []
    assert [due.id for due in await store.sources.due(NOW + interval, POLICY)] == [source.id]


async def test_s2_a_due_source_has_what_its_lane_needs(store: Store):
    source = await stored(store, poll_delay_seconds=7)
    tweets = await stored(store, type=SourceType.TWITTER, url="@ann", host="x.com")
    nowhere = await stored(store, url="nonsense", host=None, requested_at=NOW - MINUTE)

    due = {found.id: found for found in await store.sources.due(NOW, POLICY)}

    assert due[source.id].lane == source.host
    assert due[source.id].delay_seconds == 7
    assert not due[source.id].requested
    assert due[tweets.id].lane == "x.com/default"
    assert due[nowhere.id].lane is None
    assert due[nowhere.id].requested
    assert due[nowhere.id].overdue_since == NOW - MINUTE


async def test_s9_a_request_makes_even_a_disabled_source_due(store: Store):
    off = await stored(store, enabled=False, last_polled=NOW)
    fresh = await stored(store, last_polled=NOW)

    await store.sources.request([off.id, fresh.id], NOW)

    assert {due.id for due in await store.sources.due(NOW, POLICY)} == {off.id, fresh.id}
    assert {due.id for due in await store.sources.requested(NOW, POLICY)} == {off.id, fresh.id}
    assert await store.sources.requested(NOW, POLICY, since=NOW + MS) == []


async def test_s9_a_new_key_requests_the_enabled_x_sources_of_its_owner(store: Store):
    tweets = await stored(store, type=SourceType.TWITTER, url="@ann", last_polled=NOW)
    off = await stored(store, type=SourceType.TWITTER, url="@bob", enabled=False)
    feed = await stored(store, last_polled=NOW)

    fine = await stored(
        store, type=SourceType.TWITTER, url="@eve", last_polled=NOW, first_poll_done=True
    )
    sealed = SealedSecret("k", b"nonce", b"text")
    assert await store.api_keys.set("default", "x", sealed, NOW) == 1

    assert (await store.sources.get(fine.id)).requested_at is None
    assert (await store.sources.get(tweets.id)).requested_at == NOW
    assert (await store.sources.get(off.id)).requested_at is None
    assert (await store.sources.get(feed.id)).requested_at is None


async def test_p9_a_source_on_hold_is_not_due_even_if_requested(store: Store):
    hold = Hold(until=NOW + HOUR, set_at=NOW, reason="429")
    held = await stored(store, last_polled=NOW - DAY, requested_at=NOW, hold=hold)

    assert await store.sources.due(NOW, POLICY) == []
    assert await store.sources.requested(NOW, POLICY) == []
    assert [due.id for due in await store.sources.due(NOW + HOUR, POLICY)] == [held.id]


async def test_one_source_can_be_read_due_or_not(store: Store):
    source = await stored(store, last_polled=NOW, poll_interval_minutes=30)

    due = await store.sources.due_one(source.id, POLICY)

    assert due.overdue_since == NOW + 30 * MINUTE
    with pytest.raises(NotFound):
        await store.sources.due_one("nobody", POLICY)


async def test_s2_polls_in_the_future_are_corrected_once(store: Store):
    tolerated = await stored(store, last_polled=NOW + timedelta(seconds=5))
    future = await stored(store, last_polled=NOW + timedelta(seconds=5) + MS)
    failing = await stored(store, last_polled=NOW + DAY, consecutive_failures=3)
    capped = await stored(store, last_polled=NOW + DAY, consecutive_failures=3, max_backoff_hours=2)
    past = await stored(store, last_polled=NOW - DAY)

    assert await store.sources.clamp_future_polls(NOW) == 3
    assert await store.sources.clamp_future_polls(NOW) == 0

    for moved in (future, failing, capped):
        assert await store.sources.get(moved.id) == replace(moved, last_polled=NOW)
    for kept in (tolerated, past):
        assert await store.sources.get(kept.id) == kept


async def test_p6_jitter_is_drawn_once_and_only_for_enabled_never_polled_sources(store: Store):
    stranger = await stored(store, last_polled=None)
    await stored(store, last_polled=None, enabled=False)
    await stored(store)

    assert await store.sources.without_contact(10) == [stranger]
    await store.sources.set_contact([replace(stranger, last_polled=NOW - MINUTE)])
    await store.sources.set_contact([replace(stranger, last_polled=NOW)])

    assert (await store.sources.get(stranger.id)).last_polled == NOW - MINUTE
    assert await store.sources.without_contact(10) == []


async def test_h4_an_unreadable_row_hides_no_other(store: Store):
    odd, healthy = await stored(store, last_polled=None), await stored(store, last_polled=None)
    sql = "UPDATE sources SET last_failure_type = 'gopher' WHERE id = :id"
    await store.database.write(lambda s: s.execute(sql, {"id": odd.id}))
    assert [one.id for one in await store.sources.without_contact(10)] == [healthy.id]
    found = await store.sources.find(SourceFilter(), limit=10)
    assert [one.id for one in found] == [healthy.id]


async def test_y7_due_sources_with_the_same_type_and_address_have_the_same_request_key(
    store: Store,
):
    url, other = "https://a.example/feed", "https://a.example/other"
    watch = WatchSettings(include=("main",))
    changes: dict[str, dict[str, Any]] = {
        "one": {"url": url},
        "two": {"url": url, "poll_delay_seconds": 5},
        "page": {"url": url, "type": SourceType.WEBSITE},
        "part": {"url": url, "type": SourceType.WEBSITE, "watch": watch},
        "alone": {"url": other},
        "x1": {"url": "@name", "type": SourceType.TWITTER, "host": None},
        "x2": {"url": "@name", "type": SourceType.TWITTER, "host": None},
    }
    for id_, change in changes.items():
        await stored(store, **{"id": id_, "host": "a.example", "last_polled": NOW - DAY} | change)
    due = {one.id: one for one in await store.sources.due(NOW, POLICY)}
    keys = {id_: one.request_key for id_, one in due.items()}
    assert keys["one"] == keys["two"] is not None
    assert len({keys["one"], keys["page"], keys["part"]}) == 3
    assert keys["alone"] is keys["x1"] is keys["x2"] is None
    assert (await store.sources.due_one("alone", POLICY)).request_key is not None


async def test_y7_polls_without_a_request_of_their_own_are_counted_by_host(store: Store):
    sources = [await stored(store, id=f"s{n}", host="a.example") for n in range(3)]
    for _ in range(2):
        for number, source in enumerate(sources):
            current = await store.sources.get(source.id)
            outcome = Outcome(
                current, current, OutcomeKind.UNCHANGED, NOW, status=304, shared=number > 0
            )
            assert (await store.record(outcome)).recorded
    found = await store.hosts.shared_requests(["a.example", "b.example"])
    assert (found["a.example"], found["b.example"]) == (4, 0)
