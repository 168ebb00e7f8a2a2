"""Unlinked posts become articles, a bite of them in a transaction (A1, A3)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from headwater.model import Article, Post, Source
from headwater.store.database import Session
from headwater.store.rows import (
    POST_COLUMNS,
    SOURCE_COLUMNS,
    columns,
    content_of,
    post_from,
    source_from,
    to_ms,
)

Maker = Callable[[Source, Sequence[Post]], Sequence[Article]]
POSTS_PER_BITE = 500  # polls that want to be recorded wait until a bite is over


def unlinked(
    session: Session, podcast_id: str, created_after: datetime
) -> list[tuple[Source, list[str]]]:
    """The sources with posts that are in no article yet, and the ids of those."""
    rows = session.fetch(
        """SELECT source_id, id FROM posts
        WHERE podcast_id = :podcast AND NOT is_linked AND created_at >= :after
        ORDER BY source_id, id""",
        {"podcast": podcast_id, "after": to_ms(created_after)},
    )
    posts: dict[str, list[str]] = {}
    for source_id, post_id in rows:
        posts.setdefault(source_id, []).append(post_id)
    return [(source, posts[source.id]) for source in _sources(session, posts)]


def bites(
    waiting: Iterable[tuple[Source, Sequence[str]]], is_whole: Callable[[Source], bool]
) -> Iterator[list[str]]:
    """Ids of posts that are made into articles together; a whole source is never split."""
    bite: list[str] = []
    for source, post_ids in waiting:
        size = len(post_ids) if is_whole(source) else POSTS_PER_BITE
        for first in range(0, len(post_ids), size):
            piece = post_ids[first : first + size]
            if bite and len(bite) + len(piece) > POSTS_PER_BITE:
                yield bite
                bite = []
            bite.extend(piece)
    if bite:
        yield bite


def aggregate(
    session: Session, *, podcast_id: str, post_ids: Sequence[str], make: Maker
) -> tuple[list[Article], int]:
    """Make and store articles of posts; answer those that are new, and how many posts they took."""
    # whoever aggregates at the same time has linked some of these, or waits until they are
    lock = "FOR UPDATE" if session.kind == "postgres" else ""
    rows = session.fetch(
        f"""SELECT {columns(POST_COLUMNS)} FROM posts
        WHERE {session.among("id", "ids")} AND NOT is_linked ORDER BY source_id, id {lock}""",
        {"ids": session.array(post_ids)},
    )
    posts: dict[str, list[Post]] = {}
    for post in map(post_from, rows):
        posts.setdefault(post.source_id, []).append(post)
    made = [a for source in _sources(session, posts) for a in make(source, posts[source.id])]
    return _keep(session, podcast_id, made), len(rows)


def _sources(session: Session, ids: Iterable[str]) -> list[Source]:
    rows = session.fetch(
        f"""SELECT {columns(SOURCE_COLUMNS)} FROM sources WHERE {session.among("id", "ids")}
        ORDER BY created_at, id""",
        {"ids": session.array(ids)},
    )
    return [source_from(row) for row in rows]


def _keep(session: Session, podcast_id: str, made: Sequence[Article]) -> list[Article]:
    """Store articles and their links; a hash that exists is linked to that article (A3)."""
    ids = _stored_ids(session, made)
    new = []
    for article in made:
        if (key := _key(article)) not in ids:
            ids[key] = article.id
            new.append(article)
    session.insert_rows("articles", [content_of(a) | {"podcast_id": podcast_id} for a in new])
    links = [
        {"post_id": post_id, "article_id": ids[_key(article)]}
        for article in made
        for post_id in article.post_ids
    ]
    session.insert_rows("post_articles", links, "ON CONFLICT DO NOTHING")
    session.execute(
        f"UPDATE posts SET is_linked = TRUE WHERE {session.among('id', 'ids')}",
        {"ids": session.array(link["post_id"] for link in links)},
    )
    return new


def _stored_ids(session: Session, made: Sequence[Article]) -> dict[tuple[str, str], str]:
    """The ids of those that are there already, by source and hash."""
    lock = "FOR KEY SHARE" if session.kind == "postgres" else ""  # until they are linked (C1)
    rows = session.fetch(
        f"""SELECT source_id, content_hash, id FROM articles
        WHERE {session.among("source_id", "sources")}
        AND {session.among("content_hash", "hashes")} {lock}""",
        {
            "sources": session.array({article.source_id for article in made}),
            "hashes": session.array({article.content_hash for article in made}),
        },
    )
    return {(source_id, digest): id_ for source_id, digest, id_ in rows}


def _key(article: Article) -> tuple[str, str]:
    return article.source_id, article.content_hash
