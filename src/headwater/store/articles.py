"""Articles: what posts were made into, and who still has to read them (A1-A3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.errors import NotFound
from headwater.model import Article, Post, Source
from headwater.store.database import Database, Session
from headwater.store.posts import count_by_source
from headwater.store.rows import (
    ARTICLE_COLUMNS,
    POST_COLUMNS,
    SOURCE_COLUMNS,
    article_from,
    columns,
    content_of,
    post_from,
    source_from,
    to_ms,
)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What an aggregation wrote."""

    created: tuple[Article, ...]
    linked_posts: int


class Articles:
    """The articles table and its links to posts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def aggregate(
        self,
        podcast_id: str,
        *,
        created_after: datetime,
        make: Callable[[Source, Sequence[Post]], Sequence[Article]],
    ) -> Aggregation:
        """Make articles of a podcast's unlinked posts, in one transaction (A1, A3)."""
        return await self._database.write(lambda s: _aggregate(s, podcast_id, created_after, make))

    async def newest(
        self,
        podcast_id: str,
        *,
        processed: bool | None = None,
        limit: int,
        before: str | None = None,
    ) -> Sequence[Article]:
        """Articles of a podcast, newest first; `before` continues behind the last one."""
        return await self._database.read(lambda s: _newest(s, podcast_id, processed, limit, before))

    async def mark_processed(
        self, podcast_id: str, article_ids: Sequence[str], now: datetime
    ) -> int:
        """Mark articles as done with; those that are stay so (A3)."""
        return await self._database.write(
            lambda s: _mark_processed(s, podcast_id, article_ids, now)
        )

    async def counts(self, source_ids: Sequence[str]) -> Mapping[str, int]:
        """How many articles each of these sources has."""
        return await self._database.read(lambda s: count_by_source(s, "articles", source_ids))


def _aggregate(
    session: Session,
    podcast_id: str,
    created_after: datetime,
    make: Callable[[Source, Sequence[Post]], Sequence[Article]],
) -> Aggregation:
    rows = session.fetch(
        f"""SELECT {columns(POST_COLUMNS)} FROM posts
        WHERE podcast_id = :podcast AND NOT is_linked AND created_at >= :after
        ORDER BY source_id, id""",
        {"podcast": podcast_id, "after": to_ms(created_after)},
    )
    posts: dict[str, list[Post]] = {}
    for post in map(post_from, rows):
        posts.setdefault(post.source_id, []).append(post)
    created: list[Article] = []
    for source in _sources(session, list(posts)):
        made = make(source, posts[source.id])
        created += [article for article in made if _keep(session, podcast_id, article)]
    return Aggregation(tuple(created), len(rows))


def _sources(session: Session, ids: Sequence[str]) -> list[Source]:
    rows = session.fetch(
        f"""SELECT {columns(SOURCE_COLUMNS)} FROM sources WHERE {session.among("id", "ids")}
        ORDER BY created_at, id""",
        {"ids": session.array(ids)},
    )
    return [source_from(row) for row in rows]


def _keep(session: Session, podcast_id: str, article: Article) -> bool:
    """Store an article and its links; a hash that exists is linked to that article (A3)."""
    row = content_of(article) | {"podcast_id": podcast_id}
    created = session.execute(
        f"""INSERT INTO articles ({columns(row)})
        VALUES ({", ".join(":" + name for name in row)})
        ON CONFLICT (source_id, content_hash) DO NOTHING""",
        row,
    )
    params = {"source": article.source_id, "hash": article.content_hash}
    sql = "SELECT id FROM articles WHERE source_id = :source AND content_hash = :hash"
    article_id = session.fetch(sql, params)[0][0]
    session.execute_many(
        "INSERT INTO post_articles (post_id, article_id) VALUES (:post, :article) "
        "ON CONFLICT DO NOTHING",
        [{"post": post_id, "article": article_id} for post_id in article.post_ids],
    )
    session.execute(
        f"UPDATE posts SET is_linked = TRUE WHERE {session.among('id', 'ids')}",
        {"ids": session.array(article.post_ids)},
    )
    return created > 0


def _newest(
    session: Session, podcast_id: str, processed: bool | None, limit: int, before: str | None
) -> list[Article]:
    wanted = "" if processed is None else f" AND {'' if processed else 'NOT '}is_processed"
    behind = "" if before is None else " AND id < :before"
    rows = session.fetch(
        f"""SELECT {columns(ARTICLE_COLUMNS)} FROM articles
        WHERE podcast_id = :podcast{wanted}{behind} ORDER BY id DESC LIMIT :limit""",
        {"podcast": podcast_id, "limit": limit, "before": before},
    )
    articles = [article_from(row) for row in rows]
    links = session.fetch(
        f"""SELECT article_id, post_id FROM post_articles
        WHERE {session.among("article_id", "ids")} ORDER BY post_id""",
        {"ids": session.array(article.id for article in articles)},
    )
    by_article: dict[str, list[str]] = {}
    for article_id, post_id in links:
        by_article.setdefault(article_id, []).append(post_id)
    return [replace(a, post_ids=tuple(by_article.get(a.id, ()))) for a in articles]


def _mark_processed(
    session: Session, podcast_id: str, article_ids: Sequence[str], now: datetime
) -> int:
    params = {
        "ids": session.array(article_ids),
        "podcast": podcast_id,
        "now": to_ms(now),
    }
    mine = f"{session.among('id', 'ids')} AND podcast_id = :podcast"
    found = {row[0] for row in session.fetch(f"SELECT id FROM articles WHERE {mine}", params)}
    for article_id in article_ids:
        if article_id not in found:
            raise NotFound(f"there is no article {article_id}")
    return session.execute(
        f"""UPDATE articles SET is_processed = TRUE, processed_at = :now
        WHERE NOT is_processed AND {mine}""",
        params,
    )
