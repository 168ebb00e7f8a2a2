"""Changes to many sources at once; callers pass batches that make short transactions (H3)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from headwater.errors import DuplicateUrl, NotFound, TooMuch
from headwater.model import Outcome, Source, SuggestionKind
from headwater.source_settings import FullText
from headwater.store import feed_searches, filter_changes, page_visits, posts, suggestions
from headwater.store.database import Database, Session, grouped_by_columns
from headwater.store.keyset_pages import count_within
from headwater.store.posts import count_by_source
from headwater.store.record_outcomes import finish_large, insert_large, record
from headwater.store.row_mapping import (
    LENGTHS,
    SOURCE_COLUMNS,
    changed_columns,
    columns,
    read_source,
    row_of,
    to_ms,
)
from headwater.store.source_pages import SourceFilter, conditions_of

ROWS_PER_BATCH = 1000  # of all tables, deleted in one transaction
CHARACTERS_PER_BATCH = 2_000_000  # in their bodies: freeing the pages of long ones takes time
_WAIT_SECONDS = 0.05
# Tables with rows of a source: the key of a row, and its length. Posts come first: their links to
# articles are deleted with them, and a digest may have a thousand links.
_TABLES = {
    "posts": ("id", LENGTHS["posts"]),
    "articles": ("id", LENGTHS["articles"]),
    "tombstones": ("mark", "0"),
    "podcast_marks": ("mark", "0"),
    "late_keys": ("key", "0"),
    "polls": ("id", "0"),
    "poll_days": ("day", "0"),
}


_OwnedRow = tuple[str, str, object, int]  # table, source, key and length
_FIELDS = frozenset(field.name for field in fields(Source))
_OF_PAGE = frozenset({"url", "type", "watch"})  # settings that decide which text is watched


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """The number of sources that an operation affected."""

    matched: int = 0
    changed: int = 0
    requested: int = 0  # of which a poll was requested

    def __add__(self, other: "BatchCounts") -> "BatchCounts":
        return BatchCounts(
            self.matched + other.matched,
            self.changed + other.changed,
            self.requested + other.requested,
        )


def add(session: Session, sources: Sequence[Source], *, most: int | None = None) -> None:
    """Insert new sources, all or none; raise TooMuch beyond `most` per user (U8)."""
    owners = _lock_owners(
        session, {source.podcast_id for source in sources}, users=most is not None
    )
    added: Counter[str] = Counter()
    for source in sources:
        if source.podcast_id not in owners:
            raise NotFound(f"there is no podcast {source.podcast_id!r}")
        added[owners[source.podcast_id]] += 1
    if most is not None:
        for user_id, more in added.items():
            refuse_too_many(session, user_id, more, most)
    session.insert_rows("sources", [row_of(source) for source in sources])


def _lock_owners(session: Session, podcast_ids: Collection[str], *, users: bool) -> dict[str, str]:
    """The users of these podcasts, which cannot be deleted until the end of the transaction.

    `users`: also let no other transaction add sources for the same users.
    """
    sql = f"""SELECT p.id, p.user_id FROM podcasts p JOIN users u ON u.id = p.user_id
        WHERE p.id IN :ids FOR KEY SHARE OF p {"FOR NO KEY UPDATE OF u" if users else ""}"""
    return dict(session.fetch(sql, {"ids": podcast_ids}))


def add_one(
    session: Session,
    source: Source,
    *,
    urls: Collection[str],
    most: int,
    unique: bool,
    outcome: Outcome | None = None,
) -> tuple[str | None, Outcome | None]:
    """Insert a new source, with the outcome of its first poll if it was visited already (J2).

    Returns the id of another source of the podcast with one of these URLs, and the outcome as
    stored. If `unique`, raises DuplicateUrl instead (J3); TooMuch beyond `most` per user (U8).
    """
    _lock_podcast(session, source.podcast_id)
    duplicate_of = _duplicate_of(session, source, urls, unique=unique)
    add(session, [source], most=most)
    return duplicate_of, None if outcome is None else record(session, [outcome])[0]


def add_one_large(
    session: Session,
    source: Source,
    *,
    urls: Collection[str],
    most: int,
    unique: bool,
    outcome: Outcome,
) -> tuple[str | None, Outcome | None]:
    """Do the same with an outcome of many posts; what others wait for is locked at the end (H3)."""
    add(session, [source])
    outcome = insert_large(session, outcome)
    _lock_podcast(session, source.podcast_id)
    duplicate_of = _duplicate_of(session, source, urls, unique=unique)
    for user_id in _lock_owners(session, [source.podcast_id], users=True).values():
        refuse_too_many(session, user_id, 1, most, added=1)
    return duplicate_of, finish_large(session, outcome)


def _duplicate_of(
    session: Session, source: Source, urls: Collection[str], *, unique: bool
) -> str | None:
    """The id of another source of the podcast with one of these URLs; DuplicateUrl if `unique`."""
    watched = watched_urls(session, source.podcast_id, urls, besides=source.id)
    duplicate_of = next((watched[url] for url in urls if url in watched), None)
    if unique and duplicate_of is not None:
        raise DuplicateUrl(duplicate_of)
    return duplicate_of


def add_missing(
    session: Session, podcast_id: str, sources: Sequence[Source], *, most: int
) -> dict[str, str]:
    """Insert new sources except those whose URL exists already; return these with their ids.

    All or none are stored; raises TooMuch beyond `most` per user (U8).
    """
    _lock_podcast(session, podcast_id)
    watched = watched_urls(session, podcast_id, [source.url for source in sources])
    add(session, [source for source in sources if source.url not in watched], most=most)
    return watched


def _lock_podcast(session: Session, podcast_id: str) -> None:
    """Let requests that add the same URLs to a podcast run one after the other."""
    lock = "SELECT 1 FROM podcasts WHERE id = :id FOR NO KEY UPDATE"
    session.fetch(lock, {"id": podcast_id})


def watched_urls(
    session: Session, podcast_id: str, urls: Iterable[str], *, besides: str = ""
) -> dict[str, str]:
    """Which of these URLs a podcast has sources for, each with the id of the oldest one."""
    # `|| ''` excludes the index on podcasts: a podcast may have far more sources than `urls`
    sql = """SELECT url, id FROM sources
        WHERE podcast_id || '' = :podcast AND url IN :urls AND id <> :besides
        ORDER BY created_at DESC, id DESC"""
    rows = session.fetch(sql, {"podcast": podcast_id, "urls": list(urls), "besides": besides})
    return dict(rows)  # the oldest comes last and overwrites the others


def refuse_too_many(
    session: Session, user_id: str, more: int, most: int, *, added: int = 0
) -> None:
    """Raise TooMuch if a user would have more than `most` sources (U8).

    `added`: how many of the new ones this transaction has inserted.
    """
    sql = """SELECT count(*) FROM sources
        WHERE podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user)"""
    there = int(session.fetch(sql, {"user": user_id})[0][0]) - added
    if more > 0 and there + more > most:
        raise TooMuch(
            f"a user may have at most {most:,} sources (app.limits.max-sources-per-user); "
            f"there are {there:,}, and this would add {more:,}"
        )


def first_unknown(session: Session, podcast_id: str, ids: Sequence[str]) -> str | None:
    """The first of these ids that no source of the podcast has."""
    sql = "SELECT s.id FROM sources s WHERE s.id IN :ids AND s.podcast_id = :podcast"
    rows = session.fetch(sql, {"ids": ids, "podcast": podcast_id})
    known = {row[0] for row in rows}
    return next((id_ for id_ in ids if id_ not in known), None)


def edit(
    session: Session, wanted: SourceFilter, ids: Sequence[str], change: Callable[[Source], Source]
) -> BatchCounts:
    """Change the given sources that still match, each based on its current row."""
    where, params = matching(session, wanted, ids)
    rest = f"FROM sources s WHERE {where} ORDER BY s.id FOR NO KEY UPDATE"
    rows = session.fetch_bulk(columns(SOURCE_COLUMNS, "s"), rest, params)
    before = read_source.all(rows)
    after = [change(source) for source in before]
    edits = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    _update_changed(session, edits)
    requested = sum(a.requested_at not in (None, b.requested_at) for b, a in edits)
    return BatchCounts(len(before), len(edits), requested)


def edit_one(session: Session, source_id: str, change: Callable[[Source], Source]) -> Source:
    """Change one source, based on its current row."""
    sql = f"SELECT {columns(SOURCE_COLUMNS)} FROM sources WHERE id = :id FOR NO KEY UPDATE"
    rows = session.fetch(sql, {"id": source_id})
    if not rows:
        raise NotFound(f"there is no source {source_id}")
    before = read_source.one(rows[0])
    after = change(before)
    _update_changed(session, [(before, after)])
    return after


def _update_changed(session: Session, edits: Sequence[tuple[Source, Source]]) -> None:
    """Write the columns that differ between each pair of the old and the new source."""
    filter_changes.note_sources(session, edits)
    changes = (changed_columns(before, after, _FIELDS) for before, after in edits)
    for rows in grouped_by_columns(row for row in changes if len(row) > 1):
        session.update_rows("sources", rows)
        if rows[0].get("full_text") == FullText.OFF:
            page_visits.remove_of_sources(session, [row["id"] for row in rows])
        if not rows[0].keys().isdisjoint(_OF_PAGE):
            _forget_page(session, rows)


def _forget_page(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Delete what was derived from the page that the sources had before an edit (W5, W6)."""
    ids = [row["id"] for row in rows]
    is_same_page = rows[0].keys().isdisjoint({"url", "type"})
    suggestions.forget(session, ids, kind=SuggestionKind.IGNORE if is_same_page else None)
    if not is_same_page:
        feed_searches.forget(session, ids)
    posts.forget_versions(session, ids)


