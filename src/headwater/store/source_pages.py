"""Lists of sources: filters, and pages in several orders without sorting a large table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from headwater.errors import StoreError
from headwater.model import Health, Source, SourceType, Subject, made
from headwater.rules.text_checks import lowered
from headwater.store.database import Row, Session
from headwater.store.keyset_pages import fetch_items
from headwater.store.row_mapping import SOURCE_COLUMNS, columns, encoded, read_source

SELECT = f"SELECT {columns(SOURCE_COLUMNS, 's')} FROM sources s"
Query = tuple[str, dict[str, object]]  # a statement and its parameters
Position = tuple[int | str, str]  # of a source in an order: its sort key, and its id


class SourceOrder(StrEnum):
    """The orders of a list of sources."""

    NEWEST = "newest"
    OLDEST = "oldest"
    URL = "url"
    NAME = "name"
    POLLED = "polled"
    FAILURES = "failures"


# Orders with an index. The others are sorted by each query, which suits short lists only.
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
SCANNED_URLS = 2000  # index entries read in search of a page
_END_OF_SCAN = "SELECT url FROM sources WHERE url >= :start ORDER BY url LIMIT 1 OFFSET :count"
_INCREMENTAL_SORT = "SELECT set_config('enable_incremental_sort', :state, TRUE)"
# `rules.health.health_of` in SQL; a test compares the two.
_HEALTH = {
    Health.DISABLED: "NOT s.enabled",
    Health.FAILING: "s.enabled AND s.consecutive_failures > 0",
    Health.NEW: "s.enabled AND s.consecutive_failures <= 0 AND s.last_success_at IS NULL",
    Health.OK: "s.enabled AND s.consecutive_failures <= 0 AND s.last_success_at IS NOT NULL",
}
NON_ASCII = range(0x80, 0x20000)  # contains every letter that has a lower case
_MAX_SEARCHED_CAPITALS = 2
_EQUAL = (
    "podcast_id",
    "type",
    "enabled",
    "host",
    "url",
    "label",
    "folder",
)  # fields compared with columns
_SEARCHED_COLUMNS = ("s.url", "s.label", "s.title", "s.folder")


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Conditions on sources; None means any."""

    podcast_id: str | None = None
    type: SourceType | None = None
    enabled: bool | None = None
    host: str | None = None
    url: str | None = None
    label: str | None = None
    folder: str | None = None
    text: str | None = None  # part of URL, label, title or folder
    health: Health | None = None
    user_id: str | None = None  # the owner of the podcast


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page of sources, and the position after which the next one begins, if there is one."""

    sources: Sequence[Source]
    next: Position | None


def _query(
    kind: str,
    wanted: SourceFilter,
    order: SourceOrder,
    limit: int,
    after: Position | None,
    index: str = "",
    upto: str | None = None,
    names: str = columns(SOURCE_COLUMNS, "s"),
) -> Query:
    """A query for the sources after a position, with its parameters."""
    key = _KEYS[order].format(default_collation(kind))
    compared, direction = ("<", " DESC") if order in _DESCENDING else (">", "")
    conditions, params = conditions_of(wanted, kind)
    if after is not None:
        conditions.append(f"({key}, s.id) {compared} (:after_key, :after_id)")
        params |= {"after_key": after[0], "after_id": after[1]}
    if upto is not None:
        conditions.append(f"{key} <= :upto")
        params["upto"] = upto
    # SQLite has no statistics to choose an index by
    indexed = f"INDEXED BY {index}" if kind == "sqlite" and index else ""
    sql = f"""SELECT {names}, {key} FROM sources AS s {indexed}
        WHERE {" AND ".join(conditions) or "TRUE"}
        ORDER BY {key}{direction}, s.id{direction} LIMIT :limit"""
    return sql, params | {"limit": limit}


def page(
    session: Session,
    wanted: SourceFilter,
    order: SourceOrder,
    *,
    limit: int,
    after: Position | None = None,
    many: bool = False,
) -> SourcePage:
    """Matching sources after a position; `many`: the podcast has too many to sort quickly."""
    query = partial(_query, session.kind, wanted, order, limit + 1, after)
    rows, index = None, "" if wanted.host is None else "sources_host"
    if many and order is SourceOrder.URL and wanted.host is None:
        rows = _scan_urls(session, query, "" if after is None else after[0], limit)
        index = "sources_podcast" if wanted.podcast_id is not None else ""
    if rows is None:
        rows = session.fetch(*query(index=index))
    sources = read_source.all([row[:-1] for row in rows[:limit]])
    more = len(rows) > limit
    return SourcePage(sources, (rows[limit - 1][-1], rows[limit - 1][0]) if more else None)


def _scan_urls(
    session: Session, query: Callable[..., Query], start: object, limit: int
) -> list[Row] | None:
    """A page by URL from a bounded scan of the URL index; None if the page is not full by then.

    In that case few sources match. Sorting these costs less than scanning on, which would look up
    every source of every user.
    """
    ends = session.fetch(_END_OF_SCAN, {"start": start, "count": SCANNED_URLS})
    upto = ends[0][0] if ends else None
    is_postgres = session.kind == "postgres"
    if is_postgres:  # use the index order: URLs are nearly unique, so little is left to sort
        session.fetch(_INCREMENTAL_SORT, {"state": "on"})
    rows = session.fetch(*query(index="sources_url", upto=upto))
    if upto is None or len(rows) > limit:
        return rows
    if is_postgres:
        session.fetch(_INCREMENTAL_SORT, {"state": "off"})
    return None


def count_up_to(session: Session, wanted: SourceFilter, most: int) -> int:
    """The number of matching sources; counting stops at `most`."""
    conditions, params = conditions_of(wanted, session.kind)
    sql = f"""SELECT count(*) FROM (SELECT 1 FROM sources AS s
        WHERE {" AND ".join(conditions) or "TRUE"} LIMIT :most) AS counted"""
    return int(session.fetch(sql, params | {"most": most})[0][0])


def find(
    session: Session, wanted: SourceFilter, *, limit: int, after: Position | None = None
) -> list[Source]:
    """Matching sources in the order they were added; `after` continues after a position."""
    return fetch_items(
        lambda behind: session.fetch(
            *_query(session.kind, wanted, SourceOrder.OLDEST, limit, behind)
        ),
        lambda rows: read_source.all([row[:-1] for row in rows]),
        lambda row: (row[-1], row[0]),
        limit=limit,
        after=after,
    )


def find_in_all_podcasts(
    session: Session,
    wanted: SourceFilter,
    *,
    limit: int,
    after: tuple[object, ...] | None = None,
) -> list[Source]:
    """Matching sources of all podcasts, by podcast in the order they were added.

    That is the order of an index: the cost of a page does not depend on the number of sources.
    """
    conditions, params = conditions_of(wanted, session.kind)
    at = SOURCE_COLUMNS.index("created_at")
    podcast = SOURCE_COLUMNS.index("podcast_id")

    def fetch(behind: tuple[object, ...] | None) -> list[Row]:
        names = ("after_podcast", "after_at", "after_id")
        place = {} if behind is None else dict(zip(names, behind, strict=True))
        row = f"(:{', :'.join(names)})"
        bound = [f"(s.podcast_id, s.created_at, s.id) > {row}"] if place else []
        sql = f"""{SELECT} WHERE {" AND ".join([*conditions, *bound]) or "TRUE"}
            ORDER BY s.podcast_id, s.created_at, s.id LIMIT :limit"""
        return session.fetch(sql, params | place | {"limit": limit})

    return fetch_items(
        fetch,
        read_source.all,
        lambda row: (row[podcast], row[at], row[0]),
        limit=limit,
        after=after,
    )


def positions(
    session: Session, wanted: SourceFilter, *, limit: int, after: Position | None = None
) -> list[Position]:
    """The same as `find`, creation times and ids only."""
    query = _query(session.kind, wanted, SourceOrder.OLDEST, limit, after, names="s.id")
    return [(at, id_) for id_, at in session.fetch(*query)]


def subjects(session: Session, ids: Sequence[str]) -> list[Subject | StoreError | None]:
    """Sources with the settings of their podcasts; None for those that were deleted."""
    rows = session.fetch_bulk(
        "p.user_id, p.max_article_age_days, p.dedupe_across_sources, p.keep, p.block, "
        + columns(SOURCE_COLUMNS, "s"),
        """FROM sources s JOIN podcasts p ON p.id = s.podcast_id
        WHERE s.id IN :ids""",
        {"ids": set(ids)},
    )
    found: dict[str, Subject | StoreError] = {}
    for user_id, max_age_days, dedupe, keep, block, *source in rows:
        try:
            found[source[0]] = made(Subject, {
                "source": read_source.one(source), "user_id": user_id,
                "max_article_age_days": max_age_days, "dedupe_across_sources": bool(dedupe),
                "keep": keep, "block": block,
            })  # fmt: skip
        except StoreError as error:
            found[source[0]] = error
    return [found.get(id_) for id_ in ids]


def conditions_of(wanted: SourceFilter, kind: str) -> tuple[list[str], dict[str, object]]:
    """The conditions on a row of `sources s`, with their parameters."""
    values = {name: encoded(getattr(wanted, name)) for name in _EQUAL}
    params = {name: value for name, value in values.items() if value is not None}
    conditions = [f"s.{name} = :{name}" for name in params]
    if wanted.text is not None:
        small = lowered(wanted.text)
        conditions.append(_contains_text(kind, small))
        params["text"] = f"%{like(small)}%"
    if wanted.health is not None:
        conditions.append(_HEALTH[wanted.health])
    if wanted.user_id is not None:
        conditions.append("s.podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user_id)")
        params["user_id"] = wanted.user_id
    return conditions, params


def _contains_text(kind: str, small: str) -> str:
    """The condition that one of the searched columns contains a text, ignoring case."""
    found = f"lower({{0}}{default_collation(kind)}) LIKE :text ESCAPE '!'"
    if kind == "sqlite":
        # SQLite's LIKE ignores the case of ASCII letters. Our own function is called only for rows
        # that may need it: every call must win the GIL back from the event loop.
        found = "{0} LIKE :text ESCAPE '!'"
        if capitals := "".join(_capitals().get(letter, "") for letter in sorted(set(small))):
            found = f"{found} OR {_contains_any(capitals)} AND lowered({{0}}) LIKE :text ESCAPE '!'"
    return f"({' OR '.join(found.format(column) for column in _SEARCHED_COLUMNS)})"


def default_collation(kind: str) -> str:
    """The clause for case conversion in PostgreSQL, where columns have the collation "C"."""
    return ' COLLATE "default"' if kind == "postgres" else ""


def _contains_any(capitals: str) -> str:
    """The condition that a column may contain one of these non-ASCII letters."""
    if len(capitals) <= _MAX_SEARCHED_CAPITALS:
        searches = [f"instr({{0}}, '{letter}')" for letter in capitals]
        return f"({' OR '.join(searches)})"
    return "length(CAST({0} AS BLOB)) > length({0})"


@cache
def _capitals() -> Mapping[str, str]:
    """The non-ASCII capital letters of each lower-case letter."""
    letters = "".join(map(chr, NON_ASCII))
    found: dict[str, str] = {}
    for capital, small in zip(letters, lowered(letters), strict=True):
        if capital != small:
            found[small] = found.get(small, "") + capital
    return found


def like(text: str) -> str:
    """Text as part of a LIKE pattern that is escaped with `!`."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
