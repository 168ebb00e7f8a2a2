"""Unlinked posts become articles, a bite of them in a transaction (A1, A3)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from headwater.model import Article, Post, Source
from headwater.rules.digest import MOST_CHARACTERS, MOST_POSTS, portion_sizes
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
# Polls that want to be recorded wait until a bite is over, and all of it is in memory.
POSTS_PER_BITE = MOST_POSTS
CHARACTERS_PER_BITE = MOST_CHARACTERS


def unlinked(session: Session, podcast_id: str, created_after: datetime) -> list[list[str]]:
    """The posts that are in no article yet, by their ids, cut into bites.

    Sources come in the order they were added, and their posts by age, as digests want them.
    """
    rows = session.fetch(
        """SELECT source_id, id, length(body) FROM posts
        WHERE podcast_id = :podcast AND NOT is_linked AND created_at >= :after
        ORDER BY source_id, id""",
        {"podcast": podcast_id, "after": to_ms(created_after)},
    )
    posts: dict[str, list[tuple[str, int]]] = {}
    for source_id, post_id, length in rows:
        posts.setdefault(source_id, []).append((post_id, length))
    return list(_bites(posts[source.id] for source in _sources(session, posts)))


def _bites(waiting: Iterable[Sequence[tuple[str, int]]]) -> Iterator[list[str]]:
    """Ids of posts that are made into articles together; what a digest takes is never split."""
    bite: list[str] = []
    total = 0
    for posts in waiting:
        first = 0
        for size in portion_sizes(length for _, length in posts):
            piece = posts[first : first + size]
            weight = sum(length for _, length in piece)
            over = len(bite) + size > POSTS_PER_BITE or total + weight > CHARACTERS_PER_BITE
            if bite and over:
                yield bite
                bite, total = [], 0
            bite += [id_ for id_, _ in piece]
            total += weight
            first += size
    if bite:
        yield bite


def aggregate(
    session: Session, *, podcast_id: str, post_ids: Sequence[str], make: Maker
) -> tuple[list[str], int]:
    """Make and store articles of posts; answer the new ones' ids, and how many posts they took."""
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


def _keep(session: Session, podcast_id: str, made: Sequence[Article]) -> list[str]:
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
    return [article.id for article in new]


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
