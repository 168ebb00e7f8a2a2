"""Claims: who may ask a host right now, where several processes poll one database."""

from typing import Protocol

from headwater.model import Fence, HostState, Visit


class Claims(Protocol):
    """Hosts that this process has for itself for as long as a visit takes."""

    alone: bool  # there is no other process to keep away

    def fence(self, lane: str) -> Fence | None:
        """What a poll of this lane must prove when it is stored; None: it must not begin."""
        ...

    async def take(self, lane: str, delay_seconds: float) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there.

        Should this process die there, others keep the delay.
        """
        ...

    def check(self) -> None:
        """Raise Overtaken where this process cannot know any more what it may ask (K8)."""
        ...

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        ...


class _NobodyElse:
    """One process polls this database, and its gates know everything."""

    alone = True

    def fence(self, _lane: str) -> Fence | None:
        return None

    async def take(self, lane: str, _delay_seconds: float) -> HostState | None:
        return HostState(lane)

    def check(self) -> None:
        return None

    async def give_back(self, _lane: str, _visit: Visit | None) -> None:
        return None


NOBODY_ELSE: Claims = _NobodyElse()
