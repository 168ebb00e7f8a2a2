"""Messages of webhooks are stored with what they report, or not at all (V2)."""

import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import FilteredBy, Podcast, SealedSecret, Source
from headwater.rules.incidents import Incident, IncidentChanges, IncidentKind, Severity
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store import POSTS_PER_COMMIT, Session, Store
from headwater.store.expired_rows import old_deliveries
from headwater.store.record_outcomes import record
from headwater.store.webhooks import MAX_WEBHOOKS, Webhook, publish
from tests.factories import a_post
from tests.store.store_data import (
    DAY,
    GONE,
    HOUR,
    NOW,
    a_failure,
    a_success,
    rows,
    stored,
    with_posts,
)

SEALED = SealedSecret("k", b"n", b"c")
EVERYTHING = tuple(WebhookEvent)


def a_webhook(id_: str = "w", podcast_id: str | None = "default", **changes: Any) -> Webhook:
    url = f"https://{id_}.example.org/hook"
    webhook = Webhook(id_, podcast_id, url, EVERYTHING, None, True, None, NOW)
    return replace(webhook, **changes)


async def added(store: Store, *webhooks: Webhook) -> None:
    for webhook in webhooks:
        await store.webhooks.add(webhook, SEALED)


async def messages(store: Store, webhook_id: str = "w") -> list[tuple[str, Any]]:
    """Events and data of the messages to an endpoint, oldest first."""
    found = await store.webhooks.deliveries(webhook_id, limit=10_000)
    return [(one.event, json.loads(one.payload)["data"]) for one in reversed(found)]


def new_posts(source: Source, names: Sequence[str]) -> list[Any]:
    return [a_post(name, source_id=source.id) for name in names]


async def test_v2_every_new_post_is_a_message_in_order(store: Store):
    await added(store, a_webhook())
    source = await stored(store)
    await with_posts(store, source, *new_posts(source, "abc"))
    posts = (await store.posts.after("default", 0, 10)).items
    found = await messages(store)
    assert [(event, data["id"], data["seq"]) for event, data in found] == [
        ("post.created", post.id, post.seq) for post in posts
    ]
    assert "body" not in found[0][1]
    assert found[0][1]["podcastId"] == "default"


async def test_v2_large_polls_and_deduplicated_ones_are_reported_once(store: Store):
    podcast = Podcast("other", "default", "Other", NOW, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)
    await added(store, a_webhook("all", None))
    large = await stored(store)
    names = [f"{n:05}" for n in range(POSTS_PER_COMMIT + 1)]
    await with_posts(store, large, *new_posts(large, names))
    sources = [await stored(store, podcast_id="other") for _ in range(2)]
    for source in sources:
        outcome = replace(a_success(source, new_posts(source, "xy")), dedupe_in_podcast=True)
        await store.record(outcome)
    titles = [data["title"] for _, data in await messages(store, "all")]
    assert titles == [f"The {name} title" for name in [*names, "x", "y"]]


