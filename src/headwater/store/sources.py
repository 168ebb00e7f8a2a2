"""Sources: the settings and state of sources; polls read and people edit them here."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from headwater.batcher import Batcher
from headwater.errors import NotFound, StoreError
from headwater.model import Source, SourceType, Subject
from headwater.rules.schedule import CLOCK_TOLERANCE
from headwater.store import due_sources, source_batches, source_pages, suggestions
from headwater.store.database import Database, Session, Tables, reads, reads_single, writes
from headwater.store.row_mapping import (
    encoded,
    from_ms,
    read_source,
    to_ms,
)
from headwater.store.source_batches import BatchCounts
from headwater.store.source_pages import SELECT, Position, SourceFilter, like

__all__ = ["BatchCounts", "Position", "SourceFilter", "Sources"]


def _clamp_future_polls(session: Session, now: datetime) -> int:
    """Set future values of `last_polled` to now, after the clock was set back (S2)."""
    params = {"now": to_ms(now), "limit": to_ms(now + CLOCK_TOLERANCE)}
    sql = """UPDATE sources SET last_polled = :now
        WHERE enabled AND default_cap = {value} AND last_polled > :limit"""
    # both values of the leading index column, so that the index is used
    return sum(session.execute(sql.format(value=v), params) for v in ("TRUE", "FALSE"))


def _accept_suggestion(
    session: Session,
    source_id: str,
    suggestion_id: str,
    change: Callable[[Source], Source],
    now: datetime,
) -> Source | None:
    """Change a source as an open suggestion says, and close it; None: it is not open."""
    _lock(session, source_id)
    if not suggestions.accept(session, source_id, suggestion_id, now):
        return None
    return source_batches.edit_one(session, source_id, change)


def _undo_suggestion(
    session: Session, source_id: str, suggestion_id: str, change: Callable[[Source], Source]
) -> Source:
    """Change a source back as it was before a suggestion was accepted, and dismiss that."""
    source = source_batches.edit_one(session, source_id, change)
    suggestions.dismiss(session, source_id, suggestion_id)
    return source


def _lock(session: Session, source_id: str) -> None:
    """Lock a source before rows that belong to it, as every edit does."""
    sql = "SELECT 1 FROM sources WHERE id = :id FOR NO KEY UPDATE"
    if not session.fetch(sql, {"id": source_id}):
        raise NotFound(f"there is no source {source_id}")


class Sources(Tables):
    """The sources table."""

    due = reads(due_sources.all_due)
    due_in = reads_single(due_sources.in_shards)
    requested = reads(due_sources.requested)
    due_one = reads(due_sources.one)

    find = reads(source_pages.find)
    positions = reads(source_pages.positions)
    page = reads(source_pages.page)
    count_up_to = reads(source_pages.count_up_to)
    find_in_all_podcasts = reads(source_pages.find_in_all_podcasts)

    first_unknown = reads(source_batches.first_unknown)
    watched_urls = reads(source_batches.watched_urls)
    weights = reads(source_batches.weights)
    refuse_too_many = reads(source_batches.refuse_too_many)
    add_many = writes(source_batches.add)
    add_missing = writes(source_batches.add_missing)
    edit = writes(source_batches.edit_one)
    edit_many = writes(source_batches.edit)
    accept_suggestion = writes(_accept_suggestion)
    undo_suggestion = writes(_undo_suggestion)
    request_many = writes(source_batches.request)

    clamp_future_polls = writes(_clamp_future_polls)
    _load_many = reads(source_pages.subjects)

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._load = Batcher(self._load_many, yield_often=lambda: database.interactive_requests > 0)

    async def subject(self, source_id: str) -> Subject | None:
        """A source with the settings of its podcast; None if it was deleted."""
        found = (await self._load_many([source_id]))[0]
        if isinstance(found, StoreError):
            raise found
        return found

    async def subjects(self, source_ids: Sequence[str]) -> Mapping[str, Subject]:
        """The same for several, without those that were deleted or cannot be read."""
        found = await self._load_many(source_ids)
        return {one.source.id: one for one in found if isinstance(one, Subject)}

    async def subject_for_poll(self, source_id: str) -> Subject | None:
        """The same as `subject`, read in one batch with the sources of other polls."""
        return await self._load(source_id)

    async def get(self, source_id: str) -> Source:
        """The source with this id."""
        subject = await self.subject(source_id)
        if subject is None:
            raise NotFound(f"there is no source {source_id}")
        return subject.source

    async def known(self, ids: Iterable[str]) -> Mapping[str, Source]:
        """The given sources that exist, by id."""
        found = await self.subjects(sorted(set(ids)))
        return {id_: subject.source for id_, subject in found.items()}

    async def find_by_reference(self, reference: str) -> Sequence[Source]:
        """The source with this id, else those with this URL, else those with this id prefix."""
        attempts = (
            ("s.id = :reference", reference),
            ("s.url = :reference", reference),
            ("s.id LIKE :reference ESCAPE '!'", f"{like(reference)}%"),
        )
        for condition, value in attempts if reference else ():
            sql = f"{SELECT} WHERE {condition} LIMIT 10"
            if rows := await self.database.fetch(sql, {"reference": value}):
                return read_source.all(rows)
        return []

    async def remove_many(self, wanted: SourceFilter, ids: Sequence[str]) -> BatchCounts:
        """Delete the given sources that still match, with everything that belongs to them."""
        return await source_batches.remove(self.database, wanted, ids)

    async def remove(
        self, source_id: str, *, check: Callable[[Source], object] | None = None
    ) -> None:
        """Delete a source and everything that belongs to it, unless `check` raises an error."""
        ids = [source_id]
        removed = await source_batches.remove(self.database, SourceFilter(), ids, check=check)
        if not removed.matched:
            raise NotFound(f"there is no source {source_id}")

    async def request(self, source_ids: Sequence[str], now: datetime) -> None:
        """Request polls as soon as possible (S9)."""
        await self.request_many(SourceFilter(), source_ids, now)

    async def without_contact(self, limit: int) -> Sequence[Source]:
        """Enabled sources that were never polled and have no jitter yet (P6)."""
        sql = f"""{SELECT} WHERE s.enabled AND s.default_cap IN (TRUE, FALSE)
            AND s.last_polled IS NULL LIMIT :limit"""
        return read_source.all(await self.database.fetch(sql, {"limit": limit}))

    async def last_polls(self, urls: Collection[str]) -> dict[tuple[SourceType, str], datetime]:
        """When enabled sources with these URLs were last polled, by type and URL (Y7)."""
        sql = """SELECT type, url, max(last_polled) FROM sources
            WHERE url IN :urls AND enabled AND last_polled IS NOT NULL GROUP BY type, url"""
        rows = await self.database.fetch(sql, {"urls": list(urls)})
        return {(SourceType(type_), url): from_ms(at) for type_, url, at in rows}

    async def set_contact(self, sources: Sequence[Source]) -> None:
        """Store the jitter of these sources, once (P6)."""
        rows = [{"id": source.id, "at": encoded(source.last_polled)} for source in sources]
        sql = "UPDATE sources SET last_polled = :at WHERE id = :id AND last_polled IS NULL"
        await self.database.write(lambda s: s.execute_many(sql, rows))