def request(
    session: Session, wanted: SourceFilter, ids: Sequence[str], now: datetime
) -> BatchCounts:
    """Request a poll of the given sources that still match (S9)."""
    where, params = matching(session, wanted, ids)
    sql = f"UPDATE sources AS s SET requested_at = :now WHERE {where}"
    count = session.execute(sql, params | {"now": to_ms(now)})
    return BatchCounts(count, count, count)


def weights(session: Session, ids: Sequence[str]) -> Mapping[str, int]:
    """How many rows of other tables belong to each of these sources."""
    rows: Counter[str] = Counter()
    for table in _TABLES:
        rows.update(count_by_source(session, table, ids))
    return rows


def matching(
    session: Session, wanted: SourceFilter, ids: Sequence[str]
) -> tuple[str, dict[str, object]]:
    """The condition for the given sources that match a filter, with its parameters."""
    conditions, params = conditions_of(wanted, session.kind)
    where = " AND ".join(["s.id IN :ids", *conditions])
    return where, params | {"ids": ids}


async def remove(
    database: Database,
    wanted: SourceFilter,
    ids: Sequence[str],
    *,
    check: Callable[[Source], object] | None = None,
) -> BatchCounts:
    """Delete the given sources that match, with everything that belongs to them.

    `check` is called with each of them in the first transaction, and may raise an error.

    More rows than one transaction should delete are deleted in batches, the sources last. The
    sources are disabled first, so that no poll adds rows; a poll that is being recorded notices and
    is discarded. After an interruption the same call continues.
    """
    rows = await database.read(lambda s: _owned_rows(s, ids))
    if len(rows) < ROWS_PER_BATCH and _batch_size(rows) == len(rows):
        count = await database.write(lambda s: _delete_sources(s, wanted, ids, check))
        if count is not None:
            return BatchCounts(count, count)
    disabled = await database.write(lambda s: _disable(s, wanted, ids, check))
    while True:
        while rows := await database.read(lambda s: _owned_rows(s, disabled)):
            while rows:
                size = _batch_size(rows)
                await database.write(partial(_delete_rows, rows=rows[:size]))
                rows = rows[size:]
        count = await database.write(lambda s: _delete_sources(s, SourceFilter(), disabled))
        if count is not None:
            return BatchCounts(len(disabled), count)
        await asyncio.sleep(_WAIT_SECONDS)  # here: the writer thread must not wait


