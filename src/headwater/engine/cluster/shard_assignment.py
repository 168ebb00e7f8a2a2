"""ShardAssignment: each worker opens its share of the shards and hands over the surplus (K8).

Workers do not talk to each other: all compute the shares of all from the same rows.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from headwater.clock import Clock
from headwater.engine.cluster.leases import Leases
from headwater.engine.lanes import Lanes
from headwater.errors import MustRestart
from headwater.logs import get_logger
from headwater.rules.shards import share_of
from headwater.store.shards import ClusterState, Shards

log = get_logger()
HAND_OVER_SECONDS = 10.0  # for running polls to end; results of later ones may be discarded
_CHECK_SECONDS = 0.2  # between checks which polls have ended


@dataclass
class ShardAssignment:
    """The share of one worker."""

    shards: Shards
    leases: Leases
    lanes: Lanes
    clock: Clock
    worker: str
    started_at: datetime
    lease_seconds: float
    on_opened: Callable[[], None]
    draining: bool = False

    async def balance(self, *, may_reap: bool = True) -> None:
        """Open free shards up to this worker's share, or hand over the surplus."""
        state = await self._state()
        if state.has_dead and may_reap:
            await self._reap()
            state = await self._state()
        if stray := set(state.held) - set(self.leases.open_shards):
            # closing them failed, or the connection was lost before we knew of their opening
            await self.shards.close(self.worker, stray)
        if self.draining != state.draining:
            self.draining = state.draining
            log.info("[Cluster] draining" if self.draining else "[Cluster] not draining any more")
        if not (state.takes_part or state.draining) or not self.leases.are_confirmed():
            return
        share = 0
        if state.takes_part:
            share = share_of(state.shards, state.workers, state.rank)
        missing = share - len(self.leases.open_shards)
        if missing < 0:
            await self.hand_over(self._surplus(-missing))
        elif missing > 0 and state.has_free:
            opened = await self.shards.open_free(self.worker, missing)
            self.leases.opened(opened)
            if opened:
                self.on_opened()

    async def hand_over(self, shards: Collection[int], seconds: float = HAND_OVER_SECONDS) -> None:
        """Close shards: start nothing more in them, and wait for running polls within bounds."""
        self.leases.close(shards)
        self.withdraw(shards)
        left, ends_at = set(shards), self.clock.monotonic() + seconds
        try:
            while left:
                busy = self._busy() if self.clock.monotonic() < ends_at else set()
                if idle := left - busy:
                    await self._close(idle)
                left &= busy
                if left:
                    await self.clock.sleep(_CHECK_SECONDS)
        finally:
            self.leases.keep(left)  # after an error: the next assignment may choose others

    def withdraw(self, shards: Collection[int]) -> None:
        """Remove the waiting sources of shards from their lanes; they are still due."""
        self.lanes.withdraw(
            [lane for lane in self.lanes.names() if self.leases.shard_of(lane) in shards]
        )

    async def _state(self) -> ClusterState:
        state = await self.shards.state(self.worker, self.started_at, self.lease_seconds)
        if state.shards != self.leases.shard_count:
            raise MustRestart("the number of shards was changed while this worker was disconnected")
        return state

    async def _reap(self) -> None:
        """Free the shards of workers without a heartbeat for a lease."""
        dead = await self.shards.reap(self.worker, self.lease_seconds)
        if dead.workers:
            names, count = ", ".join(dead.workers), len(dead.shards)
            log.warning("[Cluster] a worker died; its shards are free", shards=count, worker=names)

    async def _close(self, shards: Collection[int]) -> None:
        ours = [shard for shard in shards if shard in self.leases.open_shards]
        self.leases.closed(ours)
        closed = await self.shards.close(self.worker, ours)
        self.leases.count_lost(len(ours) - closed)

    def _surplus(self, count: int) -> list[int]:
        """Shards to hand over: the same part of those with due sources and of the others.

        If all with due sources stayed here, another worker would get nothing to poll. Of both,
        shards without running polls go first: a slow poll may have to be repeated elsewhere.
        """
        busy, in_use = self._busy(), {self.leases.shard_of(lane) for lane in self.lanes.names()}
        ordered = sorted(self.leases.open_shards, key=lambda shard: (shard in busy, shard))
        with_due = [shard for shard in ordered if shard in in_use]
        others = [shard for shard in ordered if shard not in in_use]
        part = round(count * len(with_due) / len(ordered))
        return with_due[:part] + others[: count - part]

    def _busy(self) -> set[int]:
        """The shards with running polls."""
        return {self.leases.shard_of(lane) for lane in self.lanes.in_flight()}
