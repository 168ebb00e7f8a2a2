"""Failure storms in both databases: they last until a source of the host succeeds (Y6)."""

from dataclasses import replace
from datetime import timedelta

from headwater.model import FailureType
from headwater.operations.source_views import explanation_of
from headwater.store import Store
from headwater.store.storms import Storm
from tests.factories import a_policy
from tests.store.store_data import HOUR, MINUTE, NOW, a_success, stored

HOST = "host.example"


async def test_y6_a_storm_lasts_until_a_source_of_the_host_succeeds(store: Store):
    source = await stored(store, host=HOST, last_success_at=NOW - HOUR)
    assert await store.storms.lasting(HOST) is None
    await store.storms.begin(HOST, "404", NOW - MINUTE)
    assert await store.storms.lasting(HOST) == Storm(HOST, "404", NOW - MINUTE)
    assert await store.storms.lasting("other.example") is None
    await store.record(a_success(source))
    assert await store.storms.lasting(HOST) is None
    later = NOW + MINUTE
    await store.storms.begin(HOST, "403", later)  # the next one
    assert await store.storms.lasting(HOST) == Storm(HOST, "403", later)


async def test_y6_other_polled_sources_are_counted_up_to_a_limit(store: Store):
    recent = {"host": HOST, "first_poll_done": True, "last_polled": NOW - timedelta(minutes=30)}
    failing, *_ = [await stored(store, **recent) for _ in range(4)]
    await stored(store, **recent | {"last_polled": NOW - 2 * HOUR})
    await stored(store, **recent | {"first_poll_done": False})
    await stored(store, **recent | {"host": "other.example"})
    counted = store.storms.others_polled
    assert await counted(HOST, NOW, [failing.url], limit=9) == 3
    assert await counted(HOST, NOW, [failing.url], limit=2) == 2


async def test_y6_explain_names_the_storm(store: Store):
    source = await stored(store, host=HOST, consecutive_failures=2, first_poll_done=True)
    await store.storms.begin(HOST, "404", NOW)
    found = await explanation_of(store, source.id, NOW, a_policy())
    (step,) = [step for step in found.steps if step.what == "failure storm"]
    assert "(404)" in step.detail
    healthy = await stored(store, host=HOST)
    steps = (await explanation_of(store, healthy.id, NOW, a_policy())).steps
    assert "failure storm" not in [step.what for step in steps]


async def test_y6_sources_without_a_success_since_the_last_storm_are_not_counted(store: Store):
    polled = {"host": HOST, "first_poll_done": True, "last_polled": NOW}
    for in_storm in (True, False, True):
        await stored(store, **polled, in_storm=in_storm)
    assert await store.storms.others_polled(HOST, NOW, ["x"], limit=9) == 1


async def test_y6_when_a_storm_is_over_its_failing_sources_are_requested_once(store: Store):
    state = {"host": HOST, "first_poll_done": True, "last_success_at": NOW - HOUR}
    failing = {**state, "consecutive_failures": 6, "last_failure_type": FailureType.PERMANENT}
    await stored(store, **failing)  # it was not polled in the storm
    failing |= {"in_storm": True}
    lost = await stored(store, **failing)
    await stored(store, **failing, enabled=False)
    await stored(store, **failing | {"host": "other.example"})
    await stored(store, **failing | {"last_failure_type": FailureType.TRANSIENT})
    first = await stored(store, **state)
    storms = store.storms
    await storms.begin(HOST, "404", NOW - MINUTE)
    assert not await storms.is_any_over(NOW)
    assert await storms.finish(NOW) == []
    await store.record(a_success(first))
    assert await storms.is_any_over(NOW)
    assert await storms.finish(NOW) == [HOST]
    due = await store.sources.requested(NOW, a_policy())
    assert [one.id for one in due] == [lost.id]
    assert not await storms.is_any_over(NOW)
    assert await storms.finish(NOW) == []


async def test_y6_a_storm_that_is_over_does_not_begin_again_with_a_clock_set_back(store: Store):
    source = await stored(store, host=HOST, first_poll_done=True)
    await store.storms.begin(HOST, "404", NOW - MINUTE)
    await store.record(a_success(source))
    earlier = NOW - 2 * HOUR
    await store.storms.finish(NOW)
    await store.storms.finish(earlier)
    assert await store.storms.lasting(HOST) is None


async def test_o4_a_clock_set_back_does_not_prolong_a_storm(store: Store):
    source = await stored(store, host=HOST, last_success_at=NOW - MINUTE)
    await store.storms.begin(HOST, "404", NOW)
    earlier = NOW - 2 * HOUR
    assert await store.storms.is_any_over(earlier)
    assert await store.storms.finish(earlier) == []  # the old success does not end it
    assert await store.storms.lasting(HOST) == Storm(HOST, "404", earlier)
    assert not await store.storms.is_any_over(earlier)
    success = a_success(source)
    await store.record(
        replace(success, source=replace(success.source, last_success_at=earlier + MINUTE))
    )
    assert await store.storms.finish(earlier + MINUTE) == [HOST]


async def test_o4_a_success_with_a_time_in_the_future_does_not_end_a_storm(store: Store):
    await stored(store, host=HOST, last_success_at=NOW + HOUR)
    await store.storms.begin(HOST, "404", NOW)
    assert await store.storms.lasting(HOST) == Storm(HOST, "404", NOW)
    assert await store.storms.finish(NOW + MINUTE) == []
