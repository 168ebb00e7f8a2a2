"""Aggregation: waiting posts in batches, and the articles that are made of them (A1, A3)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headwater.model import Article, Post, Source
from headwater.rules.digest import MAX_CHARACTERS, MAX_POSTS, digest_sizes
from headwater.rules.threads import ThreadContext
from headwater.store import sequence_numbers, stories, threads
from headwater.store.database import Session
from headwater.store.row_mapping import (
    POST_COLUMNS,
    SOURCE_COLUMNS,
    columns,
    read_post,
    read_source,
    row_of_article,
    to_ms,
)

# Polls wait to be recorded while a batch is written, and all of it is in memory.
POSTS_PER_BATCH = MAX_POSTS
CHARACTERS_PER_BATCH = MAX_CHARACTERS
MAX_PENDING = 10_000
# Posts that an aggregation uses: within the age window, or freed by an undo (E1). The first bound
# holds for all: with it SQLite reads posts_unlinked_age, without it all posts of the podcast.
_WAITING = """NOT is_linked AND created_at >= 0 AND filtered_by IS NULL
    AND (created_at >= :after OR kept_until IS NOT NULL)"""


class Maker(Protocol):
    """Makes articles of the posts of a source."""

    def __call__(
        self, source: Source, posts: Sequence[Post], /, *, context: ThreadContext
    ) -> Sequence[Article]:
        """New articles, and stored ones that get further posts."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What an aggregation would make: numbers of articles and posts, and the first articles."""

    created: int
    linked_posts: int
    articles: tuple[Article, ...]
    copies: int = 0  # further posts that would be linked: of the stories of these, or of known ones


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The ids of new articles, and the number of posts linked to new or existing ones."""

    created: tuple[str, ...]
    linked_posts: int


def unlinked(
    session: Session,
    podcast_id: str,
    created_after: datetime,
    pending_since: datetime,
    *,
    story_once: bool,
    limit: int | None = None,
) -> list[list[str]]:
    """The ids of posts that are in no article yet, split into batches.

    They were created within the age window, or an undo has freed them (E1). With a limit, which is
    at least MAX_POSTS, they are at most this many, and the others of their digests are among them.

    Posts with a page visit that is pending since a later time are left out (T4), with `story_once`
    also those whose story another post represents (I2).
    Sources come in the order they were added, and their posts by age, as digests need them.
    """
    sql = f"""SELECT source_id, id, coalesce(length(page_text), length(body)) FROM posts
        WHERE podcast_id = :podcast AND {_WAITING}
            AND NOT EXISTS (SELECT 1 FROM page_visits v
                WHERE v.post_id = posts.id AND v.created_at > :pending_since)
            {stories.WAITING_ONCE if story_once else ""}
        ORDER BY source_id, id{"" if limit is None else " LIMIT :limit"}"""
    params = {"after": to_ms(created_after), "pending_since": to_ms(pending_since)}
    if limit is not None:
        params["limit"] = limit + 1
    rows = session.fetch(sql, {"podcast": podcast_id} | params)
    posts: dict[str, list[tuple[str, int]]] = {}
    for source_id, post_id, length in rows:
        posts.setdefault(source_id, []).append((post_id, length))
    if limit is not None and len(rows) > limit:
        cut_off = posts[rows[-1][0]]  # its last digest may have more posts
        del cut_off[-list(digest_sizes(length for _, length in cut_off))[-1] :]
    return list(_batches(posts[source.id] for source in _sources(session, posts)))


def _batches(posts_by_source: Iterable[Sequence[tuple[str, int]]]) -> Iterator[list[str]]:
    """Batches of post ids; the posts of one digest are never split."""
    batch: list[str] = []
    total = 0
    for posts in posts_by_source:
        first = 0
        for size in digest_sizes(length for _, length in posts):
            portion = posts[first : first + size]
            weight = sum(length for _, length in portion)
            over = len(batch) + size > POSTS_PER_BATCH or total + weight > CHARACTERS_PER_BATCH
            if batch and over:
                yield batch
                batch, total = [], 0
            batch += [id_ for id_, _ in portion]
            total += weight
            first += size
    if batch:
        yield batch


def aggregate(
    session: Session,
    *,
    podcast_id: str,
    post_ids: Sequence[str],
    pending_since: datetime,
    make: Maker,
) -> tuple[list[str], int]:
    """Make and store articles; return the ids of new ones, and the number of posts linked."""
    # the lock excludes concurrent aggregations, which may have linked some of these posts already
    made, posts = _make(session, post_ids, pending_since, make, lock="FOR UPDATE")
    return _store(session, podcast_id, made), posts


def planned(
    session: Session,
    *,
    post_ids: Sequence[str],
    pending_since: datetime,
    story_once: bool,
    make: Maker,
) -> tuple[list[Article], int, int]:
    """The articles that `aggregate` would create, and the numbers of posts linked and of copies."""
    made, posts = _make(session, post_ids, pending_since, make)
    known = _known(session, made)
    new = [a for a in made if a.seq is None and (a.source_id, a.content_hash) not in known]
    used = [id_ for article in made for id_ in article.post_ids]
    return new, posts, stories.count_copies_of(session, used) if story_once else 0


def _make(
    session: Session,
    post_ids: Sequence[str],
    pending_since: datetime,
    make: Maker,
    *,
    lock: str = "",
) -> tuple[list[Article], int]:
    """The articles of the given posts that are in none, and the number of these posts.

    An article that has a number is stored already and gets further posts (E3).
    """
    sql = f"""SELECT {columns(POST_COLUMNS)} FROM posts
        WHERE id IN :ids AND NOT is_linked AND filtered_by IS NULL
        ORDER BY source_id, id {lock}"""
    rows = session.fetch(sql, {"ids": post_ids})
    posts: dict[str, list[Post]] = {}
    for post in read_post.all(rows):
        posts.setdefault(post.source_id, []).append(post)
    made: list[Article] = []
    for source in _sources(session, posts):
        own = posts[source.id]
        context = threads.context_of(session, source, own, pending_since, lock=lock)
        made += make(source, own, context=context)
    waiting = {post.id for own in posts.values() for post in own}
    return made, len(waiting.intersection(id_ for article in made for id_ in article.post_ids))


def _sources(session: Session, ids: Iterable[str]) -> list[Source]:
    sql = f"SELECT {columns(SOURCE_COLUMNS)} FROM sources WHERE id IN :ids ORDER BY created_at, id"
    rows = session.fetch(sql, {"ids": list(ids)})
    return read_source.all(rows)


def _store(session: Session, podcast_id: str, made: Sequence[Article]) -> list[str]:
    """Store articles and links; posts with a known hash are linked to that article (A3)."""
    # the lock keeps cleanup from deleting articles before they are linked
    ids = _known(session, made, lock="FOR KEY SHARE")
    new, extended, links = list[Article](), list[Article](), list[dict[str, str]]()
    for article in made:
        key = article.source_id, article.content_hash
        if article.seq is not None and key not in ids:
            ids[key] = article.id
            extended.append(article)
        elif key not in ids:
            ids[key] = article.id
            new.append(article)
        links += [{"post_id": id_, "article_id": ids[key]} for id_ in article.post_ids]
    rows = [
        row_of_article(article) | {"podcast_id": podcast_id, "seq": seq}
        for article, seq in zip(new, sequence_numbers.take(session, len(new)), strict=True)
    ]
    session.insert_rows("articles", rows)
    threads.extend(session, extended)
    session.insert_rows("post_articles", links, "ON CONFLICT DO NOTHING")
    sql = "UPDATE posts SET is_linked = TRUE WHERE id IN :ids"
    session.execute(sql, {"ids": [link["post_id"] for link in links]})
    return [article.id for article in new]


def _known(
    session: Session, made: Sequence[Article], *, lock: str = ""
) -> dict[tuple[str, str], str]:
    """The ids of stored articles with the same text, by source and hash."""
    sql = f"""SELECT source_id, content_hash, id FROM articles
        WHERE source_id IN :sources AND content_hash IN :hashes {lock}"""
    params = {"sources": {a.source_id for a in made}, "hashes": {a.content_hash for a in made}}
    return {(source_id, digest): id_ for source_id, digest, id_ in session.fetch(sql, params)}


def pending(session: Session, windows: Mapping[str, datetime]) -> dict[str, int]:
    """How many posts an aggregation would use, by podcast; at most `MAX_PENDING` are counted.

    `windows` has the start of the age window of each podcast.
    """
    sql = f"""SELECT count(*) FROM (SELECT 1 FROM posts
        WHERE podcast_id = :podcast AND {_WAITING} LIMIT :most) AS waiting"""
    return {
        id_: session.fetch(sql, {"podcast": id_, "after": to_ms(after), "most": MAX_PENDING})[0][0]
        for id_, after in windows.items()
    }
