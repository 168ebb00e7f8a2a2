"""Policy: the numbers the rules need, made from the settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.model import SourceType


class HoldScope(StrEnum):
    """What a hold stops: every source of the host, or the one that was answered (P9)."""

    HOST = "host"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class HostOverride:
    """What is set for a host, or for all hosts below one; None: this entry does not say."""

    poll_delay_seconds: float | None = None
    hold_scope: HoldScope | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that rules decide by; hosts are normalised as P1 says."""

    max_article_age_days: int = 7
    max_failures: int = 5
    max_backoff_hours: int = 24
    late_entry_hours: int = 0
    processed_retention_days: int | None = None  # None: processed articles stay for ever (C1)
    poll_history_days: int = 14
    type_delay_seconds: Mapping[SourceType, float] = field(default_factory=dict)
    host_overrides: Mapping[str, HostOverride] = field(default_factory=dict)
    aggregate_hosts: tuple[str, ...] = ("nitter.net",)

    def host_delay_seconds(self, host: str | None) -> float | None:
        """The delay set for a host: its own, else that of the longest wildcard, else None (P2)."""
        if not self.host_overrides:
            return None
        delays = (override.poll_delay_seconds for override in self._overrides(host))
        return next((delay for delay in delays if delay is not None), None)

    def hold_scope(self, host: str | None) -> HoldScope:
        """What a hold of this host stops, found in the same order as its delay (P9)."""
        scopes = (override.hold_scope for override in self._overrides(host))
        return next((scope for scope in scopes if scope is not None), HoldScope.HOST)

    def _overrides(self, host: str | None) -> Iterator[HostOverride]:
        """Walk from the host itself up to its shortest wildcard, over what is set."""
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
