"""Hosts: when a lane may be visited again, and which hosts were good (P3, P9, O2, O3)."""

from collections.abc import Sequence

from headwater.model import Hold, HostState, Visit
from headwater.store.database import Database, Session
from headwater.store.rows import host_from, to_ms

_COLUMNS = """lane, next_allowed_at, next_allowed_set_at, hold_until, hold_set_at, hold_reason,
    last_success_at, resolved_at"""


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

    async def keep(self, visits: Sequence[Visit]) -> None:
        """Remember visits that no poll could record (S8)."""
        await self._database.write(lambda s: keep_visits(s, visits))


def keep_visits(session: Session, visits: Sequence[Visit]) -> None:
    """Remember when lanes may be visited again, and which were good."""
    if not visits:
        return
    session.execute_many(
        """INSERT INTO hosts (lane, next_allowed_at, next_allowed_set_at, last_success_at,
            resolved_at)
        VALUES (:lane, CAST(:next_at AS BIGINT), CAST(:set_at AS BIGINT),
            CAST(:good_at AS BIGINT), CAST(:resolved_at AS BIGINT))
        ON CONFLICT (lane) DO UPDATE SET
            next_allowed_at = coalesce(excluded.next_allowed_at, hosts.next_allowed_at),
            next_allowed_set_at = coalesce(excluded.next_allowed_set_at, hosts.next_allowed_set_at),
            last_success_at = coalesce(excluded.last_success_at, hosts.last_success_at),
            resolved_at = coalesce(excluded.resolved_at, hosts.resolved_at)""",
        [_row(visit) for visit in visits],
    )


def keep_holds(session: Session, holds: Sequence[tuple[str, Hold]]) -> None:
    """Remember which lanes want to be left alone, and until when (P9)."""
    if not holds:
        return
    session.execute_many(
        """INSERT INTO hosts (lane, hold_until, hold_set_at, hold_reason)
        VALUES (:lane, :until, :set_at, :reason)
        ON CONFLICT (lane) DO UPDATE SET hold_until = excluded.hold_until,
            hold_set_at = excluded.hold_set_at, hold_reason = excluded.hold_reason""",
        [
            {"lane": lane, "until": to_ms(h.until), "set_at": to_ms(h.set_at), "reason": h.reason}
            for lane, h in holds
        ],
    )


def _row(visit: Visit) -> dict[str, object]:
    ended = to_ms(visit.ended_at)
    return {
        "lane": visit.lane,
        "next_at": to_ms(visit.next_allowed_at),
        "set_at": ended if visit.next_allowed_at is not None else None,
        "good_at": ended if visit.succeeded else None,
        "resolved_at": ended if visit.resolved else None,
    }
