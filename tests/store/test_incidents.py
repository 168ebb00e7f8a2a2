"""Incidents in both databases: what they follow from, and their table (Y1)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headwater.model import Failure, FailureType, Source
from headwater.rules.incidents import Evidence, Incident, ServiceState, incident_changes
from headwater.store import Store
from headwater.store.expired_rows import old_incidents
from headwater.store.incidents import incident_position
from headwater.watch_settings import WatchSettings
from tests.factories import NOW
from tests.store.store_data import DAY, HOUR, a_failure, a_post_of, a_success, stored

HOURS = 24


async def evidence(store: Store) -> Evidence:
    return await store.incidents.evidence(NOW, HOURS)


async def check(store: Store, service: ServiceState | None = None) -> None:
    changes = incident_changes(
        await evidence(store), service or ServiceState(), NOW, failing_hours=HOURS
    )
    await store.incidents.apply(changes)


async def opened(store: Store, owner: str | None = None) -> list[Incident]:
    return list(await store.incidents.page(owner, limit=100, is_open=True))


async def failing(store: Store, kind: str = "timeout", **changes: Any) -> Source:
    source = await stored(store)
    failure = Failure(FailureType.TRANSIENT, kind, "failed")
    outcome = a_failure(source, failure)
    failed: dict[str, Any] = {"failing_since": NOW - DAY, "consecutive_failures": 3}
    await store.record(replace(outcome, source=replace(outcome.source, **failed | changes)))
    return await store.sources.get(source.id)


async def test_y1_failing_and_given_up_sources_are_found_with_their_last_failure(store: Store):
    await stored(store)
    source = await failing(store, "503")
    gone = await failing(store, "404", enabled=False, disabled_reason="Auto-disabled …")
    await failing(store, enabled=False)  # by a person
    await failing(store, failing_since=NOW - HOUR)  # not for long
    found = {one.id: one for one in (await evidence(store)).sources}
    assert set(found) == {source.id, gone.id}
    assert found[source.id].kinds[0] == "503"
    assert found[source.id].failing_since == NOW - DAY
    assert found[gone.id].auto_disabled


async def test_y1_a_missing_selector_is_found_by_the_last_polls(store: Store):
    source = await stored(store, watch=WatchSettings(include=("main",)), last_polled=NOW)
    missing = Failure(FailureType.TRANSIENT, "selector", "nothing matches")
    for count in (1, 2, 3):
        before = await store.sources.get(source.id)
        after = replace(before, consecutive_failures=count, failing_since=NOW)
        await store.record(replace(a_failure(before, missing), source=after))
        found = (await evidence(store)).sources
        assert [one.kinds for one in found] == ([("selector",) * 3] if count == 3 else [])


async def test_y1_a_silent_source_is_found_once_a_later_poll_succeeded(store: Store):
    source = await stored(store)
    posts = [
        a_post_of(source, f"post {n}", published_at=NOW - timedelta(days=10, hours=6 * n))
        for n in range(12)
    ]
    eight_days_ago = NOW - timedelta(days=8)
    first = a_success(source, posts)
    await store.record(replace(first, source=replace(first.source, last_success_at=eight_days_ago)))
    assert not (await evidence(store)).sources  # nobody has looked since
    await store.record(a_success(await store.sources.get(source.id)))
    (found,) = (await evidence(store)).sources
    assert found.silent_since == NOW - timedelta(days=10)
    assert found.pace == "4 a day"
    new = a_post_of(source, "new", published_at=NOW)
    await store.record(a_success(await store.sources.get(source.id), [new]))
    assert not (await evidence(store)).sources


async def test_y1_a_host_with_a_recent_success_does_not_reject(store: Store):
    source = await failing(store, "403")
    assert (await evidence(store)).working == frozenset()
    other = await stored(store, url=source.url + "/2", host=source.host)
    await store.record(a_success(other))
    assert (await evidence(store)).working == {("default", source.host)}


async def test_y1_incidents_open_once_and_close_once_whoever_checks(store: Store):
    source = await failing(store)
    first = await evidence(store)
    twice = [incident_changes(first, ServiceState(), NOW, failing_hours=HOURS) for _ in "ab"]
    made = [await store.incidents.apply(changes) for changes in twice]
    assert [len(one.opened) for one in made] == [1, 0]
    (incident,) = await opened(store)
    assert incident.source_ids == (source.id,)
    assert incident.host == source.host
    await check(store)
    assert await opened(store) == [incident]
    after = await store.sources.get(source.id)
    healthy = replace(after, consecutive_failures=0, failing_since=None)
    await store.record(replace(a_success(after), source=healthy))
    changes = incident_changes(await evidence(store), ServiceState(), NOW, failing_hours=HOURS)
    made = [await store.incidents.apply(changes) for _ in "ab"]
    assert [len(one.closed) for one in made] == [1, 0]
    (closed,) = await store.incidents.page(None, limit=10)
    assert closed == replace(incident, closed_at=NOW)


async def test_y1_an_incident_survives_the_removal_of_its_source_and_user(store: Store):
    source = await failing(store)
    await check(store)
    await store.sources.remove(source.id)
    await check(store)
    (incident,) = await store.incidents.page(None, limit=10)
    assert incident.closed_at == NOW
    assert incident.source_ids == ()


async def test_y2_pages_list_open_incidents_first_the_worst_first(store: Store):
    sources = [await failing(store) for _ in range(3)]
    await check(store, ServiceState(outage=True))
    everything = await store.incidents.page(None, limit=100)
    assert len(everything) == 4
    assert len(await opened(store, "default")) == 3  # an outage is for administrators
    assert await opened(store, "someone else") == []
    await store.sources.remove(sources[0].id)
    await check(store, ServiceState(outage=True))
    by_page: list[Incident] = []
    while True:
        after = None if not by_page else incident_position(by_page[-1])
        page = await store.incidents.page(None, limit=1, after=after)
        if not page:
            break
        by_page += page
    assert [one.id for one in by_page] == [
        one.id for one in await store.incidents.page(None, limit=100)
    ]
    assert [one.closed_at is None for one in by_page] == [True, True, True, False]
    assert len(await store.incidents.page(None, limit=9, is_open=False)) == 1


async def test_y1_closed_incidents_are_deleted_after_90_days(store: Store):
    source = await failing(store)
    await check(store)
    await store.sources.remove(source.id)
    await check(store)
    batch = old_incidents()
    assert await store.clean(batch, NOW + timedelta(days=89), 10) == 0
    assert await store.clean(batch, NOW + timedelta(days=91), 10) == 1
    assert await store.incidents.page(None, limit=10) == []
