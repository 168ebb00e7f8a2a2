"""Posts and tombstones: every content hash that a source has ever stored (D1, D5, R5, R8)."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from headwater.batcher import Batcher
from headwater.errors import NotFound
from headwater.model import Outcome, Post, Source, Subject
from headwater.rules.admission import Known, NewByDate, hash_prefix, link_key
from headwater.rules.page_versions import STORED_VERSIONS, PageVersions, has_additions_only
from headwater.store import filter_changes, podcast_duplicates, stories
from headwater.store.content_filter import EVERYTHING, SHOWN, ContentFilter
from headwater.store.database import Database, Row, Session, chunks, reads
from headwater.store.keyset_pages import MAX_CHARACTERS, KeysetPage, PageBounds, fetch_page
from headwater.store.numbered_rows import NumberedPage, NumberedTable, NumberRange, fetch_numbered
from headwater.store.row_mapping import POST_COLUMNS, columns, read_post, row_of_post

ROWS_PER_STATEMENT = 2000  # hashes looked up, or posts inserted; a feed may have 100,000 (H1)

Lookup = tuple[Subject, NewByDate]
# the key that a hash is looked up by, and the column that is read with it
_KEY_COLUMNS = {"posts": ("content_hash", "url"), "tombstones": ("mark", "link")}


def known_of_many(session: Session, lookups: Sequence[Lookup]) -> list[Known]:
    """Look up hashes among posts and tombstones of each source or its podcast (D1, D5)."""
    pairs = list(
        {(subject.source.id, h) for subject, new_by_date in lookups for h in new_by_date.hashes}
    )
    found: dict[tuple[str, str], list[Row]] = {}  # by table and source
    for some in chunks(pairs, ROWS_PER_STATEMENT):
        prefixes = [(source_id, hash_prefix(h)) for source_id, h in some]
        for table, keys in (("posts", some), ("tombstones", prefixes)):
            for row in _find(session, table, keys):
                found.setdefault((table, row[2]), []).append(row)
    return [
        _known(session, one, *(found.get((t, one[0].source.id), ()) for t in _KEY_COLUMNS))
        for one in lookups
    ]


def _known(
    session: Session, lookup: Lookup, stored: Sequence[Row], deleted: Sequence[Row]
) -> Known:
    subject, new_by_date = lookup
    source = subject.source
    found = {hash_prefix(row[0]) for row in stored} | {row[0] for row in deleted}
    if subject.dedupe_across_sources:
        found |= podcast_duplicates.known(session, source, new_by_date.hashes)
    at_links = {(hash_prefix(h), link_key(url)) for h, url, _ in stored}
    at_links |= {(prefix, link) for prefix, link, _ in deleted}
    return Known(
        hash_prefixes=frozenset(found),
        prefixes_at_link=frozenset(at_links),
        late_keys=_late_keys(session, source.id, new_by_date),
    )


def _find(session: Session, table: str, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows of a table with these pairs of source and key."""
    key, other = _KEY_COLUMNS[table]
    # one index lookup per pair: the planner must not reverse the join
    columns = f"t.{key}, t.{other}, t.source_id"
    same = f"t.source_id = wanted.source_id AND t.{key} = wanted.key"
    params: dict[str, object]
    if session.kind == "sqlite":
        sql = f"""SELECT {columns} FROM (SELECT source.key AS source_id, each.value AS key
                FROM json_each(:wanted) AS source CROSS JOIN json_each(source.value) AS each)
            AS wanted CROSS JOIN {table} AS t WHERE {same}"""
        keys_of: dict[str, list[str]] = {}  # by source, which SQLite parses faster than pairs
        for source_id, one in pairs:
            keys_of.setdefault(source_id, []).append(one)
        params = {"wanted": json.dumps(keys_of)}
    else:
        sql = f"""SELECT found.* FROM (SELECT unnest(CAST(:sources AS text[])) AS source_id,
                unnest(CAST(:keys AS text[])) AS key) AS wanted
            CROSS JOIN LATERAL (SELECT {columns} FROM {table} AS t WHERE {same} OFFSET 0) found"""
        sources, keys = zip(*pairs, strict=True)
        params = {"sources": sources, "keys": keys}
    return session.fetch_unprepared(sql, params)


