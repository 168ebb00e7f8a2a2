"""Sources in the orders that people look at them in, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headwater.model import Source
from headwater.store.database import Session
from headwater.store.rows import SOURCE_COLUMNS, columns, source_from
from headwater.store.source_filter import SourceFilter, conditions_of

Place = tuple[int | str, str]  # of a source in an order: what it is ordered by, and its id


class SourceOrder(StrEnum):
    """By what a list of sources is ordered."""

    NEWEST = "newest"
    OLDEST = "oldest"
    URL = "url"
    NAME = "name"
    POLLED = "polled"
    FAILURES = "failures"


# Those that an index has. The others are sorted when asked for: for as many as a person may read.
INDEXED_ORDERS = (SourceOrder.NEWEST, SourceOrder.OLDEST, SourceOrder.URL)
_KEYS = {
    SourceOrder.NEWEST: "s.created_at",
    SourceOrder.OLDEST: "s.created_at",
    SourceOrder.URL: "s.url",
    SourceOrder.NAME: "lower(coalesce(s.label, s.url))",
    SourceOrder.POLLED: "coalesce(s.last_polled, 0)",
    SourceOrder.FAILURES: "s.consecutive_failures",
}
_DESCENDING = (SourceOrder.NEWEST, SourceOrder.POLLED, SourceOrder.FAILURES)


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of sources, and where the next one begins; None: this was the last."""

    sources: Sequence[Source]
    next: Place | None


def listed(
    session: Session,
    wanted: SourceFilter,
    order: SourceOrder,
    *,
    limit: int,
    after: Place | None,
    many: bool,
) -> Listing:
    """Sources that fit, behind a place; `many`: the podcast has more than are quickly sorted."""
    key = _KEYS[order]
    compared, direction = ("<", " DESC") if order in _DESCENDING else (">", "")
    conditions, params = conditions_of(wanted, session.kind)
    if after is not None:
        conditions.append(f"({key}, s.id) {compared} (:after_key, :after_id)")
        params |= {"after_key": after[0], "after_id": after[1]}
    sql = f"""SELECT {columns(SOURCE_COLUMNS, "s")}, {key}
        FROM sources AS s {_index(session, wanted, order, many=many)}
        WHERE {" AND ".join(conditions) or "TRUE"}
        ORDER BY {key}{direction}, s.id{direction} LIMIT :limit"""
    if session.kind == "postgres" and many and order is SourceOrder.URL:
        # along the index, whose URLs are all but unique, instead of sorting the whole podcast
        session.fetch("SELECT set_config('enable_incremental_sort', 'on', TRUE)")
    rows = session.fetch(sql, params | {"limit": limit + 1})
    sources = [source_from(row[:-1]) for row in rows[:limit]]
    more = len(rows) > limit
    return Listing(sources, (rows[limit - 1][-1], sources[-1].id) if more else None)


def count_up_to(session: Session, wanted: SourceFilter, most: int) -> int:
    """How many sources fit, counted up to a number that is enough to know."""
    conditions, params = conditions_of(wanted, session.kind)
    sql = f"""SELECT count(*) FROM (SELECT 1 FROM sources AS s
        WHERE {" AND ".join(conditions) or "TRUE"} LIMIT :most) AS counted"""
    return int(session.fetch(sql, params | {"most": most})[0][0])


def _index(session: Session, wanted: SourceFilter, order: SourceOrder, *, many: bool) -> str:
    """Which index SQLite shall use: it keeps no statistics, and would go by the podcast's."""
    if session.kind != "sqlite":
        return ""
    if wanted.host is not None:
        return "INDEXED BY sources_host"
    return "INDEXED BY sources_url" if many and order is SourceOrder.URL else ""
