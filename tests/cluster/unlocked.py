"""A worker that respects nobody: proof that the checks of the other tests can fail."""

import sys
from collections.abc import Iterable

from headwater.__main__ import main
from headwater.engine.jobs import Jobs
from headwater.engine.leases import Leases
from headwater.model import Fence, HostState
from headwater.store.shards import Shards


async def wake(self: Jobs, shards: Iterable[int]) -> None:
    for shard in shards:
        await self._shard_task.defer_async(shard=shard)


async def take(_: Leases, lane: str, *_wanted: object) -> HostState:
    return HostState(lane)


def check(*_: object) -> None:
    return None


async def give_back(*_: object) -> None:
    return None


async def nothing_held(_: Shards, worker: str) -> dict[int, int]:
    return Everything()


class Everything(dict[int, int]):
    """Whatever one believes to have."""

    def get(self, _shard: int, _other: object = None) -> "Anything":
        return Anything()


class Anything(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def fence(_: Leases, lane: str) -> Fence:
    return Fence(0, 0)


Jobs.wake = wake  # type: ignore[method-assign]
Leases.take = take  # type: ignore[method-assign,assignment]
Leases.check = check  # type: ignore[method-assign,assignment]
Leases.give_back = give_back  # type: ignore[method-assign,assignment]
Leases.fence = fence  # type: ignore[method-assign,assignment]
Shards.held_by = nothing_held  # type: ignore[method-assign,assignment]

if __name__ == "__main__":
    sys.exit(main())
