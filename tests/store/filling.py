"""A database with something in every table."""

from dataclasses import replace

from headwater.model import Hold, LateKeys, Podcast, SealedSecret, User, Visit
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.cleanup import old_posts
from tests.store.pieces import (
    DAY,
    HOUR,
    NOW,
    ODD_TEXT,
    a_post,
    a_success,
    everything,
    stored,
    with_posts,
)


async def fill(store: Store) -> None:
    """Put something into every table."""
    await store.people.add_user(User("u", ODD_TEXT, NOW))
    podcast = Podcast("p", "u", "P", NOW, max_article_age_days=3, dedupe_across_sources=True)
    await store.people.save_podcast(podcast)
    await store.people.set_key("u", "x", SealedSecret("k", b"\0\1", bytes(range(256))), NOW)
    hold = Hold(NOW + HOUR, NOW, "429")
    for podcast_id in ("default", "p"):
        source = await stored(store, podcast_id=podcast_id, label=ODD_TEXT, hold=hold)
        old = a_post(source, "old", created_at=NOW - 30 * DAY)
        source = await with_posts(store, source, old, a_post(source, ODD_TEXT, author=None))
        visit = Visit(source.host or "", NOW, next_allowed_at=NOW, succeeded=True, resolved=True)
        outcome = a_success(source, late_keys=LateKeys(("k",)), visits=(visit,))
        await store.record(replace(outcome, hold=hold, hold_lane=f"{podcast_id}.example.org"))
    await stored(store, enabled=False, aggregate=True)
    await store.clean(old_posts(7), NOW, 1000)
    make = lambda s, p: articles_from(s, p, NOW, Policy())  # noqa: E731
    done = await store.articles.aggregate("default", created_after=NOW - DAY, make=make)
    await store.articles.mark_processed("default", [done.created[0]], NOW)
    await store.facts.set("paused", "true")
    filled = await everything(store)
    assert all(filled.values()), filled
