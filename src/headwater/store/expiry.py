"""What cleanup will delete soon, or by a lower age limit (E5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.rules.webhook_messages import expiring_happening
from headwater.store.database import Session
from headwater.store.key_values import set_value
from headwater.store.row_mapping import to_ms
from headwater.store.webhooks import publish_others

ANNOUNCED_KEY = "cursor:articles.expiring"  # up to when expiring items were announced

# rows with an age limit: which ones, and the time that it counts from
AGE_CONDITIONS = {
    "articles": ("NOT is_processed", "coalesce(published_at, created_at)"),
    "posts": ("NOT is_linked", "created_at"),
}
_PODCASTS = {("articles", "postgres"): "podcast_id || ''"}  # as its index has it


@dataclass(frozen=True, slots=True)
class ExpiringCounts:
    """Numbers of unprocessed articles and of posts in no article."""

    articles: int
    posts: int


def count_between(
    session: Session, podcast_id: str, after: datetime, until: datetime, *, kept_at: datetime
) -> ExpiringCounts:
    """Unprocessed articles and unlinked posts with a date in this range.

    Those that an undo keeps at `kept_at` are left out.
    """
    params = {
        "podcast": podcast_id,
        "after": to_ms(after),
        "until": to_ms(until),
        "kept_at": to_ms(kept_at),
    }
    counts = [
        session.fetch(
            f"""SELECT count(*) FROM {table}
                WHERE {_PODCASTS.get((table, session.kind), "podcast_id")} = :podcast AND {state}
                AND {time} >= :after AND {time} < :until
                AND (kept_until IS NULL OR kept_until <= :kept_at)""",
            params,
        )[0][0]
        for table, (state, time) in AGE_CONDITIONS.items()
    ]
    return ExpiringCounts(*counts)


def announce(
    session: Session, found: Mapping[str, ExpiringCounts], until: datetime, now: datetime
) -> None:
    """Store messages about what expires before `until`, by podcast; later calls go on from there.

    Both are one transaction: each item is reported once (V2).
    """
    publish_others(
        session,
        [
            expiring_happening(podcast, until, now, articles=counts.articles, posts=counts.posts)
            for podcast, counts in found.items()
        ],
    )
    set_value(session, ANNOUNCED_KEY, until.isoformat())


def would_delete(
    session: Session, podcast_id: str, now: datetime, *, before: timedelta, after: timedelta
) -> ExpiringCounts:
    """What cleanup deletes at once if the age limit changes from `before` to `after`."""
    return count_between(session, podcast_id, now - before, now - after, kept_at=now)