def _owned_rows(session: Session, ids: Sequence[str]) -> list[_OwnedRow]:
    """The first rows that belong to these sources, at most as many as a batch has."""
    found: list[_OwnedRow] = []
    params = {"ids": ids}
    for table, (key, length) in _TABLES.items():
        sql = f"SELECT source_id, {key}, {length} FROM {table} WHERE source_id IN :ids LIMIT :limit"
        rows = session.fetch(sql, params | {"limit": ROWS_PER_BATCH - len(found)})
        found += [(table, *row) for row in rows]
    return found


def _batch_size(rows: Sequence[_OwnedRow]) -> int:
    """How many of these rows one transaction may delete."""
    return count_within([length for *_, length in rows], CHARACTERS_PER_BATCH)


def _disable(
    session: Session,
    wanted: SourceFilter,
    ids: Sequence[str],
    check: Callable[[Source], object] | None,
) -> list[str]:
    """Disable the matching sources, so that polls in progress are discarded (D4)."""
    _check_each(session, ids, check)
    where, params = matching(session, wanted, ids)
    lock = "ORDER BY s.id FOR NO KEY UPDATE"
    rows = session.fetch(f"SELECT s.id FROM sources s WHERE {where} {lock}", params)
    disabled = [row[0] for row in rows]
    sql = """UPDATE sources SET enabled = FALSE, disabled_reason = NULL, disabled_at = NULL,
        requested_at = NULL, generation = generation + 1 WHERE id IN :ids"""
    session.execute(sql, {"ids": disabled})
    return disabled


