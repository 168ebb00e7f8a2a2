"""Bites of cleanup: what is past its time is found without a lock, then removed at once (C1-C3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from headwater.store import marks, polls, posts
from headwater.store.database import Params, Session
from headwater.store.rows import to_ms

Ids = Sequence[Any]
_AGE = "coalesce(x.published_at, x.created_at)"
_LATEST = {"sqlite": "max", "postgres": "greatest"}
_LOCKED = {"sqlite": "", "postgres": "ORDER BY id FOR UPDATE"}


class _Aging(NamedTuple):
    """Rows with an age limit, named as the index over them names its parts."""

    table: str
    owner: str
    state: str
    moment: str


_ARTICLES = {
    "sqlite": _Aging("articles", "x.podcast_id", "NOT x.is_processed", _AGE),
    "postgres": _Aging("articles", "x.podcast_id || ''", "NOT x.is_processed", _AGE),
}
_POSTS = _Aging("posts", "x.podcast_id", "NOT x.is_linked", "x.created_at")


@dataclass(frozen=True, slots=True)
class Bite:
    """A kind of rows to clean up.

    The writer, whom polls wait for, has to do with no other rows than those that go.
    """

    find: Callable[[Session, datetime, int], Ids]  # no more than so many
    remove: Callable[[Session, Ids, int], int]  # those that still may go, about so many rows


def old_articles(default_days: int) -> Bite:
    """Unprocessed articles past the age limit, with the posts only they hold (C1)."""

    def find(session: Session, now: datetime, limit: int) -> Ids:
        params = {"now": to_ms(now), "days": default_days, "limit": limit}
        return _past_age_limit(session, _ARTICLES[session.kind], params)

    return Bite(find, partial(_remove_articles, state="NOT is_processed"))


def old_processed(retention_days: int) -> Bite:
    """Processed articles, where they are not kept for ever (C1)."""

    def find(session: Session, now: datetime, limit: int) -> Ids:
        latest = f"{_LATEST[session.kind]}({_AGE}, coalesce(x.processed_at, x.created_at))"
        rows = session.fetch(
            f"""SELECT x.id FROM articles x WHERE x.is_processed AND {latest} < :before
            ORDER BY {latest} LIMIT :limit""",
            {"before": to_ms(now - timedelta(days=retention_days)), "limit": limit},
        )
        return [row[0] for row in rows]

    return Bite(find, partial(_remove_articles, state="is_processed"))


def old_posts(default_days: int) -> Bite:
    """Posts that no article holds, created longer ago than the age limit (C2)."""

    def find(session: Session, now: datetime, limit: int) -> Ids:
        params = {"now": to_ms(now), "days": default_days, "limit": limit}
        return _past_age_limit(session, _POSTS, params)

    return Bite(find, _remove_posts)


def old_polls(days: int) -> Bite:
    """Poll history past its time."""
    return Bite(
        lambda session, now, limit: polls.old(session, now, days, limit),
        lambda session, ids, _limit: polls.forget(session, ids),
    )


def unmarked_posts() -> Bite:
    """What a podcast stored before it took every story once: it is marked, nothing goes (D5)."""
    return Bite(marks.unmarked, marks.mark_some)


def _past_age_limit(session: Session, rows: _Aging, params: Params) -> Ids:
    """Rows older than their podcast allows: the beginning of an index range for each podcast."""
    past = f"""{rows.owner} = p.id AND {rows.state} AND {rows.moment}
        < :now - coalesce(p.max_article_age_days, :days) * CAST(86400000 AS BIGINT)"""
    sql = {
        "sqlite": f"SELECT x.id FROM podcasts p CROSS JOIN {rows.table} x ON {past} LIMIT :limit",
        # no order here, and a whole table would be read for what may be nothing
        "postgres": f"""SELECT y.id FROM podcasts p CROSS JOIN LATERAL
            (SELECT x.id FROM {rows.table} x WHERE {past} ORDER BY {rows.moment} LIMIT :limit) y
            LIMIT :limit""",
    }
    return [row[0] for row in session.fetch(sql[session.kind], params)]


def _remove_posts(session: Session, ids: Ids, _limit: int) -> int:
    rows = session.fetch(
        f"""SELECT id, source_id, content_hash, url FROM posts
        WHERE {session.among("id", "ids")} AND NOT is_linked {_LOCKED[session.kind]}""",
        {"ids": session.array(ids)},
    )
    posts.bury(session, [(r[0], r[1], r[2], r[3]) for r in rows])
    return len(rows)


def _remove_articles(session: Session, ids: Ids, limit: int, *, state: str) -> int:
    rows = session.fetch(
        f"""SELECT id FROM articles WHERE {session.among("id", "ids")} AND {state}
        {_LOCKED[session.kind]}""",
        {"ids": session.array(ids)},
    )
    params = {"ids": session.array(_within(session, [row[0] for row in rows], limit))}
    held = session.fetch(
        f"""SELECT x.id, x.source_id, x.content_hash, x.url FROM posts x
        WHERE x.id IN (SELECT post_id FROM post_articles WHERE {session.among("article_id", "ids")})
        AND NOT EXISTS (SELECT 1 FROM post_articles o
            WHERE o.post_id = x.id AND NOT ({session.among("o.article_id", "ids")}))""",
        params,
    )
    posts.bury(session, [(r[0], r[1], r[2], r[3]) for r in held])
    gone = session.execute(f"DELETE FROM articles WHERE {session.among('id', 'ids')}", params)
    return gone + len(held)


def _within(session: Session, ids: list[str], limit: int) -> list[str]:
    """The first of these articles that come to the limit with their posts; one in any case."""
    sql = f"""SELECT article_id, count(*) FROM post_articles
        WHERE {session.among("article_id", "ids")} GROUP BY article_id"""
    posts_of: dict[str, int] = dict(session.fetch(sql, {"ids": session.array(ids)}))
    weights = accumulate(1 + posts_of.get(id_, 0) for id_ in ids)
    return [
        id_
        for place, (id_, total) in enumerate(zip(ids, weights, strict=True))
        if place == 0 or total <= limit
    ]
