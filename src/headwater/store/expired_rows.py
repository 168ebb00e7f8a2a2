"""Batches of cleanup: expired rows are found without a lock and removed in one transaction (C1-C4).

The writer, which polls wait for, handles only the rows that are removed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from headwater.rules.retention import (
    AUDIT_ENTRIES,
    CLOSED_INCIDENTS,
    IDEMPOTENCY_KEYS,
    MESSAGES,
)
from headwater.store import (
    filter_changes,
    podcast_duplicates,
    poll_days,
    poll_history,
    posts,
    search_index,
    sequence_numbers,
    stories,
)
from headwater.store.database import Row, Session
from headwater.store.keyset_pages import count_within
from headwater.store.row_mapping import to_ms

Ids = Sequence[Any]
_AGE = "coalesce(x.published_at, x.created_at)"
# Tables with an age limit: the condition, the time and, by database, the podcast of their indexes.
_AGE_LIMITS = {
    "articles": ("NOT x.is_processed", _AGE, "x.podcast_id", "x.podcast_id || ''"),
    "posts": ("NOT x.is_linked", "x.created_at", "x.podcast_id", "x.podcast_id"),
}
Found = Sequence[tuple[str, int | None]]  # ids of articles or posts, and until when they are kept


@dataclass(frozen=True, slots=True)
class CleanupBatch:
    """A kind of rows to clean up."""

    find: Callable[[Session, datetime, int], Ids]  # at most this many
    remove: Callable[[Session, Ids, int], int]  # those that are still expired; about this many rows


def old_articles(default_days: int) -> CleanupBatch:
    """Unprocessed articles past the age limit, with posts that are in no other article (C1)."""
    find = partial(_past_age_limit, table="articles", days=default_days)
    return CleanupBatch(find, partial(_remove_articles, state="NOT is_processed"))


def old_processed(retention_days: int) -> CleanupBatch:
    """Processed articles past their retention (C1)."""
    find = partial(_past_retention, days=retention_days)
    return CleanupBatch(find, partial(_remove_articles, state="is_processed"))


def old_posts(default_days: int) -> CleanupBatch:
    """Posts in no article that were created before the age limit (C2)."""
    return CleanupBatch(partial(_past_age_limit, table="posts", days=default_days), _remove_posts)


def old_polls(days: int) -> CleanupBatch:
    """Poll history past its retention: counted by day, then deleted (C4)."""
    return CleanupBatch(partial(poll_history.expired, days=days), poll_days.roll_up)


def old_poll_days(days: int) -> CleanupBatch:
    """Daily counts of polls past their retention (C4)."""
    return CleanupBatch(partial(poll_days.expired, days=days), poll_days.delete)


def old_audit_entries() -> CleanupBatch:
    """Entries of the audit log past their retention (U9)."""
    return _older_than(AUDIT_ENTRIES, "audit", "at")


def old_story_marks() -> CleanupBatch:
    """Marks of posts that are older than the window of stories (I1)."""
    return CleanupBatch(stories.find_expired_marks, stories.remove_marks)


def old_idempotency_keys() -> CleanupBatch:
    """Idempotency keys that have expired."""
    return _older_than(IDEMPOTENCY_KEYS, "idempotency_keys", "created_at")


def old_incidents() -> CleanupBatch:
    """Closed incidents past their retention (Y1)."""
    return _older_than(CLOSED_INCIDENTS, "incidents", "closed_at")


def old_deliveries() -> CleanupBatch:
    """Messages of webhooks past their retention (V2)."""
    return _older_than(MESSAGES, "deliveries", "created_at", key="number")


def removed_from_search() -> CleanupBatch:
    """Entries of the search index whose post or article is gone (B3)."""
    return CleanupBatch(search_index.find_removed, search_index.delete_removed)


def unindexed_posts() -> CleanupBatch:
    """Posts stored before their podcast was deduplicated: indexed, nothing is removed (D5)."""
    return CleanupBatch(podcast_duplicates.find_not_indexed, podcast_duplicates.index_batch)


def unnumbered_posts() -> CleanupBatch:
    """Posts stored by a version without `seq`: numbered, nothing is removed (R9)."""
    find = partial(sequence_numbers.find_unnumbered, table="posts")
    return CleanupBatch(find, sequence_numbers.number_posts)


def unnumbered_articles() -> CleanupBatch:
    """Articles stored by a version without `seq`: numbered, nothing is removed (V1)."""
    find = partial(sequence_numbers.find_unnumbered, table="articles")
    return CleanupBatch(find, sequence_numbers.number_articles)


def changed_filters() -> CleanupBatch:
    """Posts whose filters were changed: evaluated again, nothing is removed (B2)."""
    return CleanupBatch(filter_changes.evaluate, filter_changes.store)


def _older_than(age: timedelta, table: str, column: str, key: str = "id") -> CleanupBatch:
    """Rows whose time in `column` is longer ago than `age`; without a time they stay."""

    def find(session: Session, now: datetime, limit: int) -> Ids:
        sql = f"""SELECT {key} FROM {table} WHERE {column} < :before
            ORDER BY {column} LIMIT :limit"""
        rows = session.fetch(sql, {"before": to_ms(now - age), "limit": limit})
        return [row[0] for row in rows]

    def remove(session: Session, keys: Ids, _limit: int) -> int:
        return session.execute(f"DELETE FROM {table} WHERE {key} IN :keys", {"keys": keys})

    return CleanupBatch(find, remove)


def _past_age_limit(session: Session, now: datetime, limit: int, *, table: str, days: int) -> Found:
    """Rows older than their podcast's limit: the beginning of an index range per podcast.

    Rows that an undo has freed within the last day are left out (E1).
    """
    state, time, *owners = _AGE_LIMITS[table]
    past = f"""{owners[session.kind == "postgres"]} = p.id AND {state} AND {time}
        < :now - coalesce(p.max_article_age_days, :days) * CAST(86400000 AS BIGINT)
        AND (x.kept_until IS NULL OR x.kept_until < :now)"""
    names = "x.id, x.kept_until"
    sql = f"SELECT {names} FROM podcasts p CROSS JOIN {table} x ON {past} LIMIT :limit"
    if session.kind == "postgres":  # without the ORDER BY the planner may scan the whole table
        sql = f"""SELECT y.* FROM podcasts p CROSS JOIN LATERAL
            (SELECT {names} FROM {table} x WHERE {past} ORDER BY {time} LIMIT :limit) y
            LIMIT :limit"""
    rows = session.fetch(sql, {"now": to_ms(now), "days": days, "limit": limit})
    return [(id_, kept_until) for id_, kept_until in rows]


def _past_retention(session: Session, now: datetime, limit: int, *, days: int) -> Found:
    latest = f"({_AGE}, coalesce(x.processed_at, x.created_at))"
    latest = ("greatest" if session.kind == "postgres" else "max") + latest
    sql = f"""SELECT x.id, x.kept_until FROM articles x WHERE x.is_processed AND {latest} < :before
        ORDER BY {latest} LIMIT :limit"""
    before = to_ms(now - timedelta(days=days))
    rows = session.fetch(sql, {"before": before, "limit": limit})
    return [(id_, kept_until) for id_, kept_until in rows]


def _remove_posts(session: Session, found: Found, _limit: int) -> int:
    sql = """SELECT id, kept_until, source_id, content_hash, url FROM posts
        WHERE id IN :ids AND NOT is_linked ORDER BY id FOR UPDATE"""
    rows = _as_found(session.fetch(sql, {"ids": [id_ for id_, _ in found]}), found)
    posts.delete(session, [(id_, *rest) for id_, _, *rest in rows])
    return len(rows)


def _remove_articles(session: Session, found: Found, limit: int, *, state: str) -> int:
    sql = f"""SELECT id, kept_until FROM articles WHERE id IN :ids AND {state}
        ORDER BY id FOR UPDATE"""
    rows = _as_found(session.fetch(sql, {"ids": [id_ for id_, _ in found]}), found)
    ids = _within(session, [row[0] for row in rows], limit)
    linked = posts.only_in(session, ids)
    posts.delete(session, linked)
    count = session.execute("DELETE FROM articles WHERE id IN :ids", {"ids": ids})
    return count + len(linked)


def _as_found(rows: Sequence[Row], found: Found) -> list[Row]:
    """The rows that no undo has freed since they were found."""
    kept_until = dict(found)
    return [row for row in rows if row[1] == kept_until[row[0]]]


def _within(session: Session, ids: list[str], limit: int) -> list[str]:
    """The first of these articles that stay within the limit with their posts; at least one."""
    sql = """SELECT article_id, count(*) FROM post_articles
        WHERE article_id IN :ids GROUP BY article_id"""
    posts_of: dict[str, int] = dict(session.fetch(sql, {"ids": ids}))
    return ids[: count_within([1 + posts_of.get(id_, 0) for id_ in ids], limit)]
