"""Poll history: one row per poll, kept for a bounded time."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from headwater.model import FailureType, Outcome, OutcomeKind, PollRecord, SkipReason
from headwater.store.database import Database, Row, Session
from headwater.store.rows import moment, to_ms

_COLUMNS = """id, source_id, started_at, duration_ms, outcome, status, bytes, new_posts, skipped,
    failure_type, failure_kind, error, redirected_to"""


class Polls:
    """The polls table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, source_id: str, *, limit: int) -> Sequence[PollRecord]:
        """The last polls of a source, newest first."""
        return await self.since(source_id, 0, limit=limit)

    async def since(self, source_id: str, poll_id: int, *, limit: int = 1) -> Sequence[PollRecord]:
        """The polls of a source behind a given one, newest first."""
        sql = f"""SELECT {_COLUMNS} FROM polls WHERE source_id = :source AND id > :id
            ORDER BY id DESC LIMIT :limit"""
        params = {"source": source_id, "id": poll_id, "limit": limit}
        rows = await self._database.read(lambda s: s.fetch(sql, params))
        return [_record_from(row) for row in rows]

    async def of_sources(self, source_ids: Sequence[str], *, since: int) -> Sequence[PollRecord]:
        """The polls of these sources behind a given one, oldest first."""
        return await self._database.read(lambda s: _of_sources(s, source_ids, since))

    async def last_id(self) -> int:
        """The newest poll of all, so that later ones can be told."""
        rows = await self._database.read(lambda s: s.fetch("SELECT max(id) FROM polls"))
        return int(rows[0][0] or 0)


def _of_sources(session: Session, source_ids: Sequence[str], since: int) -> list[PollRecord]:
    rows = session.fetch(
        f"""SELECT {_COLUMNS} FROM polls
        WHERE {session.among("source_id", "ids")} AND id > :since ORDER BY id""",
        {"ids": session.array(source_ids), "since": since},
    )
    return [_record_from(row) for row in rows]


def insert(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Add finished polls to the history."""
    session.insert_rows("polls", [_row(outcome) for outcome in outcomes])


def forget_old(session: Session, now: datetime, days: int, limit: int) -> int:
    """Delete a bite of the history that is past its time."""
    # ids grow with time, so the oldest rows are the first ones: no index on the moment is needed
    return session.execute(
        """DELETE FROM polls WHERE id IN (
            SELECT id FROM (SELECT id, started_at FROM polls ORDER BY id LIMIT :limit) AS oldest
            WHERE started_at < :before OR started_at > :ahead)""",
        {
            "limit": limit,
            "before": to_ms(now - timedelta(days=days)),
            "ahead": to_ms(now + timedelta(days=1)),  # of a clock that ran ahead (O4)
        },
    )


def _row(outcome: Outcome) -> dict[str, object]:
    failure = outcome.failure
    return {
        "source_id": outcome.source.id,
        "started_at": to_ms(outcome.started_at),
        "duration_ms": outcome.duration_ms,
        "outcome": outcome.kind.value,
        "status": outcome.status,
        "bytes": outcome.size,
        "new_posts": len(outcome.posts),
        "skipped": json.dumps(outcome.skipped) if outcome.skipped else None,
        "failure_type": failure and failure.type.value,
        "failure_kind": failure and failure.kind,
        "error": failure and failure.message,
        "redirected_to": outcome.redirected_to,
    }


def _record_from(row: Row) -> PollRecord:
    (
        id_, source_id, started_at, duration_ms, outcome, status, size, new_posts, skipped,
        failure_type, failure_kind, error, redirected_to,
    ) = row  # fmt: skip
    counts = {SkipReason(name): n for name, n in json.loads(skipped or "{}").items()}
    return PollRecord(
        id_, source_id, moment(started_at), duration_ms, OutcomeKind(outcome), status, size,
        new_posts, counts, None if failure_type is None else FailureType(failure_type),
        failure_kind, error, redirected_to,
    )  # fmt: skip