def insert(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Insert the posts of outcomes; a post that exists already stays unchanged."""
    rows = (
        row_of_post(post) | {"podcast_id": o.source.podcast_id}
        for o in outcomes
        for post in o.posts
    )
    while some := list(islice(rows, ROWS_PER_STATEMENT)):
        session.insert_rows("posts", some, "ON CONFLICT (source_id, content_hash) DO NOTHING")


def keep_versions(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Keep the whole text of pages whose posts have only what is new (W5)."""
    rows = [
        {"source": o.source.id, "text": o.posts[-1].page_text}
        for o in outcomes
        if o.posts and has_additions_only(o.source) and o.posts[-1].page_text is not None
    ]
    if rows:
        sql = """INSERT INTO page_versions (source_id, text) VALUES (:source, :text)
            ON CONFLICT (source_id) DO UPDATE SET text = excluded.text"""
        session.execute_many(sql, rows)


def forget_versions(session: Session, source_ids: Sequence[str]) -> None:
    """Delete the kept texts of pages."""
    session.execute("DELETE FROM page_versions WHERE source_id IN :ids", {"ids": list(source_ids)})


def count_by_source(session: Session, table: str, source_ids: Sequence[str]) -> dict[str, int]:
    """The number of a table's rows of each source that has any."""
    sql = f"SELECT source_id, count(*) FROM {table} WHERE source_id IN :ids GROUP BY source_id"
    return dict(session.fetch(sql, {"ids": source_ids}))


def only_in(session: Session, article_ids: Sequence[str]) -> list[Row]:
    """Posts that are in these articles and in no other, as `delete` takes them."""
    sql = """SELECT x.id, x.source_id, x.content_hash, x.url FROM posts x
        WHERE x.id IN (SELECT post_id FROM post_articles WHERE article_id IN :ids)
        AND NOT EXISTS (SELECT 1 FROM post_articles o
            WHERE o.post_id = x.id AND NOT (o.article_id IN :ids))"""
    return session.fetch(sql, {"ids": article_ids})


def delete(session: Session, rows: Iterable[Row]) -> None:
    """Delete posts given as (id, source_id, content_hash, url) and leave tombstones (D1)."""
    rows = list(rows)
    session.execute_many(
        """INSERT INTO tombstones (source_id, mark, link) VALUES (:source, :mark, :link)
        ON CONFLICT DO NOTHING""",
        [{"source": s, "mark": hash_prefix(h), "link": link_key(url)} for _, s, h, url in rows],
    )
    sql = "DELETE FROM posts WHERE id IN :ids"
    session.execute(sql, {"ids": [row[0] for row in rows]})


def _late_keys(session: Session, source_id: str, new_by_date: NewByDate) -> frozenset[str]:
    if not new_by_date.late_keys:
        return frozenset()
    sql = "SELECT key FROM late_keys WHERE source_id = :source AND key IN :keys"
    rows = session.fetch(sql, {"source": source_id, "keys": set(new_by_date.late_keys)})
    return frozenset(row[0] for row in rows)


def _page(
    session: Session,
    *,
    podcast_id: str | None = None,
    source_id: str | None = None,
    chosen: ContentFilter = SHOWN,
    limit: int,
    before: str | None = None,
    max_characters: float = MAX_CHARACTERS,
) -> KeysetPage[Post]:
    """Posts of a podcast or source, newest first; a page of long ones is shorter.

    `before` continues after a post's id.
    """
    source_id = chosen.source_id if source_id is None else source_id  # has an index of its own
    column, owner = ("podcast_id", podcast_id) if source_id is None else ("source_id", source_id)
    bounds = PageBounds(column, owner, limit, before).within(chosen, "posts")
    read = partial(read_posts, session)
    return fetch_page(session, "posts", POST_COLUMNS, bounds, max_characters, read)


def read_posts(session: Session, rows: Sequence[Row]) -> list[Post]:
    """Posts with the other posts of their stories."""
    return stories.with_also_from(session, read_post.all(rows))


def _versions(session: Session, source: Source) -> PageVersions:
    """What was stored of a page (W5, W6)."""
    newest = _page(session, source_id=source.id, chosen=EVERYTHING, limit=STORED_VERSIONS)
    text = None
    if has_additions_only(source):
        sql = "SELECT text FROM page_versions WHERE source_id = :id"
        text = next((row[0] for row in session.fetch(sql, {"id": source.id})), None)
    return PageVersions(newest.items, text)


def _get(session: Session, podcast_id: str, post_id: str) -> Post:
    """A post of a podcast."""
    sql = f"SELECT {columns(POST_COLUMNS)} FROM posts WHERE id = :id AND podcast_id = :podcast"
    rows = session.fetch(sql, {"id": post_id, "podcast": podcast_id})
    if not rows:
        raise NotFound(f"there is no post {post_id}")
    return stories.with_also_from(session, [read_post.one(rows[0])])[0]


def _numbered(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Post]:
    """The first posts of a range of numbers, in order."""
    read = partial(read_posts, session)
    return fetch_numbered(session, "posts", POST_COLUMNS, wanted, limit, read)


def _links(session: Session, podcast_id: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The titles and links of these posts of a podcast, by id."""
    sql = "SELECT id, title, url FROM posts WHERE id IN :ids AND podcast_id = :podcast"
    rows = session.fetch(sql, {"ids": ids, "podcast": podcast_id})
    return {id_: (title, url) for id_, title, url in rows}


def _with_earlier(session: Session, ids: Sequence[str]) -> set[str]:
    """The given posts that are not the first one stored of their source."""
    sql = """SELECT x.id FROM posts x WHERE x.id IN :ids AND EXISTS (SELECT 1 FROM posts o
        WHERE o.source_id = x.source_id AND o.id < x.id)"""
    return {row[0] for row in session.fetch(sql, {"ids": ids})} if ids else set()


def _counts(session: Session, source_ids: Sequence[str]) -> dict[str, int]:
    """The number of posts of each of these sources."""
    return count_by_source(session, "posts", source_ids)


class Posts(NumberedTable[Post]):
    """The posts table and its tombstones."""

    numbered = staticmethod(_numbered)
    get = reads(_get)
    page = reads(_page)
    counts = reads(_counts)
    links = reads(_links)
    with_earlier = reads(_with_earlier)
    versions = reads(_versions)
    filter_matches = reads(filter_changes.matches_of)
    _known_of_many = reads(known_of_many)

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._known = Batcher(
            self._known_of_many,
            weight=lambda lookup: len(lookup[1].candidates) + 1,
            max_weight=ROWS_PER_STATEMENT,
            yield_often=lambda: database.interactive_requests > 0,
        )

    async def known(self, subject: Subject, new_by_date: NewByDate) -> Known:
        """Which entries were stored before; read in one batch with those of other polls."""
        if not new_by_date.candidates and not new_by_date.late_keys:
            return Known()
        return await self._known((subject, new_by_date))

    async def count(self, source_id: str | None = None) -> int:
        """The number of posts of a source, or of all."""
        where = " WHERE source_id = :source" if source_id is not None else ""
        sql = f"SELECT count(*) FROM posts{where}"
        return int((await self.database.fetch(sql, {"source": source_id}))[0][0])
