"""Threads in the database: what an aggregation continues, and articles that it extends (E3)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from headwater.model import Article, Post, Source, SourceType
from headwater.rules.admission import first_id
from headwater.rules.digest import MAX_CHARACTERS
from headwater.rules.threads import (
    LONGEST_PAUSE,
    MARKER_LENGTH,
    NO_CONTEXT,
    ThreadArticle,
    ThreadContext,
    ThreadPost,
    is_threaded,
    post_time,
)
from headwater.store.database import Row, Session
from headwater.store.row_mapping import (
    LENGTHS,
    POST_COLUMNS,
    columns,
    from_ms,
    read_post,
    row_of_article,
    to_ms,
)
from headwater.store.sequence_numbers import mark_changed

_MAX_NEARBY = 5_000
# An article that a client has scored or annotated was read: it stays as it is.
_OPEN = "NOT is_processed AND score IS NULL AND annotations IS NULL"
_EXTENDED_COLUMNS = (
    *("id", "title", "body", "url", "published_at", "author", "content_hash", "markdown"),
    *("kept_until", "follow_up_of"),
)


def context_of(
    session: Session,
    source: Source,
    posts: Sequence[Post],
    pending_since: datetime,
    *,
    lock: str = "",
) -> ThreadContext:
    """What is stored around the posts of a source, if it is aggregated by threads.

    Posts with a page visit that is pending since a later time are pending (T4).
    """
    if not posts or not is_threaded(source):
        return NO_CONTEXT
    if source.type is not SourceType.RSS:
        conversations = {post.conversation_id for post in posts}
        return ThreadContext((), _articles(session, source, conversations, lock))
    nearby = _nearby(session, source, posts, pending_since)
    ids = [*(post.id for post in posts), *(one.thread_id for one in nearby)]
    return ThreadContext(nearby, _articles(session, source, ids, lock))


def _nearby(
    session: Session, source: Source, posts: Sequence[Post], pending_since: datetime
) -> tuple[ThreadPost, ...]:
    """Other posts of the source at the time of these, and within the longest pause of it."""
    sql = f"""SELECT p.id, substr(p.title, 1, {MARKER_LENGTH}), p.author,
            coalesce(p.published_at, p.created_at), a.thread_id,
            NOT p.is_linked AND p.filtered_by IS NULL AND EXISTS (SELECT 1 FROM page_visits v
                WHERE v.post_id = p.id AND v.created_at > :pending_since)
        FROM posts p LEFT JOIN post_articles l ON l.post_id = p.id AND NOT l.is_copy
            LEFT JOIN articles a ON a.id = l.article_id
        WHERE p.source_id = :source AND p.id >= :first AND p.id < :end
        ORDER BY p.id DESC LIMIT {_MAX_NEARBY}"""
    times = [post_time(post) for post in posts]
    params = {
        "source": source.id,
        "first": first_id(min(times) - LONGEST_PAUSE),
        "end": first_id(max(times) + LONGEST_PAUSE + timedelta(milliseconds=1)),
        "pending_since": to_ms(pending_since),
    }
    own = {post.id for post in posts}
    return tuple(
        ThreadPost(id_, title, author, from_ms(at), thread_id, bool(is_pending))
        for id_, title, author, at, thread_id, is_pending in session.fetch(sql, params)
        if id_ not in own
    )


def _articles(
    session: Session, source: Source, thread_ids: Iterable[str | None], lock: str
) -> tuple[ThreadArticle, ...]:
    """The articles of threads; those that may be extended have their posts."""
    sql = f"""SELECT id, thread_id, seq, coalesce(published_at, created_at), kept_until,
            {LENGTHS["articles"]}, {_OPEN} FROM articles
        WHERE source_id = :source AND thread_id IN :threads AND seq IS NOT NULL
        ORDER BY id {lock}"""
    wanted = {id_ for id_ in thread_ids if id_ is not None}
    rows = session.fetch(sql, {"source": source.id, "threads": wanted})
    posts = _posts_of(session, _within_memory([row for row in rows if row[-1]]))
    return tuple(
        ThreadArticle(
            id=id_,
            thread_id=thread_id,
            seq=seq,
            newest_at=from_ms(at),
            kept_until=None if kept_until is None else from_ms(kept_until),
            posts=tuple(posts.get(id_, ())),
        )
        for id_, thread_id, seq, at, kept_until, *_ in rows
    )


def _within_memory(rows: Sequence[Row]) -> list[str]:
    """The ids of articles, as far as their total length is that of one batch."""
    ids, total = list[str](), 0
    for id_, *_, length, _ in rows:
        total += length
        if total <= MAX_CHARACTERS:
            ids.append(id_)
    return ids


def _posts_of(session: Session, article_ids: Sequence[str]) -> dict[str, list[Post]]:
    """The posts that articles were made of."""
    sql = f"""SELECT l.article_id, {columns(POST_COLUMNS, "p")} FROM post_articles l
        JOIN posts p ON p.id = l.post_id WHERE l.article_id IN :ids AND NOT l.is_copy"""
    found: dict[str, list[Post]] = {}
    for article_id, *row in session.fetch(sql, {"ids": article_ids}):
        found.setdefault(article_id, []).extend(read_post.all([row]))
    return found


def extend(session: Session, articles: Sequence[Article]) -> None:
    """Store the new text of articles; they count as changed (V1)."""
    rows = [row_of_article(article) for article in articles]
    chosen = [{name: row[name] for name in _EXTENDED_COLUMNS} for row in rows]
    session.update_rows("articles", chosen)
    mark_changed(session, "articles", [article.id for article in articles])
