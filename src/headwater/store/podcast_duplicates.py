"""Cross-source deduplication: hashes that any source of a podcast has stored (D5).

Every post of a podcast with `dedupe_across_sources` adds its hash prefix to `podcast_marks`, so
that one index lookup per hash finds duplicates. Posts stored before the setting was enabled are
indexed gradually by the cleanup; until that is complete, the posts of all sources are searched. The
index is derived from posts and tombstones and is not part of backups.
"""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from headwater.model import Source
from headwater.rules.admission import HASH_PREFIX_LENGTH, hash_prefix
from headwater.store.database import Session, chunks
from headwater.store.row_mapping import to_ms

HASHES_PER_STATEMENT = 2000
_SOURCES_PER_BATCH = 500
_MANY_HASHES = 50
_MAX_PREFIX = "z"  # above every hash prefix
_LOCK_CLASS = zlib.crc32(b"headwater podcast") - (1 << 31)  # of PostgreSQL's advisory locks
# Polls that began before the setting was enabled add no hash prefixes. They end within this time.
_SETTLED_AFTER = timedelta(minutes=15)
_KNOWN_PREFIXES = {
    "sqlite": """SELECT given.value FROM json_each(:prefixes) AS given WHERE EXISTS
        (SELECT 1 FROM podcast_marks m WHERE m.podcast_id = :podcast AND m.mark = given.value
            AND m.source_id <> :source)""",
    # the LIMIT forces one index lookup per prefix: the planner cannot reverse the join
    "postgres": """SELECT given.mark FROM unnest(CAST(:prefixes AS text[])) AS given (mark)
        CROSS JOIN LATERAL (SELECT 1 FROM podcast_marks m
            WHERE m.podcast_id = :podcast AND m.mark = given.mark
                AND m.source_id <> :source LIMIT 1) AS found""",
}
_NOT_INDEXED = """
    SELECT p.id FROM podcasts p LEFT JOIN marked_podcasts m ON m.podcast_id = p.id
    WHERE p.dedupe_across_sources
        AND (m.podcast_id IS NULL OR NOT m.is_complete AND m.since <= :settled) LIMIT 1
"""
_BEGIN = """
    INSERT INTO marked_podcasts (podcast_id, since) VALUES (:podcast, :now) ON CONFLICT DO NOTHING
"""
_NEXT_SOURCES = """
    SELECT id FROM sources WHERE podcast_id = :podcast AND id >= :source ORDER BY id LIMIT :limit
"""
_NEXT_PREFIXES = f"""
    SELECT mark FROM (SELECT mark FROM tombstones WHERE source_id = :source AND mark > :prefix
        ORDER BY mark LIMIT :limit) AS deleted_posts
    UNION SELECT substr(content_hash, 1, {HASH_PREFIX_LENGTH}) FROM (SELECT content_hash FROM posts
        WHERE source_id = :source AND content_hash > :hash
        ORDER BY content_hash LIMIT :limit) AS stored_posts
    ORDER BY 1 LIMIT :limit
"""


def known(session: Session, source: Source, hashes: Iterable[str]) -> set[str]:
    """The prefixes of those hashes that another source of the podcast has ever stored."""
    wanted = list(set(hashes))
    params = {"podcast": source.podcast_id, "source": source.id}
    sql = "SELECT 1 FROM marked_podcasts WHERE podcast_id = :podcast AND is_complete = TRUE"
    if not session.fetch(sql, params):
        return _find_in_sources(session, params, wanted)
    found: set[str] = set()
    for some in chunks(wanted, HASHES_PER_STATEMENT):
        prefixes = {hash_prefix(h) for h in some}
        sql = _KNOWN_PREFIXES[session.kind]
        rows = session.fetch_unprepared(sql, params | {"prefixes": prefixes})
        found.update(row[0] for row in rows)
    return found


