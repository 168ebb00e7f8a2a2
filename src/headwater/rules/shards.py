"""Shards: every lane belongs to one of a fixed number, so that workers can share lanes out."""

import hashlib

SHARDS = 256


def shard_of(lane: str) -> int:
    """The shard of a lane; PostgreSQL computes the same in `headwater_shard`."""
    return hashlib.md5(lane.encode(), usedforsecurity=False).digest()[0]
