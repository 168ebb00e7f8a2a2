"""Claims: who may ask a host right now, where several processes poll one database."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from headwater.model import Fence, HostState, Visit


class Claims(Protocol):
    """Hosts that this process has for itself for as long as a visit takes."""

    alone: bool  # there is no other process to keep away

    def fence(self, lane: str) -> Fence | None:
        """What a poll of this lane must prove when it is stored; None: it must not begin."""
        ...

    async def take(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there.

        Should this process die there, others keep the delay. `own_until`: the end of the delay
        that the same visit left behind when it was there before.
        """
        ...

    def check(self, fence: Fence | None, lanes: Collection[str]) -> None:
        """Raise Overtaken where a poll cannot know any more that it may go on (K8).

        `lanes`: the hosts that it has claimed.
        """
        ...

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        ...


class _NobodyElse:
    """One process polls this database, and its gates know everything."""

    alone = True

    def fence(self, _lane: str) -> Fence | None:
        return None

    async def take(
        self, lane: str, _delay_seconds: float, _own_until: datetime | None = None
    ) -> HostState | None:
        return HostState(lane)

    def check(self, _fence: Fence | None, _lanes: Collection[str]) -> None:
        return None

    async def give_back(self, _lane: str, _visit: Visit | None) -> None:
        return None


NOBODY_ELSE: Claims = _NobodyElse()
