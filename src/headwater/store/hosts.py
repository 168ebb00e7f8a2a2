"""Hosts: when a lane may be visited again, and summaries of a host's sources (P3, P9, O2, O3)."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.model import (
    Fence,
    Hold,
    HostState,
    Outcome,
    PollRecord,
    Source,
    SourceType,
    Visit,
)
from headwater.store import poll_history
from headwater.store.database import Row, Session, Tables, reads, writes, writes_apart
from headwater.store.key_values import set_value
from headwater.store.row_mapping import (
    SOURCE_COLUMNS,
    RowReader,
    columns,
    decoder,
    encoded,
    hold_of,
    read_source,
    row_reader,
    to_ms,
)
from headwater.store.shards import NOW_MS

_STATE_COLUMNS = {
    "lane": str, "next_allowed_at": datetime, "next_allowed_set_at": datetime,
    "hold_until": datetime, "hold_set_at": datetime, "hold_reason": str,
    "last_success_at": datetime, "resolved_at": datetime,
}  # fmt: skip
_SELECT = f"SELECT {columns(_STATE_COLUMNS)} FROM hosts"
# Announcements are a few rows of a small table: cheap to read every second, unlike all hosts.
_PREFIX = "visited:"
_ANNOUNCED = f"""lane IN (
    SELECT substr(name, {len(_PREFIX) + 1}) FROM facts
    WHERE name LIKE '{_PREFIX}%' AND value > :since)"""
_ANNOUNCED_FOR = timedelta(minutes=10)

# The first reads the user's podcasts once; the second checks rows one by one along an index.
_OWNED = "s.podcast_id IN (SELECT p.id FROM podcasts p WHERE p.user_id = :owner)"
_IS_OWNED = "EXISTS (SELECT 1 FROM podcasts p WHERE p.id = s.podcast_id AND p.user_id = :owner)"
# Jumps from host to host in the index and skips the many sources that one host may have.
_NAMES = """
    WITH RECURSIVE names (host, number) AS (
        SELECT (SELECT s.host FROM sources s WHERE s.host > :after {owned}
            ORDER BY s.host LIMIT 1), 1
        UNION ALL
        SELECT (SELECT s.host FROM sources s WHERE s.host > names.host {owned}
            ORDER BY s.host LIMIT 1), number + 1
        FROM names WHERE names.host IS NOT NULL AND number < :limit
    ) SELECT host FROM names WHERE host IS NOT NULL
"""
# For a user with few sources: reading these is cheaper than jumping through all hosts.
_NAMES_OF_FEW = """
    SELECT DISTINCT s.host FROM podcasts p JOIN sources s ON s.podcast_id = p.id
    WHERE p.user_id = :owner AND s.host > :after ORDER BY s.host LIMIT :limit
"""
# Pages that are to be read may be on hosts without sources (T4).
_NAMES_OF_PAGES = """
    SELECT DISTINCT v.host FROM page_visits v JOIN sources s ON s.id = v.source_id
    WHERE v.host > :after {owned} ORDER BY v.host LIMIT :limit
"""
_COUNT_UP_TO = """
    SELECT count(*) FROM (
        SELECT 1 FROM podcasts p JOIN sources s ON s.podcast_id = p.id
        WHERE p.user_id = :owner LIMIT :most
    ) AS counted
"""
_TALLIES = """
    SELECT s.host, s.type, count(*), count(*) FILTER (WHERE s.enabled),
        count(*) FILTER (WHERE s.enabled AND s.consecutive_failures > 0),
        count(s.poll_delay_seconds), max(s.poll_delay_seconds), max(s.last_success_at)
    FROM sources s WHERE s.host IN :hosts {owned} GROUP BY s.host, s.type ORDER BY s.host, s.type
"""
_POLLED_LAST = """
    SELECT s.id FROM sources s WHERE s.host = :host AND s.last_polled IS NOT NULL {owned}
    ORDER BY s.last_polled DESC LIMIT :limit
"""
# Failing sources come first.
_SOURCES = f"""
    SELECT {columns(SOURCE_COLUMNS, "s")} FROM sources s WHERE s.host = :host {{owned}}
    ORDER BY CASE WHEN s.enabled AND s.consecutive_failures > 0 THEN 0 ELSE 1 END, s.id
    LIMIT :limit
