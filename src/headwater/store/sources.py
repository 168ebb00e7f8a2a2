"""Sources: settings and state."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from headwater.batch import Batcher
from headwater.errors import NotFound, StoreError
from headwater.logs import get_logger
from headwater.model import EPOCH, DueSource, Source, Subject, made
from headwater.rules.policy import Policy
from headwater.rules.schedule import CLOCK_TOLERANCE
from headwater.store import due, removals
from headwater.store import source_bites as bites
from headwater.store import source_orders as orders
from headwater.store.database import Database, Row, Session
from headwater.store.rows import (
    SOURCE_COLUMNS,
    columns,
    settings_of,
    source_from,
    state_of,
    to_ms,
)
from headwater.store.source_bites import Tally
from headwater.store.source_filter import SourceFilter, conditions_of, like

__all__ = ["Position", "SourceFilter", "Sources", "Tally"]

Position = tuple[int, str]  # of a source in lists: the moment it was added, and its id
log = get_logger()
_SELECT = f"SELECT {columns(SOURCE_COLUMNS, 's')} FROM sources s"
_PLACES = "SELECT s.created_at, s.id FROM sources s"
_UPDATE = (
    "UPDATE sources SET "
    + ", ".join(f"{name} = :{name}" for name in SOURCE_COLUMNS if name != "id")
    + " WHERE id = :id"
)


class Sources:
    """The sources table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._load = Batcher(self._load_many, is_watched=lambda: database.people_waiting > 0)

    async def due(self, now: datetime, policy: Policy) -> list[DueSource]:
        """All sources that are due and not on a hold of their own, in no order (S2, S5)."""
        return await self._database.read(lambda s: due.everywhere(s, now, policy))

    async def due_in(
        self, shards: Sequence[int], now: datetime, policy: Policy, *, requested_only: bool = False
    ) -> list[DueSource]:
        """The due sources of some shards, of a database that several workers share out.

        Of a long backlog those that come first; who looks again finds the next ones.
        """
        return await self._database.read(
            lambda s: due.in_shards(s, shards, now, policy, requested_only=requested_only)
        )

    async def due_shards(self, now: datetime, policy: Policy, *, requested_only: bool) -> list[int]:
        """The shards that have anything due."""
        return await self._database.read(
            lambda s: due.shards_with_any(s, now, policy, requested_only=requested_only)
        )

    async def requested(
        self, now: datetime, policy: Policy, *, since: datetime = EPOCH
    ) -> list[DueSource]:
        """The sources that somebody asked to poll, of late or at any time (S9)."""
        return await self._database.read(lambda s: due.requested(s, now, policy, since))

    async def due_one(self, source_id: str, policy: Policy) -> DueSource:
        """One source as its lane wants it, due or not."""
        return await self._database.read(lambda s: due.one(s, source_id, policy))

    async def subject(self, source_id: str) -> Subject | None:
        """A source as it is now, with what its podcast says; None if it is gone."""
        found = (await self._load_many([source_id]))[0]
        if isinstance(found, StoreError):
            raise found
        return found

    async def subjects(self, source_ids: Sequence[str]) -> Mapping[str, Subject]:
        """The same for some; those that are gone or cannot be read are left out."""
        found = await self._load_many(source_ids)
        return {one.source.id: one for one in found if isinstance(one, Subject)}

    async def subject_for_poll(self, source_id: str) -> Subject | None:
        """The same, read together with those of other polls; people do not wait for these."""
        return await self._load(source_id)

    async def get(self, source_id: str) -> Source:
        """A source as it is now."""
        subject = await self.subject(source_id)
        if subject is None:
            raise NotFound(f"there is no source {source_id}")
        return subject.source

    async def known(self, ids: Iterable[str]) -> Mapping[str, Source]:
        """Those of these sources that there are, by their ids."""
        found = await self._load_many(sorted(set(ids)))
        return {one.source.id: one.source for one in found if isinstance(one, Subject)}

    async def find(
        self, wanted: SourceFilter, *, limit: int, after: Position | None = None
    ) -> Sequence[Source]:
        """Sources in the order they were added; `after` continues behind the last one."""
        return await self._database.read(lambda s: _listed(s, wanted, limit, after))

    async def page(
        self,
        wanted: SourceFilter,
        order: orders.SourceOrder,
        *,
        limit: int,
        after: orders.Place | None = None,
        many: bool = False,
    ) -> orders.Listing:
        """A page of sources in any order; `many`: there are more than are quickly sorted."""
        return await self._database.read(
            lambda s: orders.listed(s, wanted, order, limit=limit, after=after, many=many)
        )

    async def count_up_to(self, wanted: SourceFilter, most: int) -> int:
        """How many sources fit, counted up to a number that is enough to know."""
        return await self._database.read(lambda s: orders.count_up_to(s, wanted, most))

    async def named(self, wanted: str) -> Sequence[Source]:
        """The source with this id, else those with this URL, else those whose id begins so."""
        attempts = (
            ("s.id = :wanted", wanted),
            ("s.url = :wanted", wanted),
            ("s.id LIKE :wanted ESCAPE '!'", f"{like(wanted)}%"),
        )
        for condition, value in attempts:
            sql, params = f"{_SELECT} WHERE {condition} LIMIT 10", {"wanted": value}
            rows = await self._database.read(partial(_fetch, sql=sql, params=params))
            if rows and wanted:
                return [source_from(row) for row in rows]
        return []

    async def ids(
        self, wanted: SourceFilter, *, limit: int, after: Position | None = None
    ) -> Sequence[Position]:
        """Where sources stand in the list, moment and id; `after` continues behind the last one."""
        return await self._database.read(lambda s: _places(s, wanted, limit, after))

    async def first_unknown(self, podcast_id: str, ids: Sequence[str]) -> str | None:
        """The first of these ids that no source of the podcast has."""
        return await self._database.read(lambda s: bites.first_unknown(s, podcast_id, ids))

    async def refuse_too_many(self, user_id: str, more: int, most: int) -> None:
        """Raise TooMuch if a user would have more than `most` sources (U8)."""
        await self._database.read(lambda s: bites.refuse_too_many(s, user_id, more, most))

    async def add_many(self, sources: Sequence[Source], *, most: int | None = None) -> None:
        """Store new sources, all or none; no user gets beyond `most` (U8)."""
        await self._database.write(lambda s: bites.add(s, sources, most))

    async def edit_many(
        self, wanted: SourceFilter, ids: Sequence[str], change: Callable[[Source], Source]
    ) -> Tally:
        """Change those of these sources that still fit, in one transaction."""
        return await self._database.write(lambda s: bites.edit(s, wanted, ids, change))

    async def request_many(self, wanted: SourceFilter, ids: Sequence[str], now: datetime) -> Tally:
        """Ask for polls of those of these sources that still fit (S9)."""
        at = to_ms(now) or 0
        return await self._database.write(lambda s: bites.request(s, wanted, ids, at))

    async def weights(self, ids: Sequence[str]) -> Mapping[str, int]:
        """How many rows of other tables go with each of these sources."""
        return await self._database.read(lambda s: bites.weights(s, ids))

    async def remove_many(self, wanted: SourceFilter, ids: Sequence[str]) -> Tally:
        """Delete those of these sources that still fit, with all that belongs to them."""
        return await removals.remove(self._database, wanted, ids)

    async def edit(self, source_id: str, change: Callable[[Source], Source]) -> Source:
        """Change a source as it is now, in one transaction."""
        return await self._database.write(lambda s: _edited(s, source_id, change))

    async def remove(self, source_id: str) -> None:
        """Delete a source and all that belongs to it."""
        if not (await self.remove_many(SourceFilter(), [source_id])).matched:
            raise NotFound(f"there is no source {source_id}")

    async def request(self, source_ids: Sequence[str], now: datetime) -> None:
        """Ask for a poll as soon as may be (S9)."""
        rows = [{"id": source_id, "now": to_ms(now)} for source_id in source_ids]
        sql = "UPDATE sources SET requested_at = :now WHERE id = :id"
        await self._database.write(lambda s: s.execute_many(sql, rows))

    async def without_contact(self, limit: int) -> Sequence[Source]:
        """Enabled sources that were never polled and have no jitter yet (P6)."""
        sql = f"""{_SELECT} WHERE s.enabled AND s.default_cap IN (TRUE, FALSE)
            AND s.last_polled IS NULL LIMIT :limit"""
        rows = await self._database.read(lambda s: s.fetch(sql, {"limit": limit}))
        return _readable(rows)

    async def set_contact(self, sources: Sequence[Source]) -> None:
        """Keep the jitter of these sources, once (P6)."""
        rows = [{"id": source.id, "at": to_ms(source.last_polled)} for source in sources]
        sql = "UPDATE sources SET last_polled = :at WHERE id = :id AND last_polled IS NULL"
        await self._database.write(lambda s: s.execute_many(sql, rows))

    async def bring_back(self, now: datetime) -> int:
        """Rewrite polls that lie in the future: the clock was set back (S2)."""
        params = {"now": to_ms(now), "limit": to_ms(now + CLOCK_TOLERANCE)}
        return await self._database.write(lambda s: _bring_back(s, params))

    async def counts(self) -> Mapping[str, int]:
        """How many sources there are, by state."""
        sql = """SELECT count(*), count(*) FILTER (WHERE enabled),
            count(*) FILTER (WHERE enabled AND consecutive_failures > 0) FROM sources"""
        row = (await self._database.read(lambda s: s.fetch(sql)))[0]
        return {"sources": row[0], "enabled": row[1], "failing": row[2]}

    async def _load_many(self, ids: Sequence[str]) -> Sequence[Subject | StoreError | None]:
        return await self._database.read(lambda s: _subjects(s, ids))


