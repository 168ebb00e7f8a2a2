"""Many sources at once, in bites: transactions short enough to keep nobody waiting for long."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import compress
from operator import attrgetter, is_not

from headwater.errors import NotFound, TooMuch
from headwater.model import Source
from headwater.store.database import Session
from headwater.store.posts import count_by_source
from headwater.store.rows import (
    SOURCE_COLUMNS,
    columns,
    columns_of,
    settings_of,
    source_from,
    state_of,
)
from headwater.store.source_filter import SourceFilter, conditions_of

_FIELDS = tuple(field.name for field in fields(Source))
_fields = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the sources that something was done to."""

    matched: int = 0
    changed: int = 0
    requested: int = 0  # for how many a poll is wanted now

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.matched + other.matched,
            self.changed + other.changed,
            self.requested + other.requested,
        )


def add(session: Session, sources: Sequence[Source], most: int | None) -> None:
    """Store new sources, all or none; no user gets beyond `most` (U8)."""
    owners = _owners(session, {source.podcast_id for source in sources})
    added: Counter[str] = Counter()
    for source in sources:
        if source.podcast_id not in owners:
            raise NotFound(f"there is no podcast {source.podcast_id!r}")
        added[owners[source.podcast_id]] += 1
    if most is not None:
        for user_id, more in added.items():
            refuse_too_many(session, user_id, more, most)
    session.insert_rows("sources", [settings_of(x) | state_of(x) for x in sources])


def refuse_too_many(session: Session, user_id: str, more: int, most: int) -> None:
    """Raise TooMuch if a user would have more than `most` sources (U8)."""
    sql = """SELECT count(*) FROM sources
        WHERE podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user)"""
    there = int(session.fetch(sql, {"user": user_id})[0][0])
    if more > 0 and there + more > most:
        raise TooMuch(
            f"a user may have at most {most:,} sources (app.limits.max-sources-per-user); "
            f"there are {there:,}, and this would add {more:,}"
        )


def first_unknown(session: Session, podcast_id: str, ids: Sequence[str]) -> str | None:
    """The first of these ids that no source of the podcast has."""
    sql = f"""SELECT s.id FROM sources s
        WHERE {session.among("s.id", "ids")} AND s.podcast_id = :podcast"""
    rows = session.fetch(sql, {"ids": session.array(ids), "podcast": podcast_id})
    known = {row[0] for row in rows}
    return next((id_ for id_ in ids if id_ not in known), None)


def edit(
    session: Session, wanted: SourceFilter, ids: Sequence[str], change: Callable[[Source], Source]
) -> Tally:
    """Change those of these sources that still fit, each as it is now."""
    where, params = those(session, wanted, ids)
    lock = " ORDER BY s.id FOR NO KEY UPDATE" if session.kind == "postgres" else ""
    rows = session.fetch_together(
        columns(SOURCE_COLUMNS, "s"), f"FROM sources s WHERE {where}{lock}", params
    )
    before = [source_from(row) for row in rows]
    after = [change(source) for source in before]
    edits = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    _write(session, edits)
    asked = sum(a.requested_at not in (None, b.requested_at) for b, a in edits)
    return Tally(len(before), len(edits), asked)


def request(session: Session, wanted: SourceFilter, ids: Sequence[str], now: int) -> Tally:
    """Ask for a poll of those of these sources that still fit (S9)."""
    where, params = those(session, wanted, ids)
    sql = f"UPDATE sources AS s SET requested_at = :now WHERE {where}"
    asked = session.execute(sql, params | {"now": now})
    return Tally(asked, asked, asked)


def weights(session: Session, ids: Sequence[str]) -> Mapping[str, int]:
    """How many rows of other tables go with each of these sources."""
    rows: Counter[str] = Counter()
    for table in ("posts", "articles", "tombstones", "podcast_marks", "late_keys", "polls"):
        rows.update(count_by_source(session, table, ids))
    return rows


def those(
    session: Session, wanted: SourceFilter, ids: Sequence[str]
) -> tuple[str, dict[str, object]]:
    """The condition that finds those of these sources that fit, and what is bound in it."""
    conditions, params = conditions_of(wanted, session.kind)
    where = " AND ".join([session.among("s.id", "ids"), *conditions])
    return where, params | {"ids": session.array(ids)}


def _owners(session: Session, podcast_ids: set[str]) -> dict[str, str]:
    """Whose podcasts these are; nobody removes them, or adds to them, before we are done."""
    lock = " FOR KEY SHARE OF p FOR NO KEY UPDATE OF u" if session.kind == "postgres" else ""
    sql = f"""SELECT p.id, p.user_id FROM podcasts p JOIN users u ON u.id = p.user_id
        WHERE {session.among("p.id", "ids")}{lock}"""
    return dict(session.fetch(sql, {"ids": session.array(podcast_ids)}))


def _write(session: Session, edits: Sequence[tuple[Source, Source]]) -> None:
    """Write what changed and nothing else: an index that is not touched costs nothing."""
    alike: dict[tuple[str, ...], list[dict[str, object]]] = {}
    for before, after in edits:
        row: dict[str, object] = {"id": after.id}
        for name in compress(_FIELDS, map(is_not, _fields(before), _fields(after))):
            row |= columns_of(after, name)
        alike.setdefault(tuple(row), []).append(row)
    for names, rows in alike.items():
        changes = ", ".join(f"{name} = :{name}" for name in names if name != "id")
        session.execute_many(f"UPDATE sources SET {changes} WHERE id = :id", rows)
