"""A worker that takes no locks: proves that the checks of the other tests can fail."""

import sys

from headwater.__main__ import main
from headwater.engine.cluster.leases import Leases
from headwater.engine.cluster.shard_assignment import ShardAssignment
from headwater.model import Fence, HostState


async def lock(_: Leases, lane: str, *_wanted: object) -> HostState:
    return HostState(lane)


def check(*_: object) -> None:
    return None


async def unlock(*_: object) -> None:
    return None


def has(*_: object) -> bool:
    return True


def fence(_: Leases, lane: str) -> Fence:
    return Fence(0, 0)


async def take_all(self: ShardAssignment, *, may_reap: bool = True) -> None:
    self.leases.opened(Fence(shard, 0) for shard in range(256))
    self.on_opened()


def confirm(*_: object) -> list[int]:
    return []


Leases.lock = lock  # type: ignore[method-assign,assignment]
Leases.check = check  # type: ignore[method-assign,assignment]
Leases.unlock = unlock  # type: ignore[method-assign,assignment]
Leases.has = has  # type: ignore[method-assign,assignment]
Leases.fence = fence  # type: ignore[method-assign,assignment]
Leases.confirm = confirm  # type: ignore[method-assign,assignment]
ShardAssignment.balance = take_all  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