def _find_in_sources(
    session: Session, params: Mapping[str, object], hashes: Sequence[str]
) -> set[str]:
    others = """source_id IN
        (SELECT id FROM sources WHERE podcast_id = :podcast AND id <> :source)"""
    # `+` excludes the index on hashes: with many, reading each source's rows once is faster than
    # a lookup per source and hash
    plus = "+" if session.kind == "sqlite" and len(hashes) > _MANY_HASHES else ""
    sql = f"""SELECT content_hash FROM posts WHERE {others} AND {plus}content_hash IN :hashes
        UNION SELECT mark FROM tombstones WHERE {others} AND {plus}mark IN :prefixes"""
    wanted = {"hashes": hashes, "prefixes": {hash_prefix(h) for h in hashes}}
    return {hash_prefix(row[0]) for row in session.fetch(sql, {**params, **wanted})}


def add(session: Session, podcast_id: str, source_id: str, hashes: Sequence[str]) -> None:
    """Add the prefixes of a source's hashes to the index of its podcast."""
    owners = {"podcast_id": podcast_id, "source_id": source_id}
    for some in chunks(hashes, HASHES_PER_STATEMENT):
        rows = [{**owners, "mark": hash_prefix(h)} for h in some]
        session.insert_rows("podcast_marks", rows, "ON CONFLICT DO NOTHING")


def remove_posts(session: Session, source: Source, hashes: Sequence[str]) -> None:
    """Delete posts of a source and their prefixes: another source stored them before."""
    for some in chunks(hashes, HASHES_PER_STATEMENT):
        prefixes = {hash_prefix(h) for h in some}
        params = {"source": source.id, "hashes": some, "prefixes": prefixes}
        for rows in (
            "posts WHERE content_hash IN :hashes",
            "podcast_marks WHERE mark IN :prefixes",
        ):
            session.execute(f"DELETE FROM {rows} AND source_id = :source", params)


def lock(session: Session, podcast_ids: Collection[str]) -> None:
    """Serialise lookup and insert in these podcasts until the transaction ends.

    Locks are taken in one order, which prevents deadlocks.
    """
    if session.kind != "postgres":
        return  # SQLite has one writer
    sql = "SELECT pg_advisory_xact_lock(CAST(:class AS INTEGER), CAST(:key AS INTEGER))"
    for key in sorted({zlib.crc32(id_.encode()) - (1 << 31) for id_ in podcast_ids}):
        session.execute(sql, {"class": _LOCK_CLASS, "key": key})


def disable(session: Session, podcast_id: str) -> None:
    """Mark the index of a podcast as incomplete: polls stop adding to it."""
    sql = "DELETE FROM marked_podcasts WHERE podcast_id = :podcast"
    session.execute(sql, {"podcast": podcast_id})


def find_not_indexed(session: Session, now: datetime, _limit: int) -> list[tuple[str, int]]:
    """A podcast whose older posts are not all indexed, if there is one, and the current time."""
    rows = session.fetch(_NOT_INDEXED, {"settled": to_ms(now - _SETTLED_AFTER)})
    return [(row[0], to_ms(now)) for row in rows]


def index_batch(session: Session, found: Sequence[tuple[str, int]], limit: int) -> int:
    """Index about `limit` older posts of a podcast and store the position reached."""
    podcast_id, now = found[0]
    if session.execute(_BEGIN, {"podcast": podcast_id, "now": now}):
        return 1
    sql = "SELECT source_id, mark FROM marked_podcasts WHERE podcast_id = :podcast"
    source, last = session.fetch(sql, {"podcast": podcast_id})[0]
    params = {"podcast": podcast_id, "source": source, "limit": _SOURCES_PER_BATCH}
    ids = [row[0] for row in session.fetch(_NEXT_SOURCES, params)]
    left = limit
    for id_ in ids:
        behind = last if id_ == source else ""
        # after all hashes with this prefix
        params = {"source": id_, "prefix": behind, "hash": behind and behind + _MAX_PREFIX}
        prefixes = [row[0] for row in session.fetch(_NEXT_PREFIXES, params | {"limit": left})]
        add(session, podcast_id, id_, prefixes)
        source, last = id_, prefixes[-1] if len(prefixes) == left else _MAX_PREFIX
        left -= len(prefixes)
        if not left:
            break
    is_complete = left > 0 and len(ids) < _SOURCES_PER_BATCH
    session.execute(
        """UPDATE marked_podcasts SET source_id = :source, mark = :prefix, is_complete = :complete
        WHERE podcast_id = :podcast""",
        {"podcast": podcast_id, "source": source, "prefix": last, "complete": is_complete},
    )
    return limit - left + 1
