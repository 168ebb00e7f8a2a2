"""Hosts: when a lane may be visited again, and which hosts were good (P3, P9, O2, O3)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headwater.model import Hold, HostState, PollRecord, Source, Visit
from headwater.store import host_lists
from headwater.store.database import Database, Session
from headwater.store.host_lists import HostTally
from headwater.store.rows import host_from, to_ms

_COLUMNS = """lane, next_allowed_at, next_allowed_set_at, hold_until, hold_set_at, hold_reason,
    last_success_at, resolved_at"""

# The news of other processes are few rows of a small table: looking for them costs nothing, which
# a look through all hosts every second would not.
_NEWS = "visited:"
_ANNOUNCED = f"""SELECT {_COLUMNS} FROM hosts WHERE lane IN (
    SELECT substr(name, {len(_NEWS) + 1}) FROM facts
    WHERE name LIKE '{_NEWS}%' AND value > :since)"""
_NEWS_LAST = timedelta(minutes=10)


class Hosts:
    """The hosts table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> Sequence[HostState]:
        """What is remembered of every lane."""
        rows = await self._database.read(lambda s: s.fetch(f"SELECT {_COLUMNS} FROM hosts"))
        return [host_from(row) for row in rows]

    async def get(self, lane: str) -> HostState:
        """What is remembered of one lane."""
        sql = f"SELECT {_COLUMNS} FROM hosts WHERE lane = :lane"
        rows = await self._database.read(lambda s: s.fetch(sql, {"lane": lane}))
        return host_from(rows[0]) if rows else HostState(lane)

    async def of_lanes(self, lanes: Sequence[str]) -> Mapping[str, HostState]:
        """What is remembered of these lanes; one that nothing is known of is left out."""
        return await self._database.read(lambda s: of_lanes(s, lanes))

    async def keep(self, visits: Sequence[Visit]) -> None:
        """Remember visits that no poll could record (S8)."""
        await self._database.write(lambda s: keep_visits(s, visits))

    async def keep_hold(self, lane: str, hold: Hold) -> None:
        """Remember that a lane wants to be left alone, as a preview was told (P9)."""
        await self._database.write(lambda s: keep_holds(s, [(lane, hold)]))

    async def announce(self, lane: str, now: datetime) -> None:
        """Tell the service, which may run in another process, that a lane's state is news (P3)."""
        await self._database.write(lambda s: _announce(s, lane, now))

    async def visited_aside(self, since: datetime) -> Sequence[HostState]:
        """The lanes that other processes announced since a moment."""
        params = {"since": str(to_ms(since))}
        rows = await self._database.read(lambda s: s.fetch(_ANNOUNCED, params))
        return [host_from(row) for row in rows]

    async def close_half_visits(self, now: datetime) -> bool:
        """Let visits that only began count as ended now; whether there were any (P3)."""
        return await self._database.write(lambda s: close_half_visits(s, now))

    async def closed(self, now: datetime) -> Sequence[HostState]:
        """The lanes that are on hold, or wait for a delay to be over."""
        sql = f"SELECT {_COLUMNS} FROM hosts WHERE hold_until > :now OR next_allowed_at > :now"
        rows = await self._database.read(lambda s: s.fetch(sql, {"now": to_ms(now)}))
        return [host_from(row) for row in rows]

    async def names(self, *, owner: str | None, after: str, limit: int) -> Sequence[str]:
        """Hosts in order, behind a given one: of a user's sources, or of everybody's."""
        return await self._database.read(lambda s: host_lists.names(s, owner, after, limit))

    async def tallies(self, hosts: Sequence[str], *, owner: str | None) -> Sequence[HostTally]:
        """What a user, or everybody, watches on these hosts, type by type."""
        return await self._database.read(lambda s: host_lists.tallies(s, owner, hosts))

    async def answers(self, host: str, *, owner: str | None, limit: int) -> Sequence[PollRecord]:
        """The last polls of a user's, or everybody's, sources of a host, newest first."""
        return await self._database.read(lambda s: host_lists.answers(s, owner, host, limit))

    async def watched(self, host: str, *, owner: str | None, limit: int) -> Sequence[Source]:
        """Sources of a user's, or of everybody's, on a host, those that fail first."""
        return await self._database.read(lambda s: host_lists.watched(s, owner, host, limit))

    async def counts_by_podcast(
        self, host: str, *, owner: str | None, limit: int
    ) -> Sequence[tuple[str, int]]:
        """How many sources on a host each podcast has, by its id, those with the most first."""
        return await self._database.read(
            lambda s: host_lists.counts_by_podcast(s, owner, host, limit)
        )

    async def causes(
        self, hosts: Sequence[str], *, owner: str | None, limit: int
    ) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Of what kinds the last failures on these hosts were, the most frequent first."""
        return await self._database.read(lambda s: host_lists.causes(s, owner, hosts, limit))


def of_lanes(session: Session, lanes: Sequence[str]) -> dict[str, HostState]:
    """What is remembered of these lanes."""
    sql = f"SELECT {_COLUMNS} FROM hosts WHERE {session.among('lane', 'lanes')}"
    rows = session.fetch(sql, {"lanes": session.array(set(lanes))})
    return {row[0]: host_from(row) for row in rows}


def _announce(session: Session, lane: str, now: datetime) -> None:
    session.execute(
        f"DELETE FROM facts WHERE name LIKE '{_NEWS}%' AND value < :before",
        {"before": str(to_ms(now - _NEWS_LAST))},
    )
    session.execute(
        """INSERT INTO facts (name, value) VALUES (:name, :now)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
        {"name": _NEWS + lane, "now": str(to_ms(now))},
    )