async def test_v2_h1_messages_about_many_posts_take_little_memory(store: Store):
    source = await stored(store)
    new = new_posts(source, [f"{n:05}" for n in range(5000)])
    outcome = await store.record(a_success(source, new))
    await added(store, *(a_webhook(f"w{n}") for n in range(4)))
    tracemalloc.start()
    try:
        await store.database.write(lambda session: publish(session, [outcome]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
    assert len(await messages(store, "w3")) == 5000


async def test_v2_only_the_podcast_the_events_and_the_query_count(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await added(
        store,
        a_webhook("matching", query="title:river"),
        a_webhook("elsewhere", "other"),
        a_webhook("failures", events=(WebhookEvent.SOURCE_DISABLED,)),
        a_webhook("off", enabled=False),
        a_webhook("all", None),
    )
    source = await stored(store)
    await with_posts(store, source, *new_posts(source, ["river", "lake"]))
    assert [data["title"] for _, data in await messages(store, "matching")] == ["The river title"]
    assert len(await messages(store, "all")) == 2
    for name in ("elsewhere", "failures", "off"):
        assert await messages(store, name) == []


async def test_v2_disabled_and_recovered_sources_are_reported(store: Store):
    await added(store, a_webhook())
    failing = await stored(store, consecutive_failures=4, url="https://u:pw@example.org/feed")
    outcome = a_failure(failing, GONE)
    disabled = replace(outcome.source, enabled=False, disabled_reason="410")
    await store.record(replace(outcome, source=disabled))
    recovered = await stored(store, consecutive_failures=2)
    success = a_success(recovered)
    await store.record(replace(success, source=replace(success.source, consecutive_failures=0)))
    await store.record(a_failure(await stored(store)))  # an ordinary failure is no message
    found = await messages(store)
    assert [(event, data["id"]) for event, data in found] == [
        ("source.disabled", failing.id),
        ("source.recovered", recovered.id),
    ]
    assert found[0][1]["disabledReason"] == "410"
    assert "pw" not in found[0][1]["url"]


async def test_v2_filtered_posts_are_not_reported(store: Store):
    await added(store, a_webhook())
    source = await stored(store)
    hidden, shown = new_posts(source, "ab")
    hidden = replace(hidden, filtered_by=FilteredBy.SOURCE_BLOCK)
    await with_posts(store, source, hidden, shown)
    assert [data["title"] for _, data in await messages(store)] == ["The b title"]


async def test_v2_y1_incidents_are_reported_to_the_podcasts_of_their_sources(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await added(store, a_webhook(), a_webhook("elsewhere", "other"), a_webhook("all", None))
    source = await stored(store)
    incident = Incident(
        "i", IncidentKind.FAILING, Severity.ERROR, "default", source.host, "Title", "Advice", NOW,
        source_ids=(source.id,),
    )  # fmt: skip
    await store.incidents.apply(IncidentChanges(opened=[incident]))
    await store.incidents.apply(IncidentChanges(opened=[incident]))  # open already
    closed = replace(incident, closed_at=NOW + DAY)
    await store.incidents.apply(IncidentChanges(closed=[closed]))
    for name in ("w", "all"):
        found = await messages(store, name)
        assert [event for event, _ in found] == ["incident.opened", "incident.closed"]
        assert found[0][1]["sourceIds"] == [source.id]
    assert await messages(store, "elsewhere") == []


async def test_v2_y1_who_was_told_that_an_incident_began_is_told_that_it_ended(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await added(store, a_webhook(), a_webhook("elsewhere", "other"))
    gone, joined = await stored(store), await stored(store, podcast_id="other")
    incident = Incident(
        "i", IncidentKind.FAILING, Severity.ERROR, "default", gone.host, "Title", "Advice", NOW,
        source_ids=(gone.id,),
    )  # fmt: skip
    await store.incidents.apply(IncidentChanges(opened=[incident]))
    later = replace(incident, source_ids=(joined.id,))
    await store.incidents.apply(IncidentChanges(updated=[later]))
    await store.sources.remove(gone.id)
    await store.incidents.apply(IncidentChanges(closed=[replace(later, closed_at=NOW + DAY)]))
    found = [event for event, _ in await messages(store)]
    assert found == ["incident.opened", "incident.closed"]
    assert await messages(store, "elsewhere") == []


async def test_v2_o4_a_clock_that_is_set_back_does_not_lengthen_waits(store: Store):
    webhook = a_webhook()
    await added(store, webhook)
    ahead = NOW + 5 * HOUR  # by a clock that is wrong
    new = await store.webhooks.add_test(webhook, "webhook.test", "new", ahead)
    waiting = await store.webhooks.add_test(webhook, "webhook.test", "waiting", ahead)
    right = await store.webhooks.add_test(webhook, "webhook.test", "right", NOW)
    attempted = [
        replace(
            await store.webhooks.delivery("w", id_),
            attempts=2, next_attempt_set_at=at, next_attempt_at=at + HOUR,
        )
        for id_, at in ((waiting, ahead), (right, NOW))
    ]  # fmt: skip
    await store.webhooks.record_attempts(attempted)
    now = NOW + HOUR / 2
    assert await store.webhooks.with_due(now) == []
    assert [await store.webhooks.restart_waits(now, limit=1) for _ in "abc"] == [1, 1, 0]
    found = [(await store.webhooks.delivery("w", id_)) for id_ in (new, waiting, right)]
    assert [one.next_attempt_at for one in found] == [now, now + HOUR, NOW + HOUR]
    assert await store.webhooks.with_due(now) == ["w"]


async def test_v2_a_delivered_message_stays_delivered_whatever_another_process_stores(
    store: Store,
):
    webhook = a_webhook()
    await added(store, webhook)
    id_ = await store.webhooks.add_test(webhook, "webhook.test", "1", NOW)
    before = await store.webhooks.delivery("w", id_)
    accepted = replace(before, attempts=1, next_attempt_at=None, delivered_at=NOW, status=204)
    late = replace(before, attempts=1, next_attempt_at=NOW + HOUR, error="too slow")
    await store.webhooks.record_attempts([accepted])
    await store.webhooks.record_attempts([late])
    assert (await store.webhooks.delivery("w", id_)).status == 204


async def test_v2_a_poll_that_is_rolled_back_leaves_no_message(store: Store):
    await added(store, a_webhook())
    source = await stored(store)

    def fails_at_the_end(session: Session) -> None:
        record(session, [a_success(source, new_posts(source, "ab"))])
        raise UsageError("before the commit")

    with pytest.raises(UsageError):
        await store.database.write(fails_at_the_end)
    assert await messages(store) == []
    assert await rows(store, "SELECT id FROM posts") == []


async def test_v2_messages_are_kept_for_7_days(store: Store):
    await added(store, a_webhook())
    source = await stored(store)
    await with_posts(store, source, *new_posts(source, "ab"))
    assert await store.clean(old_deliveries(), NOW + 6 * DAY, 100) == 0
    assert await store.clean(old_deliveries(), NOW + 8 * DAY, 100) == 2
    assert await messages(store) == []


async def test_v2_a_resent_message_keeps_its_id(store: Store):
    await added(store, a_webhook(), a_webhook("v"))
    source = await stored(store)
    await with_posts(store, source, *new_posts(source, "a"))
    (sent,) = await store.webhooks.deliveries("w", limit=10)
    done = replace(sent, attempts=1, next_attempt_at=None, delivered_at=NOW, status=204)
    await store.webhooks.record_attempts([done])
    assert (await store.webhooks.delivery("w", sent.id)).delivered_at == NOW
    assert await store.webhooks.with_due(NOW) == ["v"]
    again = await store.webhooks.resend("w", sent.id, NOW)
    assert (again.id, again.attempts, again.next_attempt_at) == (sent.id, 0, NOW)
    with pytest.raises(NotFound):
        await store.webhooks.resend("v", sent.id, NOW)  # of another endpoint


async def test_v2_a_webhook_is_found_with_its_own_podcast_only(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await added(store, a_webhook(), a_webhook("all", None))
    assert (await store.webhooks.get("w", "default")).id == "w"
    assert [webhook.id for webhook in await store.webhooks.listed(None)] == ["all"]
    for id_, podcast in (("w", "other"), ("w", None), ("all", "default")):
        with pytest.raises(NotFound):
            await store.webhooks.get(id_, podcast)


async def test_v2_a_podcast_has_a_limited_number_of_webhooks(store: Store):
    await added(store, *(a_webhook(str(n)) for n in range(MAX_WEBHOOKS)))
    with pytest.raises(UsageError, match="50 webhooks already"):
        await added(store, a_webhook("one more"))
    await added(store, a_webhook("all", None))
