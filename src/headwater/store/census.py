"""Census: how many sources there are, in which state, and how many of them are due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Health, SourceType
from headwater.rules.policy import Policy
from headwater.rules.politeness import X_HOST
from headwater.store.database import Database, Row, Session
from headwater.store.rows import from_ms, to_ms

_HELD = """coalesce({0}.hold_until > :now
    AND ({0}.hold_set_at IS NULL OR {0}.hold_until > {0}.hold_set_at), FALSE)"""
# When the cap of S3 makes a failing source due: its own cap, else the configured one.
_CAP_AT = """CASE WHEN s.max_backoff_hours IS NOT NULL THEN s.cap_due_at
    ELSE s.last_polled + CAST(60000 AS BIGINT) * CASE
        WHEN s.poll_interval_minutes > :cap THEN s.poll_interval_minutes ELSE :cap END END"""
# The cap may have been over before the backoff was.
_BACKOFF_AT = f"""CASE WHEN s.consecutive_failures <= 0 OR s.backoff_due_at <= {_CAP_AT}
    THEN s.backoff_due_at ELSE {_CAP_AT} END"""
_LATER = "s.requested_at IS NULL AND s.backoff_due_at > :now"
# What is due and since when, each source in one branch: the twin of `rules.schedule.due_at`; a
# property test ties the two. Every branch is an index range, so the cost follows the due ones (S5).
_DUE = (
    ("s.requested_at", "s.requested_at IS NOT NULL AND s.requested_at >= 0"),
    (_BACKOFF_AT, "s.enabled AND s.requested_at IS NULL AND s.backoff_due_at <= :now"),
    (
        _CAP_AT,
        f"s.enabled AND s.cap_due_at IS NOT NULL AND s.cap_due_at <= :now AND {_LATER}",
    ),
    (
        _CAP_AT,
        f"""s.enabled AND s.default_cap = TRUE AND s.last_polled <= :capped AND {_LATER}
        AND s.last_polled + s.poll_interval_minutes * CAST(60000 AS BIGINT) <= :now""",
    ),
)
_WAITING = " UNION ALL ".join(
    f"""SELECT {since} AS due_at, {_HELD.format("h")} AS held, p.user_id AS owner
    FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    LEFT JOIN hosts h ON h.lane = CASE
        WHEN s.type = '{SourceType.TWITTER}' THEN '{X_HOST}/' || p.user_id ELSE s.host END
    WHERE {due} AND NOT {_HELD.format("s")}"""
    for since, due in _DUE
)
_BACKLOG = f"""
    SELECT count(*), count(*) FILTER (WHERE due_at <= :late AND NOT held),
        min(due_at) FILTER (WHERE due_at <= :late AND NOT held)
    FROM ({_WAITING}) waiting
"""
_BACKLOGS = f"""
    SELECT owner, count(*), count(*) FILTER (WHERE due_at <= :late AND NOT held),
        min(due_at) FILTER (WHERE due_at <= :late AND NOT held)
    FROM ({_WAITING}) waiting GROUP BY owner
"""
# The SQL twin of `rules.health.health_of`; a property test ties the two.
_HEALTH = f"""CASE WHEN NOT enabled THEN '{Health.DISABLED}'
        WHEN consecutive_failures > 0 THEN '{Health.FAILING}'
        WHEN last_success_at IS NULL THEN '{Health.NEW}' ELSE '{Health.OK}' END"""
_BY_HEALTH = f"SELECT {_HEALTH}, count(*) FROM sources GROUP BY 1"
# By podcast in one pass over the table: along an index, every row would be looked up by itself.
_BY_PODCAST = f"""
    SELECT counted.podcast_id, p.user_id, counted.health, counted.sources FROM (
        SELECT podcast_id, {_HEALTH} AS health, count(*) AS sources FROM sources GROUP BY 1, 2
    ) counted JOIN podcasts p ON p.id = counted.podcast_id
"""
_ANY = "SELECT 1 FROM sources s {owned} LIMIT 1"
_OWNED = "JOIN podcasts p ON p.id = s.podcast_id WHERE p.user_id = :owner"
_ON_HOSTS = """
    SELECT s.host, p.user_id, count(*) FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    WHERE {among} AND s.enabled GROUP BY s.host, p.user_id
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is due now, and what of it has waited for too long."""

    due: int
    overdue: int
    oldest_overdue_at: datetime | None


@dataclass(frozen=True, slots=True)
class PodcastTally:
    """A podcast's sources by health."""

    podcast_id: str
    owner: str
    by_health: Mapping[Health, int]


class Census:
    """Counts over the sources table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def backlog(self, now: datetime, policy: Policy, patience: timedelta) -> Backlog:
        """Count due sources; overdue: for longer than `patience`, without a hold to wait for."""
        params = _moments(now, policy, patience)
        return await self._database.read(lambda s: _backlog(s, params))

    async def backlogs(
        self, now: datetime, policy: Policy, patience: timedelta
    ) -> Mapping[str, Backlog]:
        """The same by owner, for little more; owners without due sources are left out."""
        params = _moments(now, policy, patience)
        rows = await self._database.read(lambda s: s.fetch(_BACKLOGS, params))
        return {owner: Backlog(due, late, from_ms(at)) for owner, due, late, at in rows}

    async def by_health(self) -> Mapping[Health, int]:
        """Count all sources by health; this reads the whole table."""
        rows = await self._database.read(lambda s: s.fetch(_BY_HEALTH))
        counted: dict[str, int] = dict(rows)
        return {health: counted.get(health.value, 0) for health in Health}

    async def by_podcast(self) -> Sequence[PodcastTally]:
        """The same podcast by podcast; those without sources are left out."""
        found: dict[tuple[str, str], dict[Health, int]] = {}
        for row in await self._database.read(lambda s: s.fetch(_BY_PODCAST)):
            podcast_id, owner, health, count = row
            found.setdefault((podcast_id, owner), dict.fromkeys(Health, 0))[Health(health)] = count
        return [PodcastTally(*whose, by_health) for whose, by_health in found.items()]

    async def any_sources(self, owner: str | None) -> bool:
        """Whether an owner, or anybody, watches anything."""
        sql = _ANY.format(owned="" if owner is None else _OWNED)
        params = {} if owner is None else {"owner": owner}
        return bool(await self._database.read(lambda s: s.fetch(sql, params)))

    async def on_hosts(self, hosts: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """How many enabled sources each owner has on each of these hosts."""
        found: dict[str, dict[str, int]] = {}
        for host, owner, count in await self._database.read(lambda s: _on_hosts(s, hosts)):
            found.setdefault(host, {})[owner] = count
        return found


def _moments(now: datetime, policy: Policy, patience: timedelta) -> dict[str, int | None]:
    return {
        "now": to_ms(now),
        "late": to_ms(now - patience),
        "capped": to_ms(now - timedelta(hours=policy.max_backoff_hours)),
        "cap": 60 * policy.max_backoff_hours,
    }


def _on_hosts(session: Session, hosts: Sequence[str]) -> list[Row]:
    sql = _ON_HOSTS.format(among=session.among("s.host", "hosts"))
    return session.fetch(sql, {"hosts": session.array(hosts)})


def _backlog(session: Session, params: Mapping[str, int | None]) -> Backlog:
    due, overdue, oldest = session.fetch(_BACKLOG, params)[0]
    return Backlog(due, overdue, from_ms(oldest))
