"""Posts, and what is known to have been one (D1, D5, R5, R8)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from headwater.batch import Batcher
from headwater.model import Outcome, Post, Subject
from headwater.rules.admission import Known, Sifted, link_mark, mark
from headwater.store import marks
from headwater.store.database import Database, Row, Session
from headwater.store.parts import Part, Stretch, part_of
from headwater.store.rows import POST_COLUMNS, columns, content_of, post_from

_MOST_TOGETHER = 2000  # hashes that are looked up, or posts that are inserted, at once

Asked = tuple[Subject, Sifted]
Rows = dict[str, list[Row]]


class Posts:
    """The posts table and its tombstones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look_up = Batcher(
            self._known_of_many,
            weight=lambda asked: len(asked[1].candidates) + 1,
            most=_MOST_TOGETHER,
            is_watched=lambda: database.people_waiting > 0,
        )

    async def known(self, subject: Subject, sifted: Sifted) -> Known:
        """What of an answer was ever stored; looked up together with those of other polls."""
        if not sifted.candidates and not sifted.late_keys:
            return Known()
        return await self._look_up((subject, sifted))

    async def _known_of_many(self, asked: Sequence[Asked]) -> Sequence[Known]:
        return await self._database.read(lambda s: known_of_many(s, asked))

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


def known_of_many(session: Session, asked: Sequence[Asked]) -> list[Known]:
    """Look every hash up among posts and tombstones, of the source or its podcast (D1, D5)."""
    stored, buried = _of_sources(session, asked)
    return [
        _known(session, one, stored.get(one[0].source.id, ()), buried.get(one[0].source.id, ()))
        for one in asked
    ]


def _known(session: Session, asked: Asked, stored: Sequence[Row], buried: Sequence[Row]) -> Known:
    subject, sifted = asked
    source = subject.source
    found = {mark(row[0]) for row in stored} | {row[0] for row in buried}
    if subject.dedupe_across_sources:
        found |= marks.known(session, source, sifted.hashes)
    at_links = {(mark(h), link_mark(url)) for h, url, _ in stored}
    at_links |= {(one, link) for one, link, _ in buried}
    return Known(
        marks=frozenset(found),
        marks_at_link=frozenset(at_links),
        late_keys=_late_keys(session, source.id, sifted),
    )


def _of_sources(session: Session, asked: Sequence[Asked]) -> tuple[Rows, Rows]:
    """Posts and tombstones with one of the hashes, each of its own source, by the source."""
    pairs = list({(subject.source.id, h) for subject, sifted in asked for h in sifted.hashes})
    stored: Rows = {}
    buried: Rows = {}
    for first in range(0, len(pairs), _MOST_TOGETHER):  # one feed may have 100,000 of them (H1)
        some = pairs[first : first + _MOST_TOGETHER]
        short = [(owner, mark(h)) for owner, h in some]
        _find(session, stored, "posts", "content_hash", "url", some)
        _find(session, buried, "tombstones", "mark", "link", short)
    return stored, buried


def _find(
    session: Session,
    found: Rows,
    table: str,
    key: str,
    other: str,
    pairs: Sequence[tuple[str, str]],
) -> None:
    # one look into the index per pair: the join must not be turned around
    columns = f"t.{key}, t.{other}, t.source_id"
    same = f"t.source_id = wanted.source_id AND t.{key} = wanted.key"
    params: dict[str, object]
    if session.kind == "sqlite":
        sql = f"""SELECT {columns} FROM (SELECT owner.key AS source_id, each.value AS key
                FROM json_each(:wanted) AS owner CROSS JOIN json_each(owner.value) AS each)
            AS wanted CROSS JOIN {table} AS t WHERE {same}"""
        params = {"wanted": _by_owner(pairs)}
    else:
        sql = f"""SELECT found.* FROM (SELECT unnest(CAST(:owners AS text[])) AS source_id,
                unnest(CAST(:keys AS text[])) AS key) AS wanted
            CROSS JOIN LATERAL (SELECT {columns} FROM {table} AS t WHERE {same} OFFSET 0) found"""
        owners, keys = zip(*pairs, strict=True)
        params = {"owners": session.array(owners), "keys": session.array(keys)}
    rows = session.look_up(sql, params)
    for row in rows:
        found.setdefault(row[2], []).append(row)


def _by_owner(pairs: Sequence[tuple[str, str]]) -> str:
    """Keys by their sources, as JSON: what SQLite takes apart more quickly than pairs."""
    keys: dict[str, list[str]] = {}
    for owner, key in pairs:
        keys.setdefault(owner, []).append(key)
    return json.dumps(keys)


def insert(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Store the posts of polls; one that is there already stays as it is."""
    posts = ((post, o.source.podcast_id) for o in outcomes for post in o.posts)
    while some := list(islice(posts, _MOST_TOGETHER)):  # one feed may have 100,000 (H1)
        rows = []
        for post, podcast_id in some:
            row = content_of(post)
            row["podcast_id"] = podcast_id
            rows.append(row)
        session.insert_rows("posts", rows, "ON CONFLICT (source_id, content_hash) DO NOTHING")


def parts(outcome: Outcome) -> Iterator[Outcome]:
    """An outcome with some of its posts at a time, as many as are inserted at once."""
    for first in range(0, len(outcome.posts), _MOST_TOGETHER):
        yield replace(outcome, posts=outcome.posts[first : first + _MOST_TOGETHER])


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