def keep_visits(session: Session, visits: Sequence[Visit]) -> None:
    """Remember when lanes may be visited again, and which were good."""
    _keep(session, [visit for visit in visits if visit.is_last], is_news="TRUE")
    # where others may have been since: a visit under way, or a later one, stays as it is
    now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
    _keep(
        session,
        [visit for visit in visits if not visit.is_last],
        is_news=f"""hosts.next_allowed_at IS NULL
            OR hosts.next_allowed_set_at < excluded.next_allowed_set_at
            OR hosts.next_allowed_set_at > {now_ms}""",
    )


def _keep(session: Session, visits: Sequence[Visit], *, is_news: str) -> None:
    merged: dict[str, dict[str, object]] = {}
    for visit in visits:
        row = _row(visit)
        known = merged.setdefault(visit.lane, row)
        known.update((name, value) for name, value in row.items() if value is not None)
    changes = ", ".join(
        f"""{name} = CASE WHEN excluded.{name} IS NOT NULL AND ({is_news}) THEN excluded.{name}
            ELSE hosts.{name} END"""
        for name in ("next_allowed_at", "next_allowed_set_at")
    )
    session.insert_rows(
        "hosts",
        [merged[lane] for lane in sorted(merged)],  # in one order: nobody waits in a circle
        f"""ON CONFLICT (lane) DO UPDATE SET {changes},
            last_success_at = coalesce(excluded.last_success_at, hosts.last_success_at),
            resolved_at = coalesce(excluded.resolved_at, hosts.resolved_at)""",
    )


def close_half_visits(session: Session, now: datetime) -> bool:
    """Let visits that only began count as ended now; whether there were any (P3)."""
    return bool(
        session.execute(
            """UPDATE hosts SET next_allowed_set_at = :now WHERE next_allowed_at IS NOT NULL
            AND next_allowed_set_at IS NULL""",
            {"now": to_ms(now)},
        )
    )


def keep_holds(
    session: Session, holds: Sequence[tuple[str, Hold]], *, only_longer: bool = False
) -> None:
    """Remember which lanes want to be left alone, and until when (P9)."""
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


def _row(visit: Visit) -> dict[str, object]:
    ended = to_ms(visit.ended_at)
    return {
        "lane": visit.lane,
        "next_allowed_at": to_ms(visit.next_allowed_at),
        "next_allowed_set_at": ended if visit.next_allowed_at is not None else None,
        "last_success_at": ended if visit.succeeded else None,
        "resolved_at": ended if visit.resolved else None,
    }
