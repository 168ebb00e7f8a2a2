"""Shards: every lane belongs to one of a fixed number of groups, the unit of work in a cluster."""

import hashlib

SHARDS = 256  # of a new database; `headwater cluster shards` changes it
MAX_SHARDS = 4096


def shard_of(lane: str, shards: int = SHARDS) -> int:
    """The shard of a lane; PostgreSQL computes the same in `headwater_shard`."""
    digest = hashlib.md5(lane.encode(), usedforsecurity=False).digest()
    return (digest[0] << 8 | digest[1]) * shards >> 16


def share_of(shards: int, workers: int, rank: int) -> int:
    """How many shards a worker takes; the shares of all ranks add up to `shards`."""
    return shards // workers + (rank < shards % workers)
