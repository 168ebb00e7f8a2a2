"""Processed articles: marked in batches, undone, and deleted (A3, E1, E2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.errors import NotFound
from headwater.store import posts
from headwater.store.database import Row, Session
from headwater.store.row_mapping import from_ms, to_ms

GRACE = timedelta(days=1)  # undone articles and freed posts are kept at least this long (E1)


@dataclass(frozen=True, slots=True)
class ProcessedBatch:
    """Articles that were marked as processed with one name."""

    name: str
    articles: int
    processed_at: datetime  # when the last one was marked
    first_id: str  # of its articles


@dataclass(frozen=True, slots=True)
class Undo:
    """What an undo has changed."""

    unmarked: int  # articles that are not processed any more, deleted digests included
    already: int  # articles that were not processed
    deleted_digests: int
    freed_posts: int  # posts of these digests that are in no article now


def mark_processed(
    session: Session,
    podcast_id: str,
    article_ids: Sequence[str],
    now: datetime,
    *,
    batch: str | None = None,
    skip_missing: bool = False,
) -> tuple[Sequence[str], Sequence[str]]:
    """Mark articles as processed, all or none; return the ids of those that were not before (A3).

    Those that were keep their batch. With `skip_missing` the articles that exist are marked, and
    the missing ids are returned too.
    """
    params = {"ids": article_ids, "podcast": podcast_id, "now": to_ms(now), "batch": batch}
    where = "id IN :ids AND podcast_id = :podcast"
    found = {row[0] for row in session.fetch(f"SELECT id FROM articles WHERE {where}", params)}
    sql = f"""UPDATE articles SET is_processed = TRUE, processed_at = :now, batch = :batch
        WHERE NOT is_processed AND {where} RETURNING id"""
    updated = {row[0] for row in session.fetch(sql, params)}
    wanted = list(dict.fromkeys(article_ids))
    missing = [id_ for id_ in wanted if id_ not in found]
    if missing and not skip_missing:  # the transaction is rolled back
        raise NotFound(f"there is no article {missing[0]}", field="ids")
    return [id_ for id_ in wanted if id_ in updated], missing


def undo(
    session: Session,
    podcast_id: str,
    now: datetime,
    *,
    article_ids: Sequence[str] | None = None,
    batch: str | None = None,
) -> Undo:
    """Undo the marking of these articles, or of a batch: all or none (E1).

    A digest is deleted and its posts are freed: the next aggregation makes another one with the
    posts that arrived since. Other articles keep their id, threads too, which replies extend
    where they are (E3). Cleanup keeps both for a day.
    """
    chosen = "id IN :ids" if batch is None else "batch = :batch"
    sql = f"""SELECT id, is_processed FROM articles WHERE podcast_id = :podcast AND {chosen}
        ORDER BY id FOR UPDATE"""  # like cleanup, which locks articles before their posts
    params = {"podcast": podcast_id, "ids": article_ids, "batch": batch}
    rows = session.fetch(sql, params)
    _refuse_missing(rows, article_ids, batch)
    processed = [row[0] for row in rows if row[1]]
    digests = _digests(session, processed)
    freed = delete_articles(session, digests, now)
    sql = """UPDATE articles SET is_processed = FALSE, processed_at = NULL, batch = NULL,
        kept_until = :until WHERE id IN :ids"""
    session.execute(sql, {"ids": processed, "until": to_ms(now + GRACE)})
    return Undo(len(processed), len(rows) - len(processed), len(digests), freed)


def _refuse_missing(rows: Sequence[Row], ids: Sequence[str] | None, batch: str | None) -> None:
    """Raise NotFound unless there are all these articles, or one of this batch."""
    if batch is not None and not rows:
        raise NotFound(f"there is no batch {batch!r}", field="batch")
    found = {row[0] for row in rows}
    for id_ in ids or ():
        if id_ not in found:
            raise NotFound(f"there is no article {id_}; nothing was undone", field="ids")


def _digests(session: Session, article_ids: Sequence[str]) -> list[str]:
    """The given articles that have a text of their own, made of several posts; no thread."""
    sql = """SELECT l.article_id FROM post_articles l JOIN posts p ON p.id = l.post_id
        JOIN articles a ON a.id = l.article_id WHERE l.article_id IN :ids
            AND NOT l.is_copy AND a.thread_id IS NULL GROUP BY l.article_id
        HAVING count(*) > 1 AND max(CASE WHEN p.content_hash = a.content_hash THEN 1 END) IS NULL"""
    return [row[0] for row in session.fetch(sql, {"ids": article_ids})]


def delete_articles(session: Session, ids: Sequence[str], now: datetime) -> int:
    """Delete articles and free their posts; return how many posts are in no article now."""
    sql = "SELECT DISTINCT post_id FROM post_articles WHERE article_id IN :ids ORDER BY post_id"
    post_ids = [row[0] for row in session.fetch(sql, {"ids": ids})]
    session.execute("DELETE FROM articles WHERE id IN :ids", {"ids": ids})
    sql = """UPDATE posts SET is_linked = FALSE, kept_until = :until WHERE id IN :ids
        AND NOT EXISTS (SELECT 1 FROM post_articles l WHERE l.post_id = posts.id)"""
    return session.execute(sql, {"ids": post_ids, "until": to_ms(now + GRACE)})


def delete(
    session: Session, podcast_id: str, article_id: str, now: datetime, *, drop_posts: bool
) -> int:
    """Delete an article; return how many posts were freed, or deleted with it (E2)."""
    sql = "SELECT id FROM articles WHERE id = :id AND podcast_id = :podcast FOR UPDATE"
    if not session.fetch(sql, {"id": article_id, "podcast": podcast_id}):
        raise NotFound(f"there is no article {article_id}")
    if not drop_posts:
        return delete_articles(session, [article_id], now)
    dropped = posts.only_in(session, [article_id])
    posts.delete(session, dropped)
    session.execute("DELETE FROM articles WHERE id = :id", {"id": article_id})
    return len(dropped)


def batches(
    session: Session, podcast_id: str, *, limit: int, after: tuple[int, str] | None = None
) -> list[ProcessedBatch]:
    """The batches of a podcast, newest first; `after` continues after a time and an id."""
    behind = "" if after is None else "HAVING (max(processed_at), min(id)) < (:at, :id)"
    sql = f"""SELECT batch, count(*), max(processed_at), min(id) FROM articles
        WHERE podcast_id = :podcast AND batch IS NOT NULL GROUP BY batch {behind}
        ORDER BY max(processed_at) DESC, min(id) DESC LIMIT :limit"""
    at, id_ = after or (0, "")
    rows = session.fetch(sql, {"podcast": podcast_id, "limit": limit, "at": at, "id": id_})
    return [ProcessedBatch(name, count, from_ms(ms), first) for name, count, ms, first in rows]