"""
_BY_PODCAST = """
    SELECT s.podcast_id, count(*) FROM sources s WHERE s.host = :host {owned}
    GROUP BY s.podcast_id ORDER BY count(*) DESC, s.podcast_id LIMIT :limit
"""
_FAILED_LAST = f"""
    SELECT (SELECT failure_kind FROM polls WHERE {poll_history.newest_first("s.id")} LIMIT 1)
    FROM sources s WHERE s.host = :host AND s.enabled AND s.consecutive_failures > 0 {{owned}}
    LIMIT :limit
"""
_FEW_SOURCES = 5000
_PER_PAGE = 20_000  # of states: a server ends transactions that pause for long (K8)


@dataclass(frozen=True, slots=True)
class HostTally:
    """Numbers of the sources of one type on a host."""

    host: str
    type: SourceType
    sources: int
    enabled: int
    failing: int
    own_delays: int  # sources with their own delay
    longest_own_delay: int | None
    last_success_at: datetime | None


def _state_of(*row: Any) -> HostState:
    lane, next_allowed_at, next_set_at, until, set_at, reason, *times = row
    return HostState(lane, next_allowed_at, next_set_at, hold_of(until, set_at, reason), *times)


_read_state = RowReader(
    "hosts", {c: decoder(kind) for c, kind in _STATE_COLUMNS.items()}, _state_of
)
_read_tally = row_reader(HostTally, "sources")


def _states(session: Session, where: str = "TRUE", **params: object) -> list[HostState]:
    rows = session.fetch(f"{_SELECT} WHERE {where}", params)
    return _read_state.all(rows)


def _page(session: Session, after: str) -> tuple[list[HostState], str | None]:
    """The states of the next lanes after one, and the last of these lanes."""
    sql = f"{_SELECT} WHERE lane > :after ORDER BY lane LIMIT :limit"
    rows = session.fetch(sql, {"after": after, "limit": _PER_PAGE})
    return _read_state.all(rows), rows[-1][0] if rows else None


def of_lanes(session: Session, lanes: Sequence[str]) -> dict[str, HostState]:
    """The stored states of these lanes; lanes without one are left out."""
    return {state.lane: state for state in _states(session, "lane IN :lanes", lanes=set(lanes))}


def _get(session: Session, lane: str) -> HostState:
    """The stored state of one lane."""
    return of_lanes(session, [lane]).get(lane, HostState(lane))


def _announced(session: Session, since: datetime) -> list[HostState]:
    """The states of lanes that were announced after `since`."""
    return _states(session, _ANNOUNCED, since=str(to_ms(since)))


def _closed(session: Session, now: datetime) -> list[HostState]:
    """The states of lanes that have a hold or a delay that is not over."""
    return _states(session, "hold_until > :now OR next_allowed_at > :now", now=to_ms(now))


def _announce(session: Session, lane: str, now: datetime) -> None:
    """Announce to a service in another process that a lane's state has changed (P3)."""
    sql = f"DELETE FROM facts WHERE name LIKE '{_PREFIX}%' AND value < :before"
    session.execute(sql, {"before": str(to_ms(now - _ANNOUNCED_FOR))})
    set_value(session, _PREFIX + lane, str(to_ms(now)))


def keep_visits(session: Session, visits: Sequence[Visit]) -> None:
    """Store when lanes may be visited again, and which visits succeeded."""
    if session.kind == "sqlite":  # one process polls: the last record counts
        _keep(session, visits, is_newer="TRUE")
        return
    _keep(session, [visit for visit in visits if visit.is_last], is_newer="TRUE")
    # other processes may have visited since: an unfinished or a later visit is not overwritten
    _keep(
        session,
        [visit for visit in visits if not visit.is_last],
        is_newer=f"""hosts.next_allowed_at IS NULL
            OR hosts.next_allowed_set_at < excluded.next_allowed_set_at
            OR hosts.next_allowed_set_at > {NOW_MS}""",
    )


