"""PUT and PATCH of sources, with all effects of an edit (F5)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.model import FailureType, Source, Validators
from tests.api.conftest import DEFAULT, Served
from tests.store.store_data import HOUR, NOW, a_polled_source

SOURCES = f"{DEFAULT}/sources"
FAILED: dict[str, Any] = {
    "consecutive_failures": 5,
    "permanent_failures": 5,
    "permanent_kind": "404",
    "last_failure_type": FailureType.PERMANENT,
    "last_error": "HTTP 404 Not Found",
    "failing_since": NOW - HOUR,
    "enabled": False,
    "disabled_reason": "Auto-disabled after 5 consecutive 404 errors",
}
SEEN: dict[str, Any] = {
    "last_seen_id": "2026-02-16T08:00:00.000Z",
    "seen_keys": ("a", "b"),
    "validators": Validators('"v1"', "Mon, 16 Feb 2026 07:00:00 GMT"),
    "body_hash": "b" * 64,
    "last_success_at": NOW - HOUR,
    "first_poll_done": True,
}
CLEAN = {
    "consecutiveFailures": 0,
    "lastFailureType": None,
    "lastError": None,
    "failingSince": None,
    "disabledReason": None,
}


async def stored(served: Served, **state: Any) -> Source:
    source = a_polled_source(**state)
    await served.app.store.sources.add_many([source])
    return source


async def current(served: Served, source: Source) -> Source:
    return await served.app.store.sources.get(source.id)


async def test_patch_changes_the_given_fields_only(served_by_each: Served):
    served = served_by_each
    source = await stored(served, label="News", poll_delay_seconds=5, **SEEN)
    path = f"{SOURCES}/{source.id}"
    before = (await served.get(path)).json
    changed = await served.patch(path, {"pollIntervalMinutes": 60})
    assert changed.status == 200
    expected = before | {"pollIntervalMinutes": 60, "effectiveIntervalMinutes": 60}
    assert changed.json | {"nextPollAt": None} == expected | {"nextPollAt": None}
    assert await current(served, source) == replace(source, poll_interval_minutes=60)


async def test_an_empty_patch_changes_nothing(served_by_each: Served):
    source = await stored(served_by_each, **SEEN)
    assert (await served_by_each.patch(f"{SOURCES}/{source.id}", {})).status == 200
    assert await current(served_by_each, source) == source


async def test_patch_with_null_resets_an_option_to_its_default(served_by_each: Served):
    options = {
        "label": "News",
        "poll_delay_seconds": 5,
        "max_failures": 3,
        "max_backoff_hours": 2,
        "late_entry_hours": 1,
        "aggregate": True,
    }
    source = await stored(served_by_each, **options)
    nulls = {
        "label": None,
        "pollDelaySeconds": None,
        "maxFailures": None,
        "maxBackoffHours": None,
        "lateEntryHours": None,
        "aggregate": None,
    }
    changed = (await served_by_each.patch(f"{SOURCES}/{source.id}", nulls)).json
    assert {name: changed[name] for name in nulls} == nulls
    plain = a_polled_source(id=source.id, url=source.url, host=source.host)
    assert await current(served_by_each, source) == plain


@pytest.mark.parametrize(
    "name", ["type", "url", "enabled", "pollIntervalMinutes", "includeHistory"]
)
async def test_null_is_refused_for_required_fields(served: Served, name: str):
    source = await stored(served)
    path = f"{SOURCES}/{source.id}"
    whole = (await served.get(path)).json
    for answer in (
        await served.patch(path, {name: None}),
        await served.put(path, whole | {name: None}),
    ):
        assert answer.status == 422
        assert answer.json["errors"][0]["field"] == name
    assert await current(served, source) == source


async def test_an_invalid_source_is_422_and_changes_nothing(served: Served):
    source = await stored(served)
    path = f"{SOURCES}/{source.id}"
    cases = [
        ({"url": "ftp://example.org/feed"}, "url"),
        ({"type": "twitter"}, "url"),  # its current URL is no X user
        ({"type": "podcast"}, "type"),
        ({"pollIntervalMinutes": 0}, "pollIntervalMinutes"),
        ({"label": "a\0"}, "label"),
        ({"interval": 5}, "interval"),
        ({"pollIntervalMinutes": 5, "url": " "}, "url"),
    ]
    for body, field in cases:
        answer = await served.patch(path, body)
        assert answer.status == 422, body
        assert answer.json["errors"][0]["field"] == field, body
    assert (await served.put(path, {"url": source.url})).json["errors"][0]["field"] == "type"
    assert (await served.put(path, {"type": "rss"})).json["errors"][0]["field"] == "url"
    assert (await served.patch(path, data=b"[]")).status == 422
    assert await current(served, source) == source


async def test_put_resets_omitted_fields_to_their_defaults_but_enabled(served_by_each: Served):
    served = served_by_each
    options = {
        "label": "News",
        "poll_interval_minutes": 5,
        "poll_delay_seconds": 5,
        "max_failures": 3,
        "max_backoff_hours": 2,
        "late_entry_hours": 1,
        "aggregate": True,
        "include_history": True,
    }
    for enabled in (True, False):
        source = await stored(served, enabled=enabled, **options)
        body = {"type": "rss", "url": source.url}
        answer = await served.put(f"{SOURCES}/{source.id}", body)
        assert answer.status == 200
        assert await current(served, source) == replace(
            a_polled_source(id=source.id, url=source.url, host=source.host), enabled=enabled
        )


async def test_the_body_of_get_is_accepted_by_put_and_read_only_fields_are_ignored(
    served_by_each: Served,
):
    served = served_by_each
    source = await stored(served, label="News", **SEEN)
    path = f"{SOURCES}/{source.id}"
    whole = (await served.get(path)).json
    edited = whole | {
        "label": "New",
        "podcastId": "another",
        "id": "another",
        "createdAt": "1999-01-01T00:00:00.000Z",
        "lastSeenId": None,
        "health": "failing",
        "postCount": 99,
    }
    answer = await served.put(path, edited)
    assert (answer.status, answer.json) == (200, whole | {"label": "New"})
    assert await current(served, source) == replace(source, label="New")


async def test_f5_enabling_clears_the_failures_and_requests_a_poll(served_by_each: Served):
    served = served_by_each
    for call in (served.patch, served.put):
        source = await stored(served, **FAILED, **SEEN)
        path = f"{SOURCES}/{source.id}"
        whole = (await served.get(path)).json
        assert whole["health"] == "disabled"
        body = {"enabled": True} if call == served.patch else whole | {"enabled": True}
        changed = (await call(path, body)).json
        assert {name: changed[name] for name in CLEAN} == CLEAN
        assert (changed["enabled"], changed["health"]) == (True, "ok")
        assert changed["nextPollAt"] is not None
        after = await current(served, source)
        assert (after.permanent_failures, after.permanent_kind) == (0, None)
        assert after.requested_at is not None
        assert after.generation == source.generation + 1
        assert (after.last_seen_id, after.validators) == (source.last_seen_id, source.validators)


async def test_f5_another_url_or_type_also_resets_validators_and_last_seen(served_by_each: Served):
    served = served_by_each
    for change in ({"url": "https://elsewhere.example/feed"}, {"type": "website"}):
        source = await stored(served, **FAILED | {"enabled": True}, **SEEN)
        changed = (await served.patch(f"{SOURCES}/{source.id}", change)).json
        assert {name: changed[name] for name in (CLEAN | change)} == CLEAN | change
        assert changed["lastSeenId"] is None
        after = await current(served, source)
        assert (after.seen_keys, after.validators, after.body_hash) == ((), Validators(), None)
        assert after.first_poll_done  # stored posts stay known: it is no first poll again
        assert after.requested_at is not None
    assert after.host == source.host
    assert changed["host"] == source.host


async def test_f5_the_same_url_with_blanks_around_it_is_unchanged(served_by_each: Served):
    source = await stored(served_by_each, **SEEN)
    path = f"{SOURCES}/{source.id}"
    assert (await served_by_each.patch(path, {"url": f"  {source.url} "})).status == 200
    assert await current(served_by_each, source) == source


async def test_f5_switching_history_on_requests_a_poll(served_by_each: Served):
    served = served_by_each
    source = await stored(served, **SEEN)
    path = f"{SOURCES}/{source.id}"
    assert (await served.patch(path, {"includeHistory": True})).json["lastSeenId"] is None
    after = await current(served, source)
    assert (after.seen_keys, after.validators, after.body_hash) == ((), Validators(), None)
    assert after.requested_at is not None
    assert (await served.patch(path, {"includeHistory": False})).status == 200
    again = await current(served, source)
    assert again == replace(after, include_history=False)


async def test_f5_disabling_by_hand_leaves_no_reason(served_by_each: Served):
    source = await stored(served_by_each)
    changed = (await served_by_each.patch(f"{SOURCES}/{source.id}", {"enabled": False})).json
    assert (changed["enabled"], changed["disabledReason"]) == (False, None)
    assert changed["nextPollAt"] is None


async def test_p4_a_source_without_a_host_can_be_disabled(served_by_each: Served):
    source = await stored(served_by_each, url="no url at all", host=None)
    path = f"{SOURCES}/{source.id}"
    changed = await served_by_each.patch(path, {"enabled": False})
    assert (changed.status, changed.json["enabled"], changed.json["host"]) == (200, False, None)


async def test_concurrent_edits_and_a_deletion_end_as_done_or_not_found(served_by_each: Served):
    served = served_by_each
    for _ in range(3):
        source = await stored(served)
        path = f"{SOURCES}/{source.id}"
        whole = (await served.get(path)).json
        answers = await asyncio.gather(
            *(served.patch(path, {"label": str(n)}) for n in range(5)),
            served.get(path),
            served.delete(path),
            served.delete(path),
            *(served.put(path, whole | {"pollIntervalMinutes": n + 1}) for n in range(5)),
        )
        statuses = [answer.status for answer in answers]
        assert set(statuses) <= {200, 204, 404}
        assert statuses.count(204) == 1
        assert (await served.get(path)).status == 404


async def test_concurrent_edits_of_different_fields_are_all_kept(served_by_each: Served):
    served = served_by_each
    source = await stored(served)
    path = f"{SOURCES}/{source.id}"
    bodies = [
        {"label": "New"},
        {"pollIntervalMinutes": 7},
        {"pollDelaySeconds": 8},
        {"maxFailures": 9},
        {"aggregate": True},
    ]
    await asyncio.gather(*(served.patch(path, body) for body in bodies))
    shown = (await served.get(path)).json
    for body in bodies:
        assert shown | body == shown
