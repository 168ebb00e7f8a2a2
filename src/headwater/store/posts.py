"""Posts, and what is known to have been one (D1, D5, R5, R8)."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.model import Outcome, Post, Subject
from headwater.rules.admission import Known, Sifted, link_mark, mark
from headwater.store.database import Database, Session
from headwater.store.parts import Part, Stretch, part_of
from headwater.store.rows import POST_COLUMNS, columns, content_of, post_from


class Posts:
    """The posts table and its tombstones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, subject: Subject, sifted: Sifted) -> Known:
        """What of an answer was ever stored."""
        if not sifted.candidates and not sifted.late_keys:
            return Known()
        return await self._database.read(lambda s: known(s, subject, sifted))

    async def newest(
        self,
        *,
        podcast_id: str | None = None,
        source_id: str | None = None,
        limit: int,
        before: str | None = None,
    ) -> Sequence[Post]:
        """Posts of a podcast or source, newest first; `before` continues behind the last one."""
        wanted = _newest(podcast_id, source_id, limit, before)
        sql = f"SELECT {columns(POST_COLUMNS)} FROM posts "
        rows = await self._database.read(lambda s: s.fetch(sql + wanted.sql(s.kind), wanted.params))
        return [post_from(row) for row in rows]

    async def page(
        self,
        *,
        podcast_id: str | None = None,
        source_id: str | None = None,
        limit: int,
        before: str | None = None,
    ) -> Part[Post]:
        """The same for a page, which long posts make shorter."""
        wanted = _newest(podcast_id, source_id, limit, before)
        rows, more = await self._database.read(lambda s: part_of(s, "posts", POST_COLUMNS, wanted))
        return Part(tuple(post_from(row) for row in rows), more)

    async def counts(self, source_ids: Sequence[str]) -> Mapping[str, int]:
        """How many posts each of these sources has."""
        return await self._database.read(lambda s: count_by_source(s, "posts", source_ids))

    async def count(self, source_id: str | None = None) -> int:
        """How many posts there are, of one source or of all."""
        where = " WHERE source_id = :source" if source_id is not None else ""
        sql = f"SELECT count(*) FROM posts{where}"
        rows = await self._database.read(lambda s: s.fetch(sql, {"source": source_id}))
        return int(rows[0][0])


def known(session: Session, subject: Subject, sifted: Sifted) -> Known:
    """Look every hash up among posts and tombstones, of the source or its podcast (D1, D5)."""
    source = subject.source
    scope, owner = "= :owner", source.id
    if subject.dedupe_across_sources:
        scope = "IN (SELECT id FROM sources WHERE podcast_id = :owner)"
        owner = source.podcast_id
    hashes = set(sifted.hashes)
    stored = session.fetch(
        f"""SELECT content_hash, url, source_id FROM posts
        WHERE source_id {scope} AND {session.among("content_hash", "hashes")}""",
        {"owner": owner, "hashes": session.array(hashes)},
    )
    buried = session.fetch(
        f"""SELECT mark, link, source_id FROM tombstones
        WHERE source_id {scope} AND {session.among("mark", "marks")}""",
        {"owner": owner, "marks": session.array({mark(h) for h in hashes})},
    )
    at_links = {(mark(h), link_mark(url)) for h, url, owner in stored if owner == source.id}
    at_links |= {(found, link) for found, link, owner in buried if owner == source.id}
    return Known(
        marks=frozenset({mark(row[0]) for row in stored} | {row[0] for row in buried}),
        marks_at_link=frozenset(at_links),
        late_keys=_late_keys(session, source.id, sifted),
    )


def insert(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Store the posts of polls; one that is there already stays as it is."""
    rows = [
        content_of(post) | {"podcast_id": outcome.source.podcast_id}
        for outcome in outcomes
        for post in outcome.posts
    ]
    session.insert_rows("posts", rows, "ON CONFLICT (source_id, content_hash) DO NOTHING")


def count_by_source(session: Session, table: str, source_ids: Sequence[str]) -> dict[str, int]:
    """How many rows of a table each source has."""
    sql = f"""SELECT source_id, count(*) FROM {table}
        WHERE {session.among("source_id", "ids")} GROUP BY source_id"""
    return dict(session.fetch(sql, {"ids": session.array(source_ids)}))


def bury(session: Session, rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Delete posts given as (id, source_id, content_hash, url) and remember their hashes (D1)."""
    session.execute_many(
        """INSERT INTO tombstones (source_id, mark, link) VALUES (:source, :mark, :link)
        ON CONFLICT DO NOTHING""",
        [{"source": s, "mark": mark(h), "link": link_mark(url)} for _, s, h, url in rows],
    )
    session.execute(
        f"DELETE FROM posts WHERE {session.among('id', 'ids')}",
        {"ids": session.array(row[0] for row in rows)},
    )


def _newest(
    podcast_id: str | None, source_id: str | None, limit: int, before: str | None
) -> Stretch:
    """A source's posts, else a podcast's."""
    if source_id is not None:
        return Stretch("source_id", source_id, limit, before)
    assert podcast_id is not None
    return Stretch("podcast_id", podcast_id, limit, before)


def _late_keys(session: Session, source_id: str, sifted: Sifted) -> frozenset[str]:
    if not sifted.late_keys:
        return frozenset()
    rows = session.fetch(
        f"SELECT key FROM late_keys WHERE source_id = :source AND {session.among('key', 'keys')}",
        {"source": source_id, "keys": session.array(set(sifted.late_keys))},
    )
    return frozenset(row[0] for row in rows)
