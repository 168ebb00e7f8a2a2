"""Poll history: one row per poll, kept for a bounded time."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headwater.model import FailureType, Outcome, OutcomeKind, PollRecord, SkipReason
from headwater.store import poll_tallies
from headwater.store.database import Database, Row, Session
from headwater.store.parts import Stretch
from headwater.store.poll_tallies import FailedPoll, PollTally
from headwater.store.rows import columns, moment, to_ms

_NAMES = (
    "id source_id started_at duration_ms outcome status bytes new_posts skipped failure_type "
    "failure_kind error redirected_to"
).split()
_COLUMNS = columns(_NAMES)


class Polls:
    """The polls table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(
        self, source_id: str, *, limit: int, before: int | None = None
    ) -> Sequence[PollRecord]:
        """The last polls of a source, newest first; `before` continues behind the last one."""
        wanted = Stretch("source_id", source_id, limit, before, beyond=2**63 - 1)
        sql = f"SELECT {_COLUMNS} FROM polls "
        rows = await self._database.read(lambda s: s.fetch(sql + wanted.sql(s.kind), wanted.params))
        return [_record_from(row) for row in rows]

    async def newest_of_each(
        self, source_ids: Sequence[str], *, limit: int
    ) -> Mapping[str, Sequence[PollRecord]]:
        """The last polls of each of these sources, newest first, all in one query."""
        return await self._database.read(lambda s: _newest_of_each(s, source_ids, limit))

    async def of_sources(self, source_ids: Sequence[str], *, since: int) -> Sequence[PollRecord]:
        """The polls of these sources behind a given one, oldest first."""
        return await self._database.read(lambda s: _of_sources(s, source_ids, since))

    async def last_started(self, source_ids: Sequence[str]) -> Mapping[str, datetime]:
        """When the newest poll of each of these sources began; one never polled is left out."""
        return await self._database.read(lambda s: _last_started(s, source_ids))

    async def last_id(self) -> int:
        """The newest poll of all, so that later ones can be told."""
        rows = await self._database.read(lambda s: s.fetch("SELECT max(id) FROM polls"))
        return int(rows[0][0] or 0)

    async def by_minute(self, after: int, upto: int) -> Sequence[PollTally]:
        """The polls between two ids, counted by minute, owner and outcome."""
        return await self._database.read(lambda s: poll_tallies.by_minute(s, after, upto))

    async def failed(self, after: int, upto: int) -> Sequence[FailedPoll]:
        """The newest failed polls between two ids of sources that still fail, newest first."""
        return await self._database.read(lambda s: poll_tallies.failed(s, after, upto))


def _of_sources(session: Session, source_ids: Sequence[str], since: int) -> list[PollRecord]:
    rows = session.fetch(
        f"""SELECT {_COLUMNS} FROM polls
        WHERE {session.among("source_id", "ids")} AND id > :since ORDER BY id""",
        {"ids": session.array(source_ids), "since": since},
    )
    return [_record_from(row) for row in rows]


def _newest_of_each(
    session: Session, source_ids: Sequence[str], limit: int
) -> dict[str, list[PollRecord]]:
    # the end of an index range per source, from the oldest that is wanted
    rows = session.fetch(
        f"""SELECT {columns(_NAMES, "p")} FROM sources s
        JOIN polls p ON p.source_id = s.id AND p.id >= coalesce((SELECT id FROM polls
            WHERE {newest_first("s.id")} LIMIT 1 OFFSET :others), 0)
        WHERE {session.among("s.id", "ids")} ORDER BY p.id DESC""",
        {"ids": session.array(source_ids), "others": limit - 1},
    )
    found: dict[str, list[PollRecord]] = {id_: [] for id_ in source_ids}
    for row in rows:
        found[row[1]].append(_record_from(row))
    return found


def _last_started(session: Session, source_ids: Sequence[str]) -> dict[str, datetime]:
    # the end of an index range per source: the length of a history costs nothing
    rows = session.fetch(
        f"""SELECT s.id, (SELECT started_at FROM polls WHERE {newest_first("s.id")} LIMIT 1)
        FROM sources s WHERE {session.among("s.id", "ids")}""",
        {"ids": session.array(source_ids)},
    )
    return {id_: moment(started_at) for id_, started_at in rows if started_at is not None}


def newest_of(session: Session, source_id: str, limit: int) -> list[PollRecord]:
    """The last polls of a source, newest first, for whoever has a session already."""
    sql = f"SELECT {_COLUMNS} FROM polls WHERE {newest_first(':source')} LIMIT :limit"
    rows = session.fetch(sql, {"source": source_id, "limit": limit})
    return [_record_from(row) for row in rows]


def newest_first(source: str) -> str:
    """The polls of a source, read from the end of its range of the index.

    The source is in the order, which an equation would take out again: PostgreSQL may walk through
    everybody's polls then, hoping to meet this source's soon.
    """
    return f"source_id BETWEEN {source} AND {source} ORDER BY source_id DESC, polls.id DESC"


def insert(session: Session, outcomes: Sequence[Outcome]) -> None:
    """Add finished polls to the history."""
    alike: dict[tuple[str, ...], list[dict[str, object]]] = {}
    for outcome in outcomes:
        row = _row(outcome)
        alike.setdefault(tuple(row), []).append(row)
    for rows in alike.values():
        session.insert_rows("polls", rows)


def old(session: Session, now: datetime, days: int, limit: int) -> list[int]:
    """The first of those polls that are past their time."""
    # ids grow with time, so the oldest rows are the first ones: no index on the moment is needed
    rows = session.fetch(
        """SELECT id FROM (SELECT id, started_at FROM polls ORDER BY id LIMIT :limit) AS oldest
        WHERE started_at < :before OR started_at > :ahead""",
        {
            "limit": limit,
            "before": to_ms(now - timedelta(days=days)),
            "ahead": to_ms(now + timedelta(days=1)),  # of a clock that ran ahead (O4)
        },
    )
    return [row[0] for row in rows]


def forget(session: Session, ids: Sequence[int]) -> int:
    """Delete polls from the history."""
    sql = f"DELETE FROM polls WHERE {session.among('id', 'ids')}"
    return session.execute(sql, {"ids": session.array(ids)})


def _row(outcome: Outcome) -> dict[str, object]:
    """The columns that have something to say: most polls have little, and NULLs cost time too."""
    row: dict[str, object] = {
        "source_id": outcome.source.id,
        "started_at": to_ms(outcome.started_at),
        "duration_ms": outcome.duration_ms,
        "outcome": outcome.kind.value,
        "status": outcome.status,
        "bytes": outcome.size,
        "new_posts": len(outcome.posts),
    }
    failure = outcome.failure
    if failure is not None:
        row["failure_type"] = failure.type.value
        row["failure_kind"] = failure.kind
        row["error"] = failure.message
    if outcome.skipped:
        row["skipped"] = json.dumps(outcome.skipped)
    if outcome.redirected_to is not None:
        row["redirected_to"] = outcome.redirected_to
    return row


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
