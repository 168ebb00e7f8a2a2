"""Sources in the orders that people look at them in, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headwater.model import Source
from headwater.store.database import Row, Session
from headwater.store.rows import SOURCE_COLUMNS, columns, source_from
from headwater.store.source_filter import SourceFilter, conditions_of, in_its_language

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
    SourceOrder.NAME: "lower(coalesce(s.label, s.url){})",
    SourceOrder.POLLED: "coalesce(s.last_polled, 0)",
    SourceOrder.FAILURES: "s.consecutive_failures",
}
_DESCENDING = (SourceOrder.NEWEST, SourceOrder.POLLED, SourceOrder.FAILURES)
_STEPS = 2000  # along an index, in search of a page
_END_OF_WALK = "SELECT url FROM sources WHERE url >= :start ORDER BY url LIMIT 1 OFFSET :steps"
_SORT_ALONG = "SELECT set_config('enable_incremental_sort', :state, TRUE)"


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
    wish = _Wish(wanted, order, limit, after)
    rows, index = None, ""
    if many and order is SourceOrder.URL and wanted.host is None:
        rows = _met_by_url(session, wish)
        index = "sources_podcast" if wanted.podcast_id is not None else ""
    if rows is None:
        rows = session.fetch(*wish.query(session.kind, index))
    sources = [source_from(row[:-1]) for row in rows[:limit]]
    more = len(rows) > limit
    return Listing(sources, (rows[limit - 1][-1], sources[-1].id) if more else None)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A page of a list that somebody wants."""

    wanted: SourceFilter
    order: SourceOrder
    limit: int
    after: Place | None

    def query(
        self, kind: str, index: str = "", *, upto: str | None = None
    ) -> tuple[str, dict[str, object]]:
        """The statement for one row more than the page has, and what is bound in it."""
        key = _KEYS[self.order].format(in_its_language(kind))
        compared, direction = ("<", " DESC") if self.order in _DESCENDING else (">", "")
        conditions, params = conditions_of(self.wanted, kind)
        if self.after is not None:
            conditions.append(f"({key}, s.id) {compared} (:after_key, :after_id)")
            params |= {"after_key": self.after[0], "after_id": self.after[1]}
        if upto is not None:
            conditions.append(f"{key} <= :upto")
            params["upto"] = upto
        if self.wanted.host is not None:
            index = "sources_host"
        # SQLite keeps no statistics to go by
        indexed = f"INDEXED BY {index}" if kind == "sqlite" and index else ""
        sql = f"""SELECT {columns(SOURCE_COLUMNS, "s")}, {key} FROM sources AS s {indexed}
            WHERE {" AND ".join(conditions) or "TRUE"}
            ORDER BY {key}{direction}, s.id{direction} LIMIT :limit"""
        return sql, params | {"limit": self.limit + 1}


def _met_by_url(session: Session, wish: _Wish) -> list[Row] | None:
    """A page by URL, met on a walk along the index; None: it is not full after a long one.

    Then what fits is rare. To sort all of it takes less than to walk on, which would look every
    source of everybody up by itself.
    """
    params = {"start": "" if wish.after is None else wish.after[0], "steps": _STEPS}
    ends = session.fetch(_END_OF_WALK, params)
    upto = ends[0][0] if ends else None
    is_postgres = session.kind == "postgres"
    if is_postgres:  # along the index, whose URLs are all but unique, instead of sorting
        session.fetch(_SORT_ALONG, {"state": "on"})
    rows = session.fetch(*wish.query(session.kind, "sources_url", upto=upto))
    if upto is None or len(rows) > wish.limit:
        return rows
    if is_postgres:
        session.fetch(_SORT_ALONG, {"state": "off"})
    return None


def count_up_to(session: Session, wanted: SourceFilter, most: int) -> int:
    """How many sources fit, counted up to a number that is enough to know."""
    conditions, params = conditions_of(wanted, session.kind)
    sql = f"""SELECT count(*) FROM (SELECT 1 FROM sources AS s
        WHERE {" AND ".join(conditions) or "TRUE"} LIMIT :most) AS counted"""
    return int(session.fetch(sql, params | {"most": most})[0][0])
