"""SourceCounts: numbers of sources by state, host and podcast, and of due sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Health, SourceType
from headwater.rules.policy import Policy
from headwater.rules.politeness import X_HOST
from headwater.store.database import Tables
from headwater.store.due_sources import DUE_IDS, due_params
from headwater.store.row_mapping import row_reader, to_ms

_HELD = """coalesce({0}.hold_until > :now
    AND ({0}.hold_set_at IS NULL OR {0}.hold_until > {0}.hold_set_at), FALSE)"""
# When a failing source is due by the cap of S3: its own cap, else the configured one.
_CAP_AT = """CASE WHEN s.max_backoff_hours IS NOT NULL THEN s.cap_due_at
    ELSE s.last_polled + CAST(60000 AS BIGINT) * CASE
        WHEN s.poll_interval_minutes > :cap THEN s.poll_interval_minutes ELSE :cap END END"""
# `rules.schedule.due_at` in SQL; a property test compares the two. The cap may end before the
# backoff does.
_DUE_AT = f"""CASE WHEN s.requested_at IS NOT NULL THEN s.requested_at
    WHEN s.consecutive_failures <= 0 OR s.backoff_due_at <= {_CAP_AT} THEN s.backoff_due_at
    ELSE {_CAP_AT} END"""
_ALL_DUE = f"""
    SELECT {_DUE_AT} AS due_at, {_HELD.format("h")} AS held, p.user_id AS owner
    FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    LEFT JOIN hosts h ON h.lane = CASE
        WHEN s.type = '{SourceType.TWITTER}' THEN '{X_HOST}/' || p.user_id ELSE s.host END
    WHERE s.id IN ({DUE_IDS}) AND NOT {_HELD.format("s")}
"""
_DUE_COUNTS = """count(*), count(*) FILTER (WHERE due_at <= :late AND NOT held),
    min(due_at) FILTER (WHERE due_at <= :late AND NOT held)"""
# `rules.health.health_of` in SQL; a property test compares the two.
_HEALTH = f"""CASE WHEN NOT enabled THEN '{Health.DISABLED}'
        WHEN consecutive_failures > 0 THEN '{Health.FAILING}'
        WHEN last_success_at IS NULL THEN '{Health.NEW}' ELSE '{Health.OK}' END"""
_BY_HEALTH = f"SELECT {_HEALTH}, count(*) FROM sources GROUP BY 1"
# One scan of the table: through an index, each row would be a separate lookup.
_BY_PODCAST = f"""
    SELECT counted.podcast_id, p.user_id, counted.health, counted.sources FROM (
        SELECT podcast_id, {_HEALTH} AS health, count(*) AS sources FROM sources GROUP BY 1, 2
    ) counted JOIN podcasts p ON p.id = counted.podcast_id
"""
_ANY = "SELECT 1 FROM sources s {owned} LIMIT 1"
_OWNED = "JOIN podcasts p ON p.id = s.podcast_id WHERE p.user_id = :owner"
_ON_HOSTS = """
    SELECT s.host, p.user_id, count(*) FROM sources s JOIN podcasts p ON p.id = s.podcast_id
    WHERE s.host IN :hosts AND s.enabled GROUP BY s.host, p.user_id
"""


@dataclass(frozen=True, slots=True)
class DueCounts:
    """How many sources are due, and how many of these are overdue."""

    due: int
    overdue: int
    oldest_overdue_at: datetime | None


@dataclass(frozen=True, slots=True)
class PodcastTally:
    """A podcast's sources by health."""

    podcast_id: str
    owner: str
    by_health: Mapping[Health, int]


_read_due = row_reader(DueCounts, "sources").one


class SourceCounts(Tables):
    """Counts over the sources table."""

    async def due(self, now: datetime, policy: Policy, tolerance: timedelta) -> DueCounts:
        """Count due sources; overdue: for longer than `tolerance`, and without a hold."""
        sql = f"SELECT {_DUE_COUNTS} FROM ({_ALL_DUE}) due"
        return _read_due((await self.database.fetch(sql, _times(now, policy, tolerance)))[0])

    async def due_by_owner(
        self, now: datetime, policy: Policy, tolerance: timedelta
    ) -> Mapping[str, DueCounts]:
        """The same by owner, without owners that have no due sources."""
        sql = f"SELECT owner, {_DUE_COUNTS} FROM ({_ALL_DUE}) due GROUP BY owner"
        rows = await self.database.fetch(sql, _times(now, policy, tolerance))
        return {owner: _read_due(tuple(counts)) for owner, *counts in rows}

    async def by_health(self) -> Mapping[Health, int]:
        """Count all sources by health; this scans the whole table."""
        rows = await self.database.fetch(_BY_HEALTH)
        counted: dict[str, int] = dict(rows)
        return {health: counted.get(health.value, 0) for health in Health}

    async def by_podcast(self) -> Sequence[PodcastTally]:
        """The same by podcast, without podcasts that have no sources."""
        found: dict[tuple[str, str], dict[Health, int]] = {}
        for podcast_id, owner, health, count in await self.database.fetch(_BY_PODCAST):
            found.setdefault((podcast_id, owner), dict.fromkeys(Health, 0))[Health(health)] = count
        return [PodcastTally(*key, by_health) for key, by_health in found.items()]

    async def any_sources(self, owner: str | None) -> bool:
        """Whether a user, or any user if None, has sources."""
        sql = _ANY.format(owned="" if owner is None else _OWNED)
        params = {} if owner is None else {"owner": owner}
        return bool(await self.database.fetch(sql, params))

    async def on_hosts(self, hosts: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """The number of enabled sources on each of these hosts, by owner."""
        found: dict[str, dict[str, int]] = {}
        for host, owner, count in await self.database.fetch(_ON_HOSTS, {"hosts": hosts}):
            found.setdefault(host, {})[owner] = count
        return found


def _times(now: datetime, policy: Policy, tolerance: timedelta) -> dict[str, object]:
    times = {"late": to_ms(now - tolerance), "cap": 60 * policy.max_backoff_hours}
    return due_params(now, policy) | times
