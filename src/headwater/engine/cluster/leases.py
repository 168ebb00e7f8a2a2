"""Leases: the shards that this worker has open, and whether it may still act on them (K8)."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from headwater.clock import Clock
from headwater.engine.hosts.access import HostLocker
from headwater.errors import LeaseLost
from headwater.logs import get_logger
from headwater.model import Fence, HostState, Visit
from headwater.rules.shards import SHARDS, shard_of
from headwater.store.host_locks import HostLocks

log = get_logger()
_VALID = 0.6  # of a lease: how long a confirmation counts


class Leases(HostLocker):
    """The shards and host locks of one worker; without a recent confirmation it does nothing."""

    def __init__(
        self, hosts: HostLocks, clock: Clock, *, seconds: float, shards: int = SHARDS
    ) -> None:
        """`shards`: into how many all lanes are divided."""
        self.lost = 0
        self._hosts = hosts
        self._clock = clock
        self._seconds = seconds
        self.shard_count = shards
        self._open: dict[int, Fence] = {}
        self._closing: set[int] = set()  # no poll starts in these
        self._confirmed_at = clock.monotonic()

    @property
    def open_shards(self) -> Collection[int]:
        """The shards that are open here, also those that are closing."""
        return self._open.keys()

    def shard_of(self, lane: str) -> int:
        """The shard of a lane in this database."""
        return shard_of(lane, self.shard_count)

    def are_confirmed(self) -> bool:
        """Whether the last confirmation is recent enough."""
        return self._clock.monotonic() - self._confirmed_at < _VALID * self._seconds

    def has(self, shard: int) -> bool:
        """Whether polls of a shard may start here."""
        return shard in self._open and shard not in self._closing and self.are_confirmed()

    def fence(self, lane: str) -> Fence | None:
        """The fence to store with a poll of this lane; None: it must not start."""
        shard = self.shard_of(lane)
        return self._open[shard] if self.has(shard) else None

    def check(self, fence: Fence | None, lanes: Collection[str]) -> None:
        """Raise LeaseLost if the shard or the lock of a host is lost, or not confirmed."""
        if not self.are_confirmed():
            raise LeaseLost("the leases of this worker are not confirmed at the moment")
        if fence is not None and self._open.get(fence.shard) != fence:
            raise LeaseLost("another worker has taken the host over")
        self._hosts.check(lanes)

    async def lock(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Lock a host and return its stored state; None: another process has locked it."""
        if not self.are_confirmed():
            return None
        state = await self._hosts.lock(lane, delay_seconds, own_until)
        if state is not None and not self.are_confirmed():  # locking took too long
            await self._hosts.unlock(lane, None)
            return None
        return state

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        """Store the visit, then let other processes lock the host."""
        await self._hosts.unlock(lane, visit)

    def opened(self, fences: Iterable[Fence]) -> None:
        """Let polls start in shards that were opened."""
        self._open.update((fence.shard, fence) for fence in fences)

    def close(self, shards: Iterable[int]) -> None:
        """Start no more polls in shards; those that run continue."""
        self._closing.update(shards)

    def keep(self, shards: Iterable[int]) -> None:
        """Let polls start again in shards that were not closed after all."""
        self._closing.difference_update(shards)

    def closed(self, shards: Iterable[int]) -> None:
        """Send no more requests on behalf of shards."""
        for shard in shards:
            self._open.pop(shard, None)
            self._closing.discard(shard)

    def snapshot(self) -> tuple[float, Mapping[int, Fence]]:
        """The time and the open shards, taken before `held` of `confirm` is read."""
        return self._clock.monotonic(), dict(self._open)

    def confirm(
        self, before: tuple[float, Mapping[int, Fence]], held: Mapping[int, int]
    ) -> list[int]:
        """Confirm the shards that are held by their epochs; drop and return lost ones."""
        self._confirmed_at, opened = before
        lost = [
            shard
            for shard, fence in opened.items()
            if held.get(shard) != fence.epoch and self._open.get(shard) == fence
        ]
        self.closed(lost)
        self.count_lost(len(lost))
        return lost

    def count_lost(self, shards: int) -> None:
        """Count and log shards that other workers took over."""
        if shards:
            self.lost += shards
            log.warning("[Cluster] shards were taken over by other workers", shards=shards)
