"""What a podcast knows that takes a story once, whichever of its sources brings it (D5).

Every post of such a podcast leaves a mark under the podcast: one look per hash tells whether any
of its sources ever had it. What was stored before the podcast became one is marked by and by; until
that is done, all its sources are looked through. Marks follow from posts and tombstones, and no
backup has them.
"""

import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from headwater.model import Post, Source
from headwater.rules.admission import MARK_LENGTH, mark
from headwater.store.database import Session
from headwater.store.rows import to_ms

_MOST_TOGETHER = 2000  # marks that are looked up or written at once
_SOURCES_TOGETHER = 500
_MANY = 50  # hashes, looked for in sources by the hundred
_BEYOND = "z"  # what no mark reaches
_LOCKS = zlib.crc32(b"headwater podcast") - (1 << 31)  # the kind of our advisory locks
# Polls that began before their podcast became one write no marks. They are over by then.
_SETTLED = timedelta(minutes=15)
_HAS_MARK = {
    "sqlite": """SELECT given.value FROM json_each(:marks) AS given WHERE EXISTS
        (SELECT 1 FROM podcast_marks m WHERE m.podcast_id = :podcast AND m.mark = given.value
            AND m.source_id <> :source)""",
    # the limit keeps the look-up from being turned around: one look into the index per mark
    "postgres": """SELECT given.mark FROM unnest(CAST(:marks AS text[])) AS given (mark)
        CROSS JOIN LATERAL (SELECT 1 FROM podcast_marks m
            WHERE m.podcast_id = :podcast AND m.mark = given.mark
                AND m.source_id <> :source LIMIT 1) AS found""",
}
_UNMARKED = """
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
_NEXT_MARKS = f"""
    SELECT mark FROM (SELECT mark FROM tombstones WHERE source_id = :source AND mark > :mark
        ORDER BY mark LIMIT :limit) AS buried
    UNION SELECT substr(content_hash, 1, {MARK_LENGTH}) FROM (SELECT content_hash FROM posts
        WHERE source_id = :source AND content_hash > :hash
        ORDER BY content_hash LIMIT :limit) AS stored
    ORDER BY 1 LIMIT :limit