def _subjects(session: Session, ids: Sequence[str]) -> list[Subject | StoreError | None]:
    rows = session.fetch_together(
        "p.user_id, p.max_article_age_days, p.dedupe_across_sources, "
        + columns(SOURCE_COLUMNS, "s"),
        f"""FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        WHERE {session.among("s.id", "ids")}""",
        {"ids": session.array(set(ids))},
    )
    found: dict[str, Subject | StoreError] = {}
    for row in rows:
        try:
            found[row[3]] = _subject(row)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            found[row[3]] = StoreError(f"the source {row[3]} cannot be read: {error!r}")
    return [found.get(id_) for id_ in ids]


def _subject(row: Row) -> Subject:
    user_id, max_article_age_days, dedupe_across_sources, *source = row
    return made(Subject, {
        "source": source_from(source), "user_id": user_id,
        "max_article_age_days": max_article_age_days,
        "dedupe_across_sources": bool(dedupe_across_sources),
    })  # fmt: skip


def _edited(session: Session, source_id: str, change: Callable[[Source], Source]) -> Source:
    lock = " FOR NO KEY UPDATE" if session.kind == "postgres" else ""
    rows = session.fetch(f"{_SELECT} WHERE s.id = :id{lock}", {"id": source_id})
    if not rows:
        raise NotFound(f"there is no source {source_id}")
    after = change(source_from(rows[0]))
    session.execute(_UPDATE, settings_of(after) | state_of(after))
    return after


