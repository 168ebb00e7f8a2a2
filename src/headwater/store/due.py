"""due: which sources are due, lane by lane, all of them or as many as workers can poll soon."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headwater.errors import NotFound
from headwater.logs import get_logger
from headwater.model import DueSource, SourceType
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds, hold_seconds, lane_name
from headwater.rules.schedule import backoff_cap_minutes, effective_minutes
from headwater.rules.shards import SHARDS
from headwater.rules.urls import url_host
from headwater.store.database import Row, Session
from headwater.store.rows import SOURCE_TYPES, columns, hold_from, moment, to_ms

log = get_logger()
# What is due by time (S5): three index ranges, so the cost follows the due ones. The second and
# third stand for the cap of S3: a source's own, and the configured one.
_BY_TIME = (
    "enabled AND backoff_due_at <= :now",
    "enabled AND cap_due_at IS NOT NULL AND cap_due_at <= :now",
    """enabled AND default_cap = TRUE AND last_polled <= :capped
        AND last_polled + poll_interval_minutes * CAST(60000 AS BIGINT) <= :now""",
)
_BY_REQUEST = "requested_at IS NOT NULL AND requested_at >= :since"
_REQUESTED_IDS = f"SELECT id FROM sources WHERE {_BY_REQUEST}"
_DUE_IDS = " UNION ".join(f"SELECT id FROM sources WHERE {one}" for one in (*_BY_TIME, _BY_REQUEST))
# the same for workers that share a database: each range is that of one shard
_OF_SHARDS = "SELECT id FROM sources WHERE shard = ANY(:shards) AND {}"
_HAS_DUE = f"""
    SELECT shard FROM generate_series(0, {SHARDS - 1}) AS shard,
        LATERAL (SELECT FROM sources s WHERE s.shard = shard.shard AND {{}} LIMIT 1) AS one
"""
_DUE_COLUMNS = (
    "hold_until", "hold_set_at", "id", "type", "url", "host", "poll_delay_seconds", "requested_at",
    "last_polled", "poll_interval_minutes", "consecutive_failures", "max_backoff_hours",
)  # fmt: skip
_DUE = f"""
    SELECT {columns(_DUE_COLUMNS, "s")}, p.user_id
    FROM sources s JOIN podcasts p ON p.id = s.podcast_id
"""
_ALL_DUE = f"{_DUE} WHERE s.id IN ({_DUE_IDS})"
_REQUESTED = f"{_DUE} WHERE s.id IN ({_REQUESTED_IDS})"
# Of a backlog, as much as a shard can poll until it is looked at again: the first of every lane
# before the second of any, those that wait for nothing first.
_PER_LANE, _PER_SHARD = 100, 500
_SOON = timedelta(seconds=20)
_FIRST_DUE = f"""
    SELECT {columns(_DUE_COLUMNS)}, user_id FROM (
        SELECT ranked.*, row_number() OVER (PARTITION BY shard
            ORDER BY is_closed, requested_at IS NULL, place, last_polled NULLS FIRST) AS turn
        FROM (
            SELECT due.*, coalesce(due.hold_until > :now OR h.hold_until > :now
                    OR h.next_allowed_at > :soon, FALSE) AS is_closed,
                row_number() OVER (PARTITION BY due.lane ORDER BY
                    coalesce(due.hold_until > :now, FALSE), requested_at, last_polled NULLS FIRST
                ) AS place
            FROM (
                SELECT {columns(_DUE_COLUMNS, "s")}, s.shard, p.user_id,
                    CASE WHEN s.type = 'twitter' THEN 'x.com/' || p.user_id ELSE s.host END AS lane
                FROM sources s JOIN podcasts p ON p.id = s.podcast_id WHERE s.id IN ({{}})
            ) AS due LEFT JOIN hosts h ON h.lane = due.lane
        ) AS ranked WHERE place <= :per_lane
    ) AS turns WHERE turn <= :per_shard
"""


def everywhere(session: Session, now: datetime, policy: Policy) -> list[DueSource]:
    """All sources that are due and not on a hold of their own, in no order (S2, S5)."""
    return _due(session, _ALL_DUE, _moments(now, policy), now, policy)


def in_shards(
    session: Session,
    shards: Sequence[int],
    now: datetime,
    policy: Policy,
    *,
    requested_only: bool,
) -> list[DueSource]:
    """The same of some shards, of a long backlog those that come first."""
    params = {
        **_moments(now, policy),
        "shards": list(shards),
        "soon": to_ms(now + _SOON),
        "per_lane": _PER_LANE,
        "per_shard": _PER_SHARD,
    }
    sql = _FIRST_DUE.format(_each(_OF_SHARDS, requested_only=requested_only))
    return _due(session, sql, params, now, policy)


def shards_with_any(
    session: Session, now: datetime, policy: Policy, *, requested_only: bool
) -> list[int]:
    """The shards that have anything due."""
    sql = _each(_HAS_DUE, requested_only=requested_only)
    return [row[0] for row in session.fetch(sql, _moments(now, policy))]


def requested(session: Session, now: datetime, policy: Policy, since: datetime) -> list[DueSource]:
    """The sources that somebody asked to poll since a moment (S9)."""
    return _due(session, _REQUESTED, {"since": to_ms(since)}, now, policy)


def one(session: Session, source_id: str, policy: Policy) -> DueSource:
    """One source as its lane wants it, due or not."""
    rows = session.fetch(f"{_DUE} WHERE s.id = :id", {"id": source_id})
    if not rows:
        raise NotFound(f"there is no source {source_id}")
    return _due_source(rows[0][2:], policy)


def _moments(now: datetime, policy: Policy) -> dict[str, object]:
    capped = to_ms(now - timedelta(hours=policy.max_backoff_hours))
    return {"now": to_ms(now), "capped": capped, "since": 0}


def _each(sql: str, *, requested_only: bool) -> str:
    """A query over all ways to be due, or the one that needs nothing but a request."""
    ways = (_BY_REQUEST,) if requested_only else (*_BY_TIME, _BY_REQUEST)
    return " UNION ".join(sql.format(way) for way in ways)


def _due(
    session: Session, sql: str, params: Mapping[str, object], now: datetime, policy: Policy
) -> list[DueSource]:
    """The SQL twin of `rules.schedule.is_due`, lane by lane; a property test ties the two."""
    found = []
    for row in session.fetch(sql, params):
        if row[0] is not None and hold_seconds(hold_from(row[0], row[1], None), now) > 0:
            continue
        try:
            found.append(_due_source(row[2:], policy))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            # a row that came in by another way must not keep the others from being polled (H4)
            log.warning("[Polling] a source cannot be read and is left out", source=row[2])
    found.sort(key=lambda due: due.lane or "")
    return found


def _due_source(row: Row, policy: Policy) -> DueSource:
    (
        id_, type_name, url, host, own_delay, requested_at, last_polled,
        interval, failures, own_cap, user_id,
    ) = row  # fmt: skip
    type_ = SOURCE_TYPES[type_name]
    if host is None and type_ is not SourceType.TWITTER:
        host = url_host(url)  # a row that came in by another way
    minutes = effective_minutes(interval, failures, backoff_cap_minutes(own_cap, policy))
    since = requested_at if requested_at is not None else (last_polled or 0) + minutes * 60_000
    return DueSource(
        id=id_,
        lane=lane_name(type_, host, user_id),
        overdue_since=moment(since),
        delay_seconds=delay_seconds(own_delay, type_, host, policy),
        requested=requested_at is not None,
    )
