"""Due sources: all of them, or as many per shard as workers can poll soon (S2, S5, K8)."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from headwater.errors import NotFound
from headwater.model import EPOCH, DueSource, Hold, SourceType
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds, hold_seconds, lane_name
from headwater.rules.schedule import backoff_cap_minutes, effective_minutes
from headwater.rules.shards import shard_of
from headwater.rules.urls import url_host
from headwater.store.database import Session
from headwater.store.row_mapping import (
    UNREADABLE,
    Decoder,
    RowReader,
    columns,
    decoder,
    from_ms,
    to_ms,
)

# Sources due by time (S5): index ranges, so that the cost depends on the number of due
# sources only. The second and third are the cap of S3: a source's own, and the configured one.
_BY_TIME = (
    "enabled AND backoff_due_at <= :now",
    "enabled AND cap_due_at IS NOT NULL AND cap_due_at <= :now",
    """enabled AND default_cap = TRUE AND last_polled <= :capped
        AND last_polled + poll_interval_minutes * CAST(60000 AS BIGINT) <= :now""",
    # auto-disabled sources on probation (Y9)
    "NOT enabled AND probation_due_at IS NOT NULL AND probation_due_at <= :probation",
)
_BY_REQUEST = "requested_at IS NOT NULL AND requested_at >= :since"


def _union(sql: str, *, requested_only: bool) -> str:
    """A query for each condition that makes a source due, combined."""
    conditions = (_BY_REQUEST,) if requested_only else (*_BY_TIME, _BY_REQUEST)
    return " UNION ".join(sql.format(condition) for condition in conditions)


_IDS = "SELECT id FROM sources WHERE {}"
DUE_IDS = _union(_IDS, requested_only=False)
# the same for workers that share a database: index ranges of single shards
_IDS_IN_SHARDS = "SELECT id FROM sources WHERE shard IN :shards AND {}"
_TYPES = {one.value: one for one in SourceType}
_DUE_COLUMNS: dict[str, Decoder | None] = {  # the decoders only check what is stored
    "hold_until": int, "hold_set_at": int, "id": None, "type": lambda name: _TYPES[name].value,
    "url": decoder(str), "host": decoder(str), "poll_delay_seconds": int, "requested_at": int,
    "last_polled": int, "poll_interval_minutes": int, "consecutive_failures": int,
    "max_backoff_hours": int, "watch": None, "probation_due_at": int,
}  # fmt: skip
_URL = list(_DUE_COLUMNS).index("url")
_SELECT = f"""
    SELECT {columns(_DUE_COLUMNS, "s")}, p.user_id
    FROM sources s JOIN podcasts p ON p.id = s.podcast_id
"""
# Of a long backlog, as many sources as a shard can poll until the next query: the first of every
# lane before the second of any, and sources of lanes that may be visited now before the others.
PER_LANE, PER_SHARD = 100, 500
_SOON = timedelta(seconds=20)
_FIRST_DUE = f"""
    SELECT {columns(_DUE_COLUMNS)}, user_id FROM (
        SELECT by_lane.*, row_number() OVER (PARTITION BY shard
            ORDER BY is_blocked, requested_at IS NULL, lane_rank, last_polled NULLS FIRST
        ) AS shard_rank
        FROM (
            SELECT due.*, coalesce(due.hold_until > :now OR h.hold_until > :now
                    OR h.next_allowed_at > :soon, FALSE) AS is_blocked,
                row_number() OVER (PARTITION BY due.lane ORDER BY
                    coalesce(due.hold_until > :now, FALSE), requested_at, last_polled NULLS FIRST
                ) AS lane_rank
            FROM (
                SELECT {columns(_DUE_COLUMNS, "s")}, s.shard, p.user_id,
                    CASE WHEN s.type = 'twitter' THEN 'x.com/' || p.user_id ELSE s.host END AS lane
                FROM sources s JOIN podcasts p ON p.id = s.podcast_id WHERE s.id IN ({{}})
            ) AS due LEFT JOIN hosts h ON h.lane = due.lane
        ) AS by_lane WHERE lane_rank <= :per_lane
    ) AS by_shard WHERE shard_rank <= :per_shard
