"""Leases: the shards that this worker has open, and whether it can still know that (K8)."""

from collections.abc import Collection
from datetime import datetime

from headwater.clock import Clock
from headwater.errors import HeadwaterError, Overtaken
from headwater.logs import get_logger
from headwater.model import Fence, HostState, Visit
from headwater.rules.shards import shard_of
from headwater.store.claims import HostClaims
from headwater.store.shards import Shards

log = get_logger()
_TRUSTED = 0.6  # of a lease: a look at the database that is older says nothing


class Leases:
    """The claims of one worker of several: shards for a while, hosts for a visit."""

    alone = False

    def __init__(
        self, shards: Shards, hosts: HostClaims, clock: Clock, *, worker: str, seconds: float
    ) -> None:
        self.worker = worker
        self.seconds = seconds
        self.lost = 0
        self._lost_untold = 0  # found when they were left
        self._shards = shards
        self._hosts = hosts
        self._clock = clock
        self._open: dict[int, Fence] = {}
        self._unclosed: set[Fence] = set()
        self._confirmed_at = clock.monotonic()

    def are_fresh(self) -> bool:
        """Whether the last look at the database is young enough to go by."""
        return self._clock.monotonic() - self._confirmed_at < _TRUSTED * self.seconds

    def has(self, shard: int) -> bool:
        """Whether polls of a shard may begin here."""
        return shard in self._open and self.are_fresh()

    def fence(self, lane: str) -> Fence | None:
        """What a poll of this lane must prove when it is stored; None: it must not begin."""
        return self._open.get(shard_of(lane)) if self.are_fresh() else None

    def check(self, fence: Fence | None, lanes: Collection[str]) -> None:
        """Raise Overtaken where a poll's shard is not ours any more, or nobody can know."""
        if not self.are_fresh():
            raise Overtaken("whether the host is still this worker's to ask cannot be known now")
        if fence is not None and self._open.get(fence.shard) != fence:
            raise Overtaken("another worker has taken the host over")
        self._hosts.check(lanes)

    async def take(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there."""
        if not self.are_fresh():
            return None
        state = await self._hosts.take(lane, delay_seconds, own_until)
        if state is not None and not self.are_fresh():  # it took long
            await self._hosts.give_back_unused(state)
            return None
        return state

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._hosts.give_back(lane, visit)

    async def open(self, shard: int) -> Fence:
        """Take a shard over."""
        fence = await self._shards.open(shard, self.worker)
        self._open[shard] = fence
        return fence

    async def close(self, fence: Fence) -> None:
        """Leave a shard for others; one that was lost is theirs already."""
        if self._open.get(fence.shard) == fence:
            del self._open[fence.shard]
            try:
                await self._close(fence)
            except HeadwaterError:
                self._unclosed.add(fence)  # the next look tries again
                raise

    async def _close(self, fence: Fence) -> None:
        if not await self._shards.close(fence):
            self._lost_untold += 1
        self._unclosed.discard(fence)

    async def confirm(self) -> None:
        """Look whether all of them are still ours."""
        looked_at, believed = self._clock.monotonic(), dict(self._open)
        held = await self._shards.held_by(self.worker)
        self._confirmed_at = looked_at
        gone = [
            shard
            for shard, fence in believed.items()
            if held.get(shard) != fence.epoch and self._open.get(shard) == fence
        ]
        for shard in gone:
            del self._open[shard]
        for fence in list(self._unclosed):  # the database was away when they were left
            await self._close(fence)
        self._tell_lost(len(gone) + self._lost_untold)

    def _tell_lost(self, count: int) -> None:
        self._lost_untold = 0
        if count:
            self.lost += count
            log.warning("[Cluster] shards were taken over by other workers", shards=count)
