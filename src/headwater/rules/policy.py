"""Policy: the configured values that rules need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.model import SourceType


class HoldScope(StrEnum):
    """What a hold applies to: every source of the host, or only the one that received it (P9)."""

    HOST = "host"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class HostOverride:
    """Settings of one host, or of all hosts below a domain; None means not set."""

    poll_delay_seconds: float | None = None
    hold_scope: HoldScope | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The configured values that rules use; host names are normalised (P1)."""

    max_article_age_days: int = 7
    max_failures: int = 5
    max_backoff_hours: int = 24
    late_entry_hours: int = 0
    processed_retention_days: int | None = None  # None: kept permanently (C1)
    poll_history_days: int = 14
    daily_history_days: int = 400
    adopt_moves: bool = False  # change the URL of a moved source automatically (Y4)
    probation: bool = False  # poll auto-disabled sources again, after days (Y9)
    failing_hours: int = 24  # after which a failing source is an incident (Y1)
    type_delay_seconds: Mapping[SourceType, float] = field(default_factory=dict)
    host_overrides: Mapping[str, HostOverride] = field(default_factory=dict)
    aggregate_hosts: tuple[str, ...] = ("nitter.net",)

    def host_delay_seconds(self, host: str | None) -> float | None:
        """The delay set for a host: its own, else that of the longest wildcard, else None (P2)."""
        delays = (override.poll_delay_seconds for override in self._overrides(host))
        return next((delay for delay in delays if delay is not None), None)

    def hold_scope(self, host: str | None) -> HoldScope:
        """The scope of this host's holds, looked up in the same order as its delay (P9)."""
        scopes = (override.hold_scope for override in self._overrides(host))
        return next((scope for scope in scopes if scope is not None), HoldScope.HOST)

    def _overrides(self, host: str | None) -> Iterator[HostOverride]:
        """The overrides that match a host: exact match first, then wildcards, longest first."""
        if host is None or not self.host_overrides:
            return
        name, key = host, host
        while True:
            override = self.host_overrides.get(key)
            if override is not None:
                yield override
            name = name.partition(".")[2]
            if not name:
                return
            key = f"*.{name}"
