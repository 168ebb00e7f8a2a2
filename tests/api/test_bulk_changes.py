"""One action for many sources, selected by ids or by the filters of the list."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.errors import TooMany
from headwater.model import FailureType, Source
from headwater.operations.bulk_changes import Batch, BatchAction, run_batch
from headwater.rules.outcome import edited
from headwater.store.sources import SourceFilter
from tests.api.conftest import DEFAULT, Answer, Served
from tests.store.store_data import HOUR, NOW, a_polled_source, a_post_of, a_success

SOURCES = f"{DEFAULT}/sources"
BATCH = f"{SOURCES}/batch"
EVERY = {"all": True}
MANY = 600  # more than two batches
FAILING: dict[str, Any] = {
    "consecutive_failures": 3,
    "permanent_failures": 3,
    "permanent_kind": "404",
    "last_failure_type": FailureType.PERMANENT,
    "last_error": "HTTP 404 Not Found",
    "failing_since": NOW - HOUR,
}
DISABLED: dict[str, Any] = FAILING | {"enabled": False, "disabled_reason": "Auto-disabled"}


async def stored(served: Served, *sources: Source) -> list[Source]:
    await served.app.store.sources.add_many(sources)
    return list(sources)


async def everything(served: Served) -> dict[str, Source]:
    found = await served.app.store.sources.find(SourceFilter(), limit=10_000)
    return {source.id: source for source in found}


def counts(answer: Answer) -> tuple[int, int, int]:
    assert answer.status == 200, answer.json
    assert set(answer.json) == {"matched", "changed", "requested"}
    return answer.json["matched"], answer.json["changed"], answer.json["requested"]


async def test_f5_enabling_many_has_the_effects_of_a_single_edit(served_by_each: Served):
    served = served_by_each
    off = await stored(served, *(a_polled_source(**DISABLED) for _ in range(MANY)))
    on = await stored(served, *(a_polled_source(**FAILING) for _ in range(5)))
    answer = await served.post(BATCH, {"action": "enable", "filter": EVERY})
    assert counts(answer) == (MANY + 5, MANY, MANY)
    now = await everything(served)
    for source in off:
        after = now[source.id]
        assert after.requested_at is not None
        assert after == edited(source, replace(source, enabled=True), after.requested_at)
        assert (after.consecutive_failures, after.disabled_reason) == (0, None)
    assert [now[source.id] for source in on] == on


async def test_disabling_all_failing_sources_of_one_host_leaves_the_others(served_by_each: Served):
    served = served_by_each
    host = "feeds.example.org"
    bad = await stored(served, *(a_polled_source(host=host, **FAILING) for _ in range(3)))
    others = await stored(served, a_polled_source(host=host), a_polled_source(**FAILING))
    body = {"action": "disable", "filter": {"health": "failing", "host": "Feeds.Example.ORG"}}
    assert counts(await served.post(BATCH, body)) == (3, 3, 0)
    now = await everything(served)
    assert [now[s.id].enabled for s in bad] == [False] * 3
    assert [now[s.id] for s in others] == others
    assert counts(await served.post(BATCH, body)) == (0, 0, 0)  # disabled ones do not fail again


async def test_the_filters_are_those_of_the_list(served_by_each: Served):
    served = served_by_each
    await stored(
        served,
        a_polled_source(label="one"),
        a_polled_source(label="two", enabled=False),
        a_polled_source(url="@three", host="x.com", label="three"),
        a_polled_source(**FAILING),
    )
    for name, value in (
        ("enabled", True),
        ("enabled", False),
        ("type", "rss"),
        ("type", "website"),
        ("health", "new"),
        ("health", "failing"),
        ("health", "disabled"),
        ("host", "x.com"),
        ("q", "TWO"),
    ):
        shown = str(value).lower() if isinstance(value, bool) else value
        listed = (await served.get(f"{SOURCES}?{name}={shown}")).json["items"]
        body = {"action": "update", "filter": {name: value}, "set": {"maxFailures": 7}}
        changed = await served.post(BATCH, body)
        assert counts(changed)[0] == len(listed), (name, value)
    whole = {"enabled": None, "type": None, "health": None, "host": None, "q": None} | EVERY
    body = {"action": "update", "filter": whole, "set": {"maxFailures": 7}}
    assert counts(await served.post(BATCH, body))[0] == 4


async def test_an_empty_filter_is_refused_and_the_message_names_the_filter_for_all(
    served: Served,
):
    (source,) = await stored(served, a_polled_source())
    nothing: list[dict[str, Any]] = [
        {},
        {"all": False},
        {"q": ""},
        {"enabled": None, "type": None, "health": None, "host": None, "q": None, "all": None},
    ]
    for action in ("enable", "disable", "delete", "poll", "update"):
        changes = {"set": {"label": "x"}} if action == "update" else {}
        for wanted in nothing:
            answer = await served.post(BATCH, {"action": action, "filter": wanted} | changes)
            (error,) = answer.json["errors"]
            assert (answer.status, error["field"]) == (422, "filter"), (action, wanted)
            assert '"filter": {"all": true}' in error["message"]
        both = {"action": action, "filter": EVERY | {"type": "rss"}} | changes
        answer = await served.post(BATCH, both)
        assert (answer.status, answer.json["errors"][0]["field"]) == (422, "filter")
    assert await everything(served) == {source.id: source}
    mostly_nothing = {"action": "delete", "filter": {"q": "", "enabled": True, "all": False}}
    assert counts(await served.post(BATCH, mostly_nothing)) == (1, 1, 0)


async def test_an_update_sets_and_resets_options_of_the_named_sources(served_by_each: Served):
    served = served_by_each
    sources = await stored(
        served, *(a_polled_source(label="x", poll_delay_seconds=5) for _ in range(4))
    )
    ids = [source.id for source in sources[:3]]
    change = {"pollIntervalMinutes": 90, "pollDelaySeconds": None, "maxBackoffHours": 2}
    body = {"action": "update", "ids": [*ids, ids[0]], "set": change}
    assert counts(await served.post(BATCH, body)) == (3, 3, 0)
    now = await everything(served)
    for source in sources[:3]:
        assert now[source.id] == replace(
            source, poll_interval_minutes=90, poll_delay_seconds=None, max_backoff_hours=2
        )
    assert now[sources[3].id] == sources[3]
    assert counts(await served.post(BATCH, body)) == (3, 0, 0)


async def test_f5_switching_history_on_for_many_requests_a_poll_of_each(served_by_each: Served):
    served = served_by_each
    sources = await stored(
        served, *(a_polled_source(last_seen_id="x", body_hash="y") for _ in range(3))
    )
    body = {"action": "update", "filter": EVERY, "set": {"includeHistory": True}}
    assert counts(await served.post(BATCH, body)) == (3, 3, 3)
    for after in (await everything(served)).values():
        assert (after.last_seen_id, after.body_hash, after.generation) == (None, None, 1)
    assert len(sources) == 3


async def test_s9_a_poll_of_many_is_a_request_for_each(served_by_each: Served):
    served = served_by_each
    sources = await stored(
        served, *(a_polled_source() for _ in range(MANY)), a_polled_source(enabled=False)
    )
    assert counts(await served.post(BATCH, {"action": "poll", "filter": EVERY})) == (
        MANY + 1,
        MANY + 1,
        MANY + 1,
    )
    now = await everything(served)
    for source in sources:
        requested_at = now[source.id].requested_at
        assert requested_at is not None
        assert now[source.id] == replace(source, requested_at=requested_at)


async def test_y8_a_refused_poll_of_many_writes_nothing(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    await stored(served, a_polled_source())
    batch = Batch(BatchAction.POLL, wanted=SourceFilter())
    with pytest.raises(TooMany):
        async with store.audit.acting("token laptop"):
            await run_batch(store, "default", batch, served.app.clock, pollable=lambda _ids: [])
    assert await store.audit.newest(limit=1) == []


async def test_deleting_many_deletes_their_posts_and_polls(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    sources = await stored(
        served, *(a_polled_source(label=("go", "stay")[n % 2]) for n in range(MANY))
    )
    for source in sources[:4]:
        await store.record(a_success(source, [a_post_of(source, str(n)) for n in range(3)]))
    heavy = sources[0]
    posts = [a_post_of(heavy, f"more {n}") for n in range(2500)]  # more than one batch
    await store.record(a_success(await store.sources.get(heavy.id), posts))
    answer = await served.post(BATCH, {"action": "delete", "filter": {"q": "go"}})
    assert counts(answer) == (MANY // 2, MANY // 2, 0)
    assert sorted(await everything(served)) == sorted(source.id for source in sources[1::2])
    assert await store.posts.count() == 6


async def test_u2_an_id_that_is_unknown_or_anothers_is_not_found_and_nothing_changes(
    served_by_each: Served,
):
    served = served_by_each
    ada, bob = await served.person("ada"), await served.person("bob")
    hers = "/api/users/ada/podcasts/ada/sources"
    his = "/api/users/bob/podcasts/bob/sources"
    url = {"type": "rss", "url": "https://example.org/feed"}
    theirs = (await served.post(hers, url, token=ada)).json["id"]
    own = [(await served.post(his, url, token=bob)).json["id"] for _ in range(3)]
    before = await everything(served)
    for action in ("enable", "disable", "delete", "poll", "update"):
        for strange in (theirs, "nobody"):
            body: dict[str, Any] = {"action": action, "ids": [*own, strange]}
            if action == "update":
                body["set"] = {"label": "mine"}
            answer = await served.post(f"{his}/batch", body, token=bob)
            assert answer.status == 404
            assert answer.json["detail"] == f"there is no source {strange}"
            assert (await served.post(f"{hers}/batch", body, token=bob)).status == 404
    everyone = {"action": "disable", "filter": EVERY}
    assert (await served.post(f"{hers}/batch", everyone, token=bob)).status == 404
    assert await everything(served) == before
    assert counts(await served.post(f"{his}/batch", everyone, token=bob)) == (3, 3, 0)
    assert (await everything(served))[theirs].enabled


async def test_invalid_input_is_422_names_the_field_and_changes_nothing(
    served_by_each: Served,
):
    served = served_by_each
    (source,) = await stored(served, a_polled_source())
    ids = [source.id]
    cases: list[tuple[Any, str]] = [
        ({}, "action"),
        ({"action": "explode", "ids": ids}, "action"),
        ({"action": "enable"}, "ids"),
        ({"action": "enable", "ids": None, "filter": None}, "ids"),
        ({"action": "enable", "ids": ids, "filter": EVERY}, "ids"),
        ({"action": "disable", "ids": ids, "set": {"label": "x"}}, "set"),
        ({"action": "disable", "ids": ids, "set": {}}, "set"),
        ({"action": "update", "ids": ids}, "set"),
        ({"action": "update", "ids": ids, "set": {}}, "set"),
        ({"action": "update", "ids": ids, "set": {"url": "https://a.example"}}, "set.url"),
        ({"action": "update", "ids": ids, "set": {"type": "rss"}}, "set.type"),
        ({"action": "update", "ids": ids, "set": {"health": "ok"}}, "set.health"),
        (
            {"action": "update", "ids": ids, "set": {"pollIntervalMinutes": 0}},
            "set.pollIntervalMinutes",
        ),
        (
            {"action": "update", "ids": ids, "set": {"pollIntervalMinutes": None}},
            "set.pollIntervalMinutes",
        ),
        ({"action": "update", "ids": ids, "set": {"label": "\0"}}, "set.label"),
        ({"action": "disable", "ids": "all"}, "ids"),
        ({"action": "disable", "ids": [1]}, "ids.0"),
        ({"action": "disable", "ids": ["a\0"]}, "ids.0"),
        ({"action": "disable", "ids": ["\ud800"]}, "ids.0"),
        ({"action": "disable", "ids": ["a"] * 100_001}, "ids"),
        ({"action": "disable", "filter": {"colour": "red"}}, "filter.colour"),
        ({"action": "disable", "filter": {"podcastId": "p"}}, "filter.podcastId"),
        ({"action": "disable", "filter": {"health": "ill"}}, "filter.health"),
        ({"action": "disable", "filter": {"enabled": "true"}}, "filter.enabled"),
        ({"action": "disable", "filter": {"q": "\0"}}, "filter.q"),
        ({"action": "disable", "filter": {"host": "a b"}}, "host"),
        ({"action": "disable", "ids": ids, "force": True}, "force"),
    ]
    for body, field in cases:
        answer = await served.post(BATCH, body)
        assert answer.status == 422, body
        assert answer.json["errors"][0]["field"] == field, (body, answer.json)
    assert await everything(served) == {source.id: source}


async def test_an_empty_list_of_ids_selects_no_sources(served: Served):
    await stored(served, a_polled_source())
    assert counts(await served.post(BATCH, {"action": "delete", "ids": []})) == (0, 0, 0)
    assert len(await everything(served)) == 1


async def test_batch_is_not_taken_for_the_id_of_a_source(served: Served):
    assert (await served.get(BATCH)).status == 404
    assert (await served.post(BATCH, {"action": "poll", "filter": EVERY})).status == 200


async def test_sources_deleted_while_a_batch_runs_are_not_counted(
    served_by_each: Served,
):
    served = served_by_each
    sources = await stored(served, *(a_polled_source() for _ in range(40)))
    ids = [source.id for source in sources]
    answers = await asyncio.gather(
        served.post(BATCH, {"action": "disable", "filter": EVERY}),
        *(served.delete(f"{SOURCES}/{id_}") for id_ in ids[::2]),
        served.post(BATCH, {"action": "update", "filter": EVERY, "set": {"label": "x"}}),
        *(served.patch(f"{SOURCES}/{id_}", {"pollDelaySeconds": 1}) for id_ in ids[1::2]),
    )
    assert {answer.status for answer in answers} <= {200, 204}
    now = await everything(served)
    assert sorted(now) == sorted(ids[1::2])
    assert {(s.enabled, s.label, s.poll_delay_seconds) for s in now.values()} == {(False, "x", 1)}


async def test_a_source_that_no_longer_matches_is_not_changed(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    served, store = served_by_each, served_by_each.app.store
    sources = await stored(served, *(a_polled_source(**FAILING) for _ in range(3)))
    look = store.sources.positions

    async def recovering(*args: Any, **options: Any) -> Any:
        found = await look(*args, **options)
        well = replace(sources[1], consecutive_failures=0)
        await store.sources.edit(well.id, lambda _: well)
        return found

    monkeypatch.setattr(store.sources, "positions", recovering)
    answer = await served.post(BATCH, {"action": "delete", "filter": {"health": "failing"}})
    assert counts(answer) == (2, 2, 0)
    assert list(await everything(served)) == [sources[1].id]


async def test_h2_other_writes_and_the_loop_continue_during_a_large_batch(served: Served):
    store = served.app.store
    await stored(served, *(a_polled_source() for _ in range(5000)))
    running = asyncio.create_task(
        run_batch(
            store, "default", Batch(BatchAction.DISABLE, wanted=SourceFilter()), served.app.clock
        )
    )
    written = 0
    while not running.done():
        await store.key_values.set("somebody", "else")  # runs between two batches
        written += 1
    assert (await running).changed == 5000
    assert written >= 5000 // 250