def _delete_rows(session: Session, *, rows: Sequence[_OwnedRow]) -> None:
    keys: dict[tuple[str, str], list[object]] = {}
    for table, source_id, key, _ in rows:
        keys.setdefault((table, source_id), []).append(key)
    for (table, source_id), some in keys.items():
        sql = f"DELETE FROM {table} WHERE source_id = :source AND {_TABLES[table][0]} IN :keys"
        session.execute(sql, {"source": source_id, "keys": some})


def _check_each(
    session: Session, ids: Sequence[str], check: Callable[[Source], object] | None
) -> None:
    """Check these sources, which stay locked until the end of the transaction."""
    if check is None:
        return
    rest = "FROM sources WHERE id IN :ids ORDER BY id FOR NO KEY UPDATE"
    for row in session.fetch_bulk(columns(SOURCE_COLUMNS), rest, {"ids": ids}):
        check(read_source.one(row))


def _delete_sources(
    session: Session,
    wanted: SourceFilter,
    ids: Sequence[str],
    check: Callable[[Source], object] | None = None,
) -> int | None:
    """Delete the matching sources; None if posts of one are being stored by a transaction."""
    _check_each(session, ids, check)
    where, params = matching(session, wanted, ids)
    if session.kind == "postgres":
        there = session.fetch(f"SELECT count(*) FROM sources s WHERE {where}", params)[0][0]
        lock = "ORDER BY s.id FOR UPDATE SKIP LOCKED"
        if len(session.fetch(f"SELECT s.id FROM sources s WHERE {where} {lock}", params)) < there:
            return None
    return session.execute(f"DELETE FROM sources AS s WHERE {where}", params)