def _keep(session: Session, visits: Sequence[Visit], *, is_newer: str) -> None:
    merged: dict[str, dict[str, object]] = {}
    for visit in visits:
        ended = to_ms(visit.ended_at)
        row = {
            "lane": visit.lane,
            "next_allowed_at": encoded(visit.next_allowed_at),
            "next_allowed_set_at": ended if visit.next_allowed_at is not None else None,
            "last_success_at": ended if visit.succeeded else None,
            "resolved_at": ended if visit.resolved else None,
        }
        known = merged.setdefault(visit.lane, row)
        known.update((name, value) for name, value in row.items() if value is not None)
    changes = ", ".join(
        f"""{name} = CASE WHEN excluded.{name} IS NOT NULL AND ({is_newer}) THEN excluded.{name}
            ELSE hosts.{name} END"""
        for name in ("next_allowed_at", "next_allowed_set_at")
    )
    session.insert_rows(
        "hosts",
        [merged[lane] for lane in sorted(merged)],  # the same order in all processes: no deadlock
        f"""ON CONFLICT (lane) DO UPDATE SET {changes},
            last_success_at = coalesce(excluded.last_success_at, hosts.last_success_at),
            resolved_at = coalesce(excluded.resolved_at, hosts.resolved_at)""",
    )


def _end_unfinished_visits(session: Session, now: datetime) -> bool:
    """Count unfinished visits as ended now; True if there were any (P3)."""
    sql = """UPDATE hosts SET next_allowed_set_at = :now
        WHERE next_allowed_at IS NOT NULL AND next_allowed_set_at IS NULL"""
    return session.execute(sql, {"now": to_ms(now)}) > 0


def _keep_hold(session: Session, lane: str, hold: Hold) -> None:
    """Store the hold of a lane at once, not with an outcome (P9)."""
    keep_holds(session, [(lane, hold)])


def keep_holds(
    session: Session, holds: Sequence[tuple[str, Hold]], *, only_longer: bool = False
) -> None:
    """Store the holds of lanes (P9)."""
    if not holds:
        return
    longer = "hosts.hold_until IS NULL OR hosts.hold_until < excluded.hold_until"
    session.execute_many(
        f"""INSERT INTO hosts (lane, hold_until, hold_set_at, hold_reason)
        VALUES (:lane, :until, :set_at, :reason)
        ON CONFLICT (lane) DO UPDATE SET hold_until = excluded.hold_until,
            hold_set_at = excluded.hold_set_at, hold_reason = excluded.hold_reason
        {f"WHERE {longer}" if only_longer else ""}""",
        [
            {"lane": lane, "until": to_ms(h.until), "set_at": to_ms(h.set_at), "reason": h.reason}
            for lane, h in holds
        ],
    )


def keep_of_outcomes(
    session: Session, outcomes: Sequence[Outcome], late: Collection[Fence]
) -> None:
    """Store visits and holds, which apply even if the outcome is discarded (P3, P9).

    Of a worker that lost its shard only longer holds: other workers made visits since (K8).
    """
    _count_shared(session, outcomes)
    timely = [o for o in outcomes if o.fence not in late] if late else outcomes
    keep_visits(session, [visit for outcome in timely for visit in outcome.visits])
    keep_holds(session, _holds(timely))
    if late:
        overtaken = [outcome for outcome in outcomes if outcome.fence in late]
        keep_holds(session, _holds(overtaken), only_longer=True)


