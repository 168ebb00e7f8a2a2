"""Articles: what posts were made into, and who still has to read them (A1-A3)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from headwater.errors import NotFound
from headwater.model import Article
from headwater.store.aggregation import Maker, aggregate, unlinked
from headwater.store.database import Database, Row, Session
from headwater.store.parts import Part, Stretch, fitting, part_of
from headwater.store.posts import count_by_source
from headwater.store.rows import ARTICLE_COLUMNS, article_from, columns, to_ms

_MEASURED_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 1_000_000
_STATES = {None: "", True: " AND is_processed", False: " AND NOT is_processed"}


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What an aggregation wrote: the ids of new articles, of which there may be many."""

    created: tuple[str, ...]
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
        make: Maker,
    ) -> Aggregation:
        """Make articles of a podcast's unlinked posts, bite by bite (A1, A3).

        What `make` is given at once is stored at once, links and all. The posts of a source are
        given to it in several bites where they are too much for one digest.
        """
        waiting = await self._database.read(lambda s: unlinked(s, podcast_id, created_after))
        created: list[str] = []
        linked = 0
        for bite in waiting:
            work = partial(aggregate, podcast_id=podcast_id, post_ids=bite, make=make)
            new, posts = await self._database.write(work)
            created += new
            linked += posts
        return Aggregation(tuple(created), linked)

    async def get(self, podcast_id: str, article_id: str) -> Article:
        """An article of a podcast."""
        return await self._database.read(lambda s: _article(s, podcast_id, article_id))

    async def each(self, podcast_id: str, ids: Sequence[str]) -> AsyncIterator[Article]:
        """Those of these articles that there are, in this order; few are in memory at once."""
        read = self._database.read
        for first in range(0, len(ids), _MEASURED_AT_ONCE):
            left = ids[first : first + _MEASURED_AT_ONCE]
            lengths = await read(partial(_lengths, podcast_id=podcast_id, ids=left))
            while left:
                count = fitting([lengths.get(id_, 0) for id_ in left], _CHARACTERS_AT_ONCE)
                for article in await read(partial(_some, podcast_id=podcast_id, ids=left[:count])):
                    yield article
                left = left[count:]

    async def newest(
        self,
        podcast_id: str,
        *,
        processed: bool | None = None,
        limit: int,
        before: str | None = None,
    ) -> Sequence[Article]:
        """Articles of a podcast, newest first; `before` continues behind the last one."""
        wanted = Stretch("podcast_id", podcast_id, limit, before, also=_STATES[processed])
        return await self._database.read(lambda s: _newest(s, wanted))

    async def page(
        self,
        podcast_id: str,
        *,
        processed: bool | None = None,
        limit: int,
        behind: str | None = None,
        oldest_first: bool = False,
    ) -> Part[Article]:
        """Articles in either order; `behind` continues, and long ones make a page shorter."""
        wanted = Stretch(
            "podcast_id",
            podcast_id,
            limit,
            behind,
            oldest_first=oldest_first,
            also=_STATES[processed],
        )
        return await self._database.read(lambda s: _page(s, wanted))

    async def mark_processed(
        self, podcast_id: str, article_ids: Sequence[str], now: datetime
    ) -> int:
        """Mark articles as done with; those that are stay so (A3)."""
        return await self._database.write(
            lambda s: _mark_processed(s, podcast_id, article_ids, now)
        )

    async def mark_present(
        self, podcast_id: str, article_ids: Sequence[str], now: datetime
    ) -> tuple[int, Sequence[str]]:
        """Mark those that there are; how many were not marked before, and which are missing."""
        return await self._database.write(lambda s: _mark_present(s, podcast_id, article_ids, now))

    async def counts(self, source_ids: Sequence[str]) -> Mapping[str, int]:
        """How many articles each of these sources has."""
        return await self._database.read(lambda s: count_by_source(s, "articles", source_ids))


def _article(session: Session, podcast_id: str, article_id: str) -> Article:
    rows = session.fetch(
        f"SELECT {columns(ARTICLE_COLUMNS)} FROM articles WHERE id = :id AND podcast_id = :podcast",
        {"id": article_id, "podcast": podcast_id},
    )
    if not rows:
        raise NotFound(f"there is no article {article_id}")
    return _with_posts(session, rows)[0]


def _lengths(session: Session, *, podcast_id: str, ids: Sequence[str]) -> dict[str, int]:
    sql = f"""SELECT id, length(body) FROM articles
        WHERE {session.among("id", "ids")} AND podcast_id = :podcast"""
    return dict(session.fetch(sql, {"ids": session.array(ids), "podcast": podcast_id}))


def _some(session: Session, *, podcast_id: str, ids: Sequence[str]) -> list[Article]:
    """Those of these articles that there are, in the order of their ids given."""
    rows = session.fetch(
        f"""SELECT {columns(ARTICLE_COLUMNS)} FROM articles
        WHERE {session.among("id", "ids")} AND podcast_id = :podcast""",
        {"ids": session.array(ids), "podcast": podcast_id},
    )
    found = {article.id: article for article in _with_posts(session, rows)}
    return [found[id_] for id_ in ids if id_ in found]


def _newest(session: Session, wanted: Stretch) -> list[Article]:
    sql = f"SELECT {columns(ARTICLE_COLUMNS)} FROM articles {wanted.sql(session.kind)}"
    return _with_posts(session, session.fetch(sql, wanted.params))


def _page(session: Session, wanted: Stretch) -> Part[Article]:
    rows, more = part_of(session, "articles", ARTICLE_COLUMNS, wanted)
    return Part(tuple(_with_posts(session, rows)), more)


def _with_posts(session: Session, rows: Sequence[Row]) -> list[Article]:
    """Articles with the ids of the posts that they were made of."""
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
    marked, missing = _mark_present(session, podcast_id, article_ids, now)
    if missing:  # and the transaction takes the others back
        raise NotFound(f"there is no article {missing[0]}")
    return marked


def _mark_present(
    session: Session, podcast_id: str, article_ids: Sequence[str], now: datetime
) -> tuple[int, Sequence[str]]:
    params = {
        "ids": session.array(article_ids),
        "podcast": podcast_id,
        "now": to_ms(now),
    }
    mine = f"{session.among('id', 'ids')} AND podcast_id = :podcast"
    found = {row[0] for row in session.fetch(f"SELECT id FROM articles WHERE {mine}", params)}
    marked = session.execute(
        f"""UPDATE articles SET is_processed = TRUE, processed_at = :now
        WHERE NOT is_processed AND {mine}""",
        params,
    )
    return marked, [one for one in dict.fromkeys(article_ids) if one not in found]