"""


def known(session: Session, source: Source, hashes: Iterable[str]) -> set[str]:
    """The marks of those hashes that any other source of the podcast ever stored."""
    wanted = list(set(hashes))
    is_marked = session.fetch(
        "SELECT 1 FROM marked_podcasts WHERE podcast_id = :podcast AND is_complete = TRUE",
        {"podcast": source.podcast_id},
    )
    if not is_marked:
        return _stored(session, source, wanted)
    found: set[str] = set()
    for first in range(0, len(wanted), _MOST_TOGETHER):
        found |= _marked(session, source, wanted[first : first + _MOST_TOGETHER])
    return found


def _marked(session: Session, source: Source, hashes: Sequence[str]) -> set[str]:
    params = {"podcast": source.podcast_id, "source": source.id}
    some = {"marks": session.array({mark(h) for h in hashes})}
    return {row[0] for row in session.look_up(_HAS_MARK[session.kind], params | some)}


def _stored(session: Session, source: Source, hashes: Sequence[str]) -> set[str]:
    params = {"podcast": source.podcast_id, "source": source.id}
    scope = """source_id IN
        (SELECT id FROM sources WHERE podcast_id = :podcast AND id <> :source)"""
    # many: what each source has is read once. SQLite would look for each hash in each source.
    plus = "+" if session.kind == "sqlite" and len(hashes) > _MANY else ""
    rows = session.fetch(
        f"""SELECT content_hash FROM posts
        WHERE {scope} AND {session.among(f"{plus}content_hash", "hashes")}
        UNION SELECT mark FROM tombstones
        WHERE {scope} AND {session.among(f"{plus}mark", "marks")}""",
        params
        | {"hashes": session.array(hashes), "marks": session.array({mark(h) for h in hashes})},
    )
    return {mark(row[0]) for row in rows}


def keep(session: Session, source: Source, posts: Sequence[Post]) -> None:
    """Mark posts of a source in its podcast."""
    _keep(session, source.podcast_id, source.id, [mark(post.content_hash) for post in posts])


def withdraw(session: Session, source: Source, twins: Collection[str]) -> None:
    """Take posts of a source, and their marks, back: another source had them before."""
    for first in range(0, len(twins), _MOST_TOGETHER):
        some = list(twins)[first : first + _MOST_TOGETHER]
        params = {"source": source.id, "hashes": session.array(some)}
        params["marks"] = session.array({mark(h) for h in some})
        among_hashes, among_marks = (
            session.among("content_hash", "hashes"),
            session.among("mark", "marks"),
        )
        session.execute(f"DELETE FROM posts WHERE source_id = :source AND {among_hashes}", params)
        session.execute(
            f"DELETE FROM podcast_marks WHERE source_id = :source AND {among_marks}", params
        )


def _keep(session: Session, podcast_id: str, source_id: str, marks: Sequence[str]) -> None:
    owners = {"podcast_id": podcast_id, "source_id": source_id}
    for first in range(0, len(marks), _MOST_TOGETHER):
        rows = [{**owners, "mark": one} for one in marks[first : first + _MOST_TOGETHER]]
        session.insert_rows("podcast_marks", rows, "ON CONFLICT DO NOTHING")


def lock(session: Session, podcast_ids: Collection[str]) -> None:
    """Let nobody else look up and store in these podcasts until the transaction ends.

    Whoever locks several does so in one order: nobody waits in a circle.
    """
    if session.kind != "postgres" or not podcast_ids:
        return  # SQLite has one writer
    keys = sorted({zlib.crc32(id_.encode()) - (1 << 31) for id_ in podcast_ids})
    for key in keys:
        session.execute(
            "SELECT pg_advisory_xact_lock(CAST(:kind AS INTEGER), CAST(:key AS INTEGER))",
            {"kind": _LOCKS, "key": key},
        )


def forget(session: Session, podcast_id: str) -> None:
    """The podcast takes stories more than once from now on: what is marked is not all any more."""
    sql = "DELETE FROM marked_podcasts WHERE podcast_id = :podcast"
    session.execute(sql, {"podcast": podcast_id})


def unmarked(session: Session, now: datetime, _limit: int) -> list[tuple[str, int]]:
    """A podcast whose posts of before are not all marked, if there is one, and the moment."""
    rows = session.fetch(_UNMARKED, {"settled": to_ms(now - _SETTLED)})
    return [(row[0], to_ms(now) or 0) for row in rows]


def mark_some(session: Session, found: Sequence[tuple[str, int]], limit: int) -> int:
    """Mark about so many of a podcast's posts, and remember how far that went."""
    podcast_id, now = found[0]
    if session.execute(_BEGIN, {"podcast": podcast_id, "now": now}):
        return 1
    sql = "SELECT source_id, mark FROM marked_podcasts WHERE podcast_id = :podcast"
    source, last = session.fetch(sql, {"podcast": podcast_id})[0]
    params = {"podcast": podcast_id, "source": source, "limit": _SOURCES_TOGETHER}
    ids = [row[0] for row in session.fetch(_NEXT_SOURCES, params)]
    left = limit
    for id_ in ids:
        marks = _next_marks(session, id_, last if id_ == source else "", left)
        _keep(session, podcast_id, id_, marks)
        source, last = id_, marks[-1] if len(marks) == left else _BEYOND
        left -= len(marks)
        if not left:
            break
    is_complete = left > 0 and len(ids) < _SOURCES_TOGETHER
    session.execute(
        """UPDATE marked_podcasts SET source_id = :source, mark = :mark, is_complete = :complete
        WHERE podcast_id = :podcast""",
        {"podcast": podcast_id, "source": source, "mark": last, "complete": is_complete},
    )
    return limit - left + 1


def _next_marks(session: Session, source_id: str, behind: str, limit: int) -> list[str]:
    params = {
        "source": source_id,
        "mark": behind,
        "hash": behind and behind + _BEYOND,  # behind all hashes with this mark
        "limit": limit,
    }
    return [row[0] for row in session.fetch(_NEXT_MARKS, params)]