def _count_shared(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Count the polls that needed no request of their own (Y7)."""
    counted = Counter(o.before.host for o in outcomes if o.shared and o.before.host)
    if counted:
        session.execute_many(
            """INSERT INTO hosts (lane, shared_requests) VALUES (:lane, :count)
            ON CONFLICT (lane) DO UPDATE
            SET shared_requests = hosts.shared_requests + excluded.shared_requests""",
            [{"lane": host, "count": count} for host, count in sorted(counted.items())],
        )


def _shared_requests(session: Session, names: Sequence[str]) -> Counter[str]:
    """How many polls on each of these hosts needed no request of their own (Y7)."""
    sql = "SELECT lane, shared_requests FROM hosts WHERE lane IN :names AND shared_requests > 0"
    return Counter(dict(session.fetch(sql, {"names": list(names)})))


def _holds(outcomes: Sequence[Outcome]) -> list[tuple[str, Hold]]:
    return [(o.hold_lane, o.hold) for o in outcomes if o.hold is not None and o.hold_lane]


def names(session: Session, *, owner: str | None, after: str, limit: int) -> list[str]:
    """The hosts of a user's sources and pending pages, in order and after a given one.

    `owner`: None for those of all users.
    """
    params = {"after": after, "limit": limit}
    pages = fetch_owned(session, _NAMES_OF_PAGES, owner, **params)
    if owner is None:
        sql = _NAMES.format(owned="")
    else:
        params["owner"] = owner
        counted = session.fetch(_COUNT_UP_TO, {"owner": owner, "most": _FEW_SOURCES})[0][0]
        is_few = counted < _FEW_SOURCES
        sql = _NAMES_OF_FEW if is_few else _NAMES.format(owned=f"AND {_IS_OWNED}")
    return sorted({row[0] for row in (*session.fetch(sql, params), *pages)})[:limit]


def fetch_owned(session: Session, sql: str, owner: str | None, **params: object) -> list[Row]:
    """Rows of a user's sources, or of all users if None; `{owned}` stands for the condition."""
    if owner is None:
        return session.fetch(sql.format(owned=""), params)
    return session.fetch(sql.format(owned=f"AND {_OWNED}"), params | {"owner": owner})


def _tallies(session: Session, hosts: Sequence[str], *, owner: str | None) -> list[HostTally]:
    """Numbers of a user's sources, or of all users, on these hosts, by type."""
    return _read_tally.all(fetch_owned(session, _TALLIES, owner, hosts=hosts))


def _answers(session: Session, host: str, *, owner: str | None, limit: int) -> list[PollRecord]:
    """The last polls of a user's sources, or of all users, on a host, newest first."""
    rows = fetch_owned(session, _POLLED_LAST, owner, host=host, limit=limit)
    # the newest polls of all belong to the sources that were polled last
    found = [record for row in rows for record in poll_history.newest(session, row[0], limit=limit)]
    return sorted(found, key=lambda record: record.id, reverse=True)[:limit]


def _watched(session: Session, host: str, *, owner: str | None, limit: int) -> list[Source]:
    """A user's sources, or of all users, on a host, failing ones first."""
    rows = fetch_owned(session, _SOURCES, owner, host=host, limit=limit)
    return read_source.all(rows)


def _counts_by_podcast(
    session: Session, host: str, *, owner: str | None, limit: int
) -> list[tuple[str, int]]:
    """The number of sources on a host by podcast id, largest first."""
    rows = fetch_owned(session, _BY_PODCAST, owner, host=host, limit=limit)
    return [(podcast_id, count) for podcast_id, count in rows]


def _causes(
    session: Session, hosts: Sequence[str], *, owner: str | None, limit: int
) -> dict[str, list[tuple[str, int]]]:
    """The kinds of the last failures on each of these hosts with their numbers, largest first.

    Counts `limit` failing sources per host.
    """
    found = {}
    for host in hosts:
        rows = fetch_owned(session, _FAILED_LAST, owner, host=host, limit=limit)
        found[host] = Counter(row[0] for row in rows if row[0] is not None).most_common()
    return found


class Hosts(Tables):
    """The hosts table, and the hosts of sources."""

    _next_page = reads(_page)
    get = reads(_get)
    of_lanes = reads(of_lanes)
    announced = reads(_announced)
    closed = reads(_closed)
    keep = writes_apart(keep_visits)  # those that no outcome stored (S8)
    keep_hold = writes_apart(_keep_hold)
    announce = writes_apart(_announce)
    end_unfinished_visits = writes(_end_unfinished_visits)

    names = reads(names)
    shared_requests = reads(_shared_requests)
    tallies = reads(_tallies)
    answers = reads(_answers)
    watched = reads(_watched)
    counts_by_podcast = reads(_counts_by_podcast)
    causes = reads(_causes)

    async def all(self) -> list[HostState]:
        """The stored state of every lane, read in pages: there may be millions."""
        found: list[HostState] = []
        after: str | None = ""
        while after is not None:
            states, after = await self._next_page(after)
            found += states
        return found