"""


def all_due(session: Session, now: datetime, policy: Policy) -> list[DueSource]:
    """All due sources that are not on hold themselves, ordered by lane (S2, S5)."""
    sql = f"{_SELECT} WHERE s.id IN ({DUE_IDS})"
    return _fetch_due(session, sql, due_params(now, policy), now, policy)


def in_shards(
    session: Session,
    shards: Sequence[int],
    now: datetime,
    policy: Policy,
    *,
    requested_since: datetime | None = None,
) -> list[DueSource]:
    """The due sources of some shards; of a long backlog the first ones only.

    `requested_since`: only sources whose poll was requested since then (S9).
    """
    params = {
        **due_params(now, policy),
        "since": to_ms(requested_since or EPOCH),
        "shards": shards,
        "soon": to_ms(now + _SOON),
        "per_lane": PER_LANE,
        "per_shard": PER_SHARD,
    }
    sql = _FIRST_DUE.format(_union(_IDS_IN_SHARDS, requested_only=requested_since is not None))
    return _fetch_due(session, sql, params, now, policy)


def is_partial(due: Sequence[DueSource], shards: int) -> bool:
    """Whether `in_shards` may have left out some of a lane or of a shard."""
    if len(due) < min(PER_LANE, PER_SHARD):
        return False
    by_lane = Counter(one.lane or "" for one in due)
    by_shard = Counter[int]()
    for lane, count in by_lane.items():
        by_shard[shard_of(lane, shards)] += count
    return max(by_lane.values()) >= PER_LANE or max(by_shard.values()) >= PER_SHARD


def requested(
    session: Session, now: datetime, policy: Policy, *, since: datetime = EPOCH
) -> list[DueSource]:
    """The sources with a pending poll request made since a time (S9)."""
    sql = f"{_SELECT} WHERE s.id IN ({_union(_IDS, requested_only=True)})"
    return _fetch_due(session, sql, {"since": to_ms(since)}, now, policy)


def one(session: Session, source_id: str, policy: Policy) -> DueSource:
    """One source as a lane needs it, due or not."""
    rows = session.fetch(f"{_SELECT} WHERE s.id = :id", {"id": source_id})
    if not rows:
        raise NotFound(f"there is no source {source_id}")
    return _reader(policy, {rows[0][_URL]}).one(rows[0])[0]


def due_params(now: datetime, policy: Policy) -> dict[str, object]:
    """The parameters of `DUE_IDS`."""
    capped = to_ms(now - timedelta(hours=policy.max_backoff_hours))
    probation = to_ms(now if policy.probation else EPOCH)
    return {"now": to_ms(now), "capped": capped, "probation": probation, "since": 0}


def _fetch_due(
    session: Session, sql: str, params: Mapping[str, object], now: datetime, policy: Policy
) -> list[DueSource]:
    """`rules.schedule.is_due` as a query, ordered by lane; a property test compares the two."""
    rows = session.fetch(sql, params)
    urls = Counter(row[_URL] for row in rows)
    repeated = {url for url, count in urls.items() if count > 1} if len(urls) < len(rows) else ()
    try:  # checking each column would double the time
        return _by_lane([_due_from(policy, repeated, *row) for row in rows], now)
    except UNREADABLE:
        return _by_lane(_reader(policy, repeated).all(rows), now)


def _by_lane(read: list[tuple[DueSource, Hold | None]], now: datetime) -> list[DueSource]:
    found = [due for due, hold in read if hold is None or hold_seconds(hold, now) <= 0]
    return sorted(found, key=lambda due: due.lane or "")


def _reader(policy: Policy, repeated: Container[str]) -> RowReader[tuple[DueSource, Hold | None]]:
    make = partial(_due_from, policy, repeated)
    return RowReader("sources", _DUE_COLUMNS | {"user_id": None}, make)


def _due_from(policy: Policy, repeated: Container[str], *row: Any) -> tuple[DueSource, Hold | None]:
    """A due source; `repeated`: the URLs of sources that may share requests (Y7)."""
    (
        hold_until, hold_set_at, id_, type_name, url, host, own_delay, requested_at, last_polled,
        interval, failures, own_cap, watch, probation_at, user_id,
    ) = row  # fmt: skip
    type_ = _TYPES[type_name]
    hold = None
    if hold_until is not None and hold_set_at is not None:
        hold = Hold(from_ms(hold_until), from_ms(hold_set_at), "")
    if host is None and type_ is not SourceType.TWITTER:
        host = url_host(url)  # a row that another program inserted
    minutes = effective_minutes(interval, failures, backoff_cap_minutes(own_cap, policy))
    since = requested_at if requested_at is not None else probation_at
    if since is None:
        since = (last_polled or 0) + minutes * 60_000
    due = DueSource(
        id=id_,
        lane=lane_name(type_, host, user_id),
        overdue_since=from_ms(since),
        delay_seconds=delay_seconds(own_delay, type_, host, policy),
        requested=requested_at is not None,
        # X timelines are read with the keys of their owners
        request_key=hash((type_name, url, watch))
        if url in repeated and type_ is not SourceType.TWITTER
        else None,
    )
    return due, hold
