"""Sources leave with all that belongs to them, in bites that keep no other writer waiting."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from headwater.store.database import Database, Session
from headwater.store.source_bites import Tally, those
from headwater.store.source_filter import SourceFilter

ROWS_PER_BITE = 1000  # of all tables, in one transaction
CHARACTERS_PER_BITE = 2_000_000  # in the bodies among them: their pages are to be freed one by one
_WAIT_SECONDS = 0.05
# What has rows of a source, by what those are told apart, and how long they may be. Posts come
# first: their links to articles go with them, and a digest may have a thousand of those.
_TABLES = {
    "posts": ("id", "length(body)"),
    "articles": ("id", "length(body)"),
    "tombstones": ("mark", "0"),
    "podcast_marks": ("mark", "0"),
    "late_keys": ("key", "0"),
    "polls": ("id", "0"),
}


class _Piece(NamedTuple):
    """A row that belongs to a source."""

    table: str
    source_id: str
    key: object
    length: int


async def remove(database: Database, wanted: SourceFilter, ids: Sequence[str]) -> Tally:
    """Delete those of these sources that fit, with all that belongs to them.

    What is much for one transaction goes bite by bite, and the sources last. They are switched
    off before, so that no poll adds to them; one that is storing posts right now notices and gives
    up. Cut off half-way, the same call again goes on.
    """
    pieces = await database.read(lambda s: _belongings(s, ids))
    if len(pieces) < ROWS_PER_BITE and len(list(_bites(pieces))) <= 1:
        gone = await database.write(lambda s: _remove(s, wanted, ids))
        if gone is not None:
            return Tally(gone, gone)
    leaving = await database.write(lambda s: _switched_off(s, wanted, ids))
    while True:
        while pieces := await database.read(lambda s: _belongings(s, leaving)):
            for bite in _bites(pieces):
                await database.write(partial(_delete, pieces=bite))
        gone = await database.write(lambda s: _remove(s, SourceFilter(), leaving))
        if gone is not None:
            return Tally(len(leaving), gone)
        await asyncio.sleep(_WAIT_SECONDS)  # here, not in the one thread that writes


def _belongings(session: Session, ids: Sequence[str]) -> list[_Piece]:
    """Rows that belong to these sources, as many as a bite has at most."""
    found: list[_Piece] = []
    params = {"ids": session.array(ids)}
    for table, (key, length) in _TABLES.items():
        sql = f"""SELECT source_id, {key}, {length} FROM {table}
            WHERE {session.among("source_id", "ids")} LIMIT :limit"""
        rows = session.fetch(sql, params | {"limit": ROWS_PER_BITE - len(found)})
        found += [_Piece(table, *row) for row in rows]
    return found


def _bites(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """The pieces in order, cut so that the bodies of a bite are not too much."""
    bite: list[_Piece] = []
    total = 0
    for piece in pieces:
        if bite and total + piece.length > CHARACTERS_PER_BITE:
            yield bite
            bite, total = [], 0
        bite.append(piece)
        total += piece.length
    if bite:
        yield bite


def _switched_off(session: Session, wanted: SourceFilter, ids: Sequence[str]) -> list[str]:
    """Switch off those that fit, and have polls that are under way discarded (D4)."""
    where, params = those(session, wanted, ids)
    lock = " ORDER BY s.id FOR NO KEY UPDATE" if session.kind == "postgres" else ""
    rows = session.fetch(f"SELECT s.id FROM sources s WHERE {where}{lock}", params)
    leaving = [row[0] for row in rows]
    session.execute(
        f"""UPDATE sources SET enabled = FALSE, disabled_reason = NULL, requested_at = NULL,
        generation = generation + 1 WHERE {session.among("id", "ids")}""",
        {"ids": session.array(leaving)},
    )
    return leaving


def _delete(session: Session, *, pieces: Sequence[_Piece]) -> None:
    keys: dict[tuple[str, str], list[object]] = {}
    for piece in pieces:
        keys.setdefault((piece.table, piece.source_id), []).append(piece.key)
    for (table, source_id), some in keys.items():
        session.execute(
            f"""DELETE FROM {table}
            WHERE source_id = :source AND {session.among(_TABLES[table][0], "keys")}""",
            {"source": source_id, "keys": session.array(some)},
        )


def _remove(session: Session, wanted: SourceFilter, ids: Sequence[str]) -> int | None:
    """Delete those that fit; None if posts of one are being stored, which is waited for first."""
    where, params = those(session, wanted, ids)
    if session.kind == "postgres":
        there = session.fetch(f"SELECT count(*) FROM sources s WHERE {where}", params)[0][0]
        lock = "ORDER BY s.id FOR UPDATE SKIP LOCKED"
        if len(session.fetch(f"SELECT s.id FROM sources s WHERE {where} {lock}", params)) < there:
            return None
    return session.execute(f"DELETE FROM sources AS s WHERE {where}", params)
