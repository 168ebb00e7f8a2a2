"""What cleanup will delete soon, or by a lower age limit (E5)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.rules.webhook_messages import expiring_happening
from headwater.store.database import Session
from headwater.store.key_values import set_value
from headwater.store.row_mapping import to_ms
from headwater.store.webhooks import publish_others

ANNOUNCED_KEY = "cursor:articles.expiring"  # `Announced` as JSON

# rows with an age limit, named {0}: which ones, and the time that it counts from
AGE_CONDITIONS = {
    "articles": ("NOT {0}.is_processed", "coalesce({0}.published_at, {0}.created_at)"),
    "posts": ("NOT {0}.is_linked", "{0}.created_at"),
}
_PODCASTS = {("articles", "postgres"): "podcast_id || ''"}  # as its index has it


@dataclass(frozen=True, slots=True)
class ExpiringCounts:
    """Numbers of unprocessed articles and of posts in no article."""

    articles: int
    posts: int


@dataclass(frozen=True, slots=True)
class Announced:
    """Which expiring items were announced: what expires beyond, or was stored later, was not."""

    until: datetime  # the time of expiry
    seq: int  # every article up to this number was there
    days: int  # the age limit then
    own_days: Mapping[str, int]  # the age limits of podcasts that have their own

    def dates_before(self, podcast_id: str) -> datetime:
        """Items of a podcast with an earlier date were announced, or had expired.

        Dates and not times of expiry are compared, which change with the age limit.
        """
        return self.until - timedelta(days=self.own_days.get(podcast_id, self.days))

    def to_json(self) -> str:
        """The value to be stored."""
        until = self.until.isoformat()
        return json.dumps([until, self.seq, self.days, dict(self.own_days)])

    @classmethod
    def from_json(cls, text: str | None) -> "Announced | None":
        """The stored value; None if there is none, or it is not written by this program."""
        try:
            until, seq, days, own_days = json.loads(text or "")
            return cls(datetime.fromisoformat(until), int(seq), int(days), dict(own_days))
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class ExpiringSoon:
    """The items of a podcast that are to be announced now."""

    podcast_id: str
    age: timedelta  # the age limit
    now: datetime
    until: datetime  # of expiry
    last: Announced | None


def count_unannounced(session: Session, soon: ExpiringSoon, horizon: int) -> ExpiringCounts:
    """Items that have come within a day of their expiry, or were made with less than that left.

    Articles above `horizon` are left for the next time: some of them may not be committed yet.
    """
    oldest, end = soon.now - soon.age, soon.until - soon.age
    if soon.last is None:
        start, seq = oldest, 0
    else:
        start, seq = min(max(soon.last.dates_before(soon.podcast_id), oldest), end), soon.last.seq
    counts = count_between(
        session, soon.podcast_id, start, end, kept_at=soon.until, horizon=horizon
    )
    sql = """SELECT count(*) FROM articles WHERE podcast_id = :podcast
        AND seq > :seq AND seq <= :horizon AND NOT is_processed
        AND coalesce(published_at, created_at) >= :oldest
        AND coalesce(published_at, created_at) < :start
        AND (kept_until IS NULL OR kept_until <= :now)"""  # not made of what an undo has freed
    params = {
        "podcast": soon.podcast_id,
        "seq": seq,
        "horizon": horizon,
        "oldest": to_ms(oldest),
        "start": to_ms(start),
        "now": to_ms(soon.now),
    }
    late = session.fetch(sql, params)[0][0]
    return ExpiringCounts(counts.articles + late, counts.posts)


def count_between(
    session: Session,
    podcast_id: str,
    after: datetime,
    until: datetime,
    *,
    kept_at: datetime,
    horizon: int | None = None,
) -> ExpiringCounts:
    """Unprocessed articles and unlinked posts with a date in this range.

    Those that an undo keeps at `kept_at` are left out, and articles above `horizon`.
    """
    numbered = {} if horizon is None else {"articles": "AND seq <= :horizon"}
    params = {
        "podcast": podcast_id,
        "after": to_ms(after),
        "until": to_ms(until),
        "kept_at": to_ms(kept_at),
        "horizon": horizon,
    }
    counts = [
        session.fetch(
            f"""SELECT count(*) FROM {table}
                WHERE {_PODCASTS.get((table, session.kind), "podcast_id")} = :podcast
                AND {state.format(table)}
                AND {time.format(table)} >= :after AND {time.format(table)} < :until
                AND (kept_until IS NULL OR kept_until <= :kept_at) {numbered.get(table, "")}""",
            params,
        )[0][0]
        for table, (state, time) in AGE_CONDITIONS.items()
    ]
    return ExpiringCounts(*counts)


def announce(
    session: Session, found: Mapping[str, ExpiringCounts], announced: Announced, now: datetime
) -> None:
    """Store messages about what expires, by podcast; later calls continue from there.

    Both are one transaction: each item is reported once (V2).
    """
    publish_others(
        session,
        [
            expiring_happening(
                podcast, announced.until, now, articles=counts.articles, posts=counts.posts
            )
            for podcast, counts in found.items()
        ],
    )
    set_value(session, ANNOUNCED_KEY, announced.to_json())


def would_delete(
    session: Session, podcast_id: str, now: datetime, *, before: timedelta, after: timedelta
) -> ExpiringCounts:
    """What cleanup deletes at once if the age limit changes from `before` to `after`."""
    return count_between(session, podcast_id, now - before, now - after, kept_at=now)
