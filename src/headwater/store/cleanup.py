"""Bites of cleanup, each a short transaction (C1-C3)."""

from collections.abc import Callable
from datetime import datetime, timedelta

from headwater.store import polls, posts
from headwater.store.database import Session
from headwater.store.rows import to_ms

_DAY_MS = 86_400_000
Bite = Callable[[Session, datetime, int], int]


def old_articles(default_days: int) -> Bite:
    """Unprocessed articles past the age limit, with the posts only they hold (C1)."""

    def bite(session: Session, now: datetime, limit: int) -> int:
        rows = session.fetch(
            """SELECT a.id FROM articles a JOIN sources s ON s.id = a.source_id
            JOIN podcasts p ON p.id = s.podcast_id
            WHERE a.is_processed = FALSE AND coalesce(a.published_at, a.created_at) < :latest
            AND coalesce(a.published_at, a.created_at)
                < :now - coalesce(p.max_article_age_days, :days) * CAST(86400000 AS BIGINT)
            LIMIT :limit""",
            _limits(session, now, default_days, limit),
        )
        return _delete_articles(session, [row[0] for row in rows])

    return bite


def old_processed(retention_days: int) -> Bite:
    """Processed articles, where they are not kept for ever (C1)."""

    def bite(session: Session, now: datetime, limit: int) -> int:
        rows = session.fetch(
            """SELECT id FROM articles WHERE is_processed = TRUE
            AND coalesce(published_at, created_at) < :before
            AND coalesce(processed_at, created_at) < :before LIMIT :limit""",
            {"before": to_ms(now - timedelta(days=retention_days)), "limit": limit},
        )
        return _delete_articles(session, [row[0] for row in rows])

    return bite


def old_posts(default_days: int) -> Bite:
    """Posts that no article holds, created longer ago than the age limit (C2)."""

    def bite(session: Session, now: datetime, limit: int) -> int:
        rows = session.fetch(
            """SELECT x.id, x.source_id, x.content_hash, x.url FROM posts x
            JOIN sources s ON s.id = x.source_id JOIN podcasts p ON p.id = s.podcast_id
            WHERE NOT x.is_linked AND x.created_at < :latest
            AND x.created_at
                < :now - coalesce(p.max_article_age_days, :days) * CAST(86400000 AS BIGINT)
            ORDER BY x.created_at LIMIT :limit""",
            _limits(session, now, default_days, limit),
        )
        if rows:
            posts.bury(session, [(r[0], r[1], r[2], r[3]) for r in rows])
        return len(rows)

    return bite


def old_polls(days: int) -> Bite:
    """Poll history past its time."""
    return lambda session, now, limit: polls.forget_old(session, now, days, limit)


def _limits(session: Session, now: datetime, default_days: int, limit: int) -> dict[str, object]:
    """Parameters with the moment after which no podcast's limit lies: a range for the index."""
    sql = "SELECT min(coalesce(max_article_age_days, :days)) FROM podcasts"
    shortest = session.fetch(sql, {"days": default_days})[0][0]
    now_ms = to_ms(now) or 0
    latest = now_ms - (default_days if shortest is None else shortest) * _DAY_MS
    return {"now": now_ms, "days": default_days, "latest": latest, "limit": limit}


def _delete_articles(session: Session, ids: list[str]) -> int:
    if not ids:
        return 0
    params = {"ids": session.array(ids)}
    rows = session.fetch(
        f"""SELECT x.id, x.source_id, x.content_hash, x.url FROM posts x
        WHERE x.id IN (SELECT post_id FROM post_articles WHERE {session.among("article_id", "ids")})
        AND NOT EXISTS (SELECT 1 FROM post_articles o
            WHERE o.post_id = x.id AND NOT ({session.among("o.article_id", "ids")}))""",
        params,
    )
    posts.bury(session, [(r[0], r[1], r[2], r[3]) for r in rows])
    return session.execute(f"DELETE FROM articles WHERE {session.among('id', 'ids')}", params)