def _listed(
    session: Session, wanted: SourceFilter, limit: int, after: Position | None
) -> list[Source]:
    sql, params = _in_order(session.kind, wanted, limit, after)
    return _readable(session.fetch(f"{_SELECT} {sql}", params))


def _readable(rows: Sequence[Row]) -> list[Source]:
    """Sources from their rows; one that came in by another way must not hide the others (H4)."""
    found = []
    for row in rows:
        try:
            found.append(source_from(row))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            log.warning("[Polling] a source cannot be read and is left out", source=row[0])
    return found


def _places(
    session: Session, wanted: SourceFilter, limit: int, after: Position | None
) -> list[Position]:
    sql, params = _in_order(session.kind, wanted, limit, after)
    return [(at, id_) for at, id_ in session.fetch(f"{_PLACES} {sql}", params)]


def _in_order(
    kind: str, wanted: SourceFilter, limit: int, after: Position | None
) -> tuple[str, dict[str, object]]:
    """The end of a statement that lists: what to leave out, in which order, how much."""
    conditions, params = conditions_of(wanted, kind)
    if after is not None:
        conditions.append("(s.created_at, s.id) > (:after_at, :after_id)")
        params |= {"after_at": after[0], "after_id": after[1]}
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{where} ORDER BY s.created_at, s.id LIMIT :limit", params | {"limit": limit}


def _bring_back(session: Session, params: Mapping[str, int | None]) -> int:
    sql = """UPDATE sources SET last_polled = :now
        WHERE enabled AND default_cap = {capped} AND last_polled > :limit"""
    return sum(session.execute(sql.format(capped=c), params) for c in ("TRUE", "FALSE"))


def _fetch(session: Session, *, sql: str, params: Mapping[str, str]) -> list[Row]:
    return session.fetch(sql, params)
