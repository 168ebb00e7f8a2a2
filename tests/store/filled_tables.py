"""A database with rows in every table."""

from dataclasses import replace
from functools import partial

from headwater.content import SavedSearch
from headwater.model import (
    Hold,
    LateKeys,
    Podcast,
    SealedSecret,
    SourceType,
    SuggestionKind,
    User,
    Visit,
)
from headwater.rules.channels import ChannelChoice, ChannelKind
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store import Session, Store
from headwater.store.expired_rows import old_polls, old_posts
from headwater.store.idempotency_keys import KeyedRequest
from headwater.store.webhooks import Webhook
from headwater.watch_settings import Delivery, WatchSettings
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    ODD_TEXT,
    a_post_of,
    a_success,
    a_suggestion,
    everything,
    stored,
    with_posts,
)


async def fill(store: Store) -> None:
    """Insert rows into every table."""
    await store.accounts.add_user(User("u", ODD_TEXT, NOW))
    podcast = Podcast("p", "u", "P", NOW, max_article_age_days=3, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)
    await store.api_keys.set("u", "x", SealedSecret("k", b"\0\1", bytes(range(256))), NOW)
    hold = Hold(NOW + HOUR, NOW, "429")
    for podcast_id in ("default", "p"):
        source = await stored(store, podcast_id=podcast_id, label=ODD_TEXT, hold=hold)
        old = a_post_of(source, "old", created_at=NOW - 30 * DAY)
        source = await with_posts(store, source, old, a_post_of(source, ODD_TEXT, author=None))
        visit = Visit(source.host or "", NOW, next_allowed_at=NOW, succeeded=True, resolved=True)
        outcome = a_success(source, late_keys=LateKeys(("k",)), visits=(visit,))
        outcome = replace(outcome, suggestions={SuggestionKind.IGNORE: a_suggestion()})
        await store.record(replace(outcome, hold=hold, hold_lane=f"{podcast_id}.example.org"))
    page = await stored(
        store, type=SourceType.WEBSITE, watch=WatchSettings(deliver=Delivery.ADDITIONS)
    )
    await with_posts(store, page, a_post_of(page, "page", page_text=ODD_TEXT))
    await stored(store, enabled=False, aggregate=True)
    await store.clean(old_posts(7), NOW, 1000)
    await store.clean(old_polls(1), NOW + 2 * DAY, 1)
    make = partial(articles_from, now=NOW, policy=Policy())
    done = await store.articles.aggregate("default", created_after=NOW - DAY, make=make)
    await store.articles.mark_processed("default", [done.created[0]], NOW)
    hook = Webhook(
        "w", "p", "https://example.org/hook", tuple(WebhookEvent), "river", True, None, NOW
    )
    await store.webhooks.add(hook, SealedSecret("k", b"\0\1", bytes(range(256))))
    await store.webhooks.add_test(hook, "webhook.test", ODD_TEXT, NOW)
    told = (ChannelChoice(ChannelKind.WEBHOOK, "w", True, 8), ChannelChoice(ChannelKind.NTFY, "x"))
    await store.channels.replace("u", told, NOW)
    await store.key_values.set("paused", "true")
    request = KeyedRequest("key", "u", "fingerprint", "attempt")
    await store.idempotency_keys.reserve(request, NOW)
    await store.idempotency_keys.finish(request, ODD_TEXT, succeeded=True)
    sql = """INSERT INTO page_visits (post_id, source_id, host, created_at, not_before)
        SELECT id, source_id, 'example.org', created_at, created_at FROM posts"""
    await store.database.write(lambda session: session.execute(sql))
    await store.saved_searches.add(
        SavedSearch("p", "a search ü", "river OR 東京", "hwf_token", NOW)
    )
    await store.database.write(_fill_other_tables)
    filled = await everything(store)
    assert all(filled.values()), filled


def _fill_other_tables(session: Session) -> None:
    """Insert rows into tables that only the service itself writes."""
    change = {"podcast_id": "p", "source_id": "", "version": 2, "position_at": 3}
    session.insert_rows("filter_changes", [change | {"position_id": "a", "not_before": 5}])
    incident = {"id": "i", "kind": "failing", "severity": "error", "user_id": "u", "host": "h"}
    texts = {"title": ODD_TEXT, "advice": ODD_TEXT, "opened_at": 1, "closed_at": None}
    session.insert_rows("incidents", [incident | texts])
    sql = "INSERT INTO incident_sources (incident_id, source_id) SELECT 'i', id FROM sources"
    session.execute(sql)
    session.insert_rows("incident_podcasts", [{"incident_id": "i", "podcast_id": "p"}])
    session.execute(
        """INSERT INTO feed_searches (source_id, feed_url, started_at, not_before, host, progress)
            SELECT id, url, 1, 2, host, '{}' FROM sources"""
    )
    session.insert_rows(
        "storms", [{"host": ODD_TEXT, "kind": "timeout", "since": 1, "ended_at": 2}]
    )
