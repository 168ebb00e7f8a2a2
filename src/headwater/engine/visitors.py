"""VisitorClaims: hosts for visits that are no polls, where workers poll the database."""

import asyncio
from typing import Any, cast

from headwater.model import Fence, HostState, Visit
from headwater.store.claims import HostClaims
from headwater.store.database import Database
from headwater.store.postgres import PostgresDatabase


class VisitorClaims:
    """The claims of a process that visits hosts now and then, previews for one, and polls none."""

    alone = False

    def __init__(self, database: Database) -> None:
        self._hosts = HostClaims(cast(PostgresDatabase, database), seldom=True)
        self._errands: set[asyncio.Task[Any]] = set()

    def fence(self, _lane: str) -> Fence | None:
        """No shard is open here: polls must not begin."""
        return None

    async def take(self, lane: str) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there."""
        taking = asyncio.create_task(self._hosts.take(lane))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:  # whoever asked is gone; the host must not stay claimed
            errand = asyncio.create_task(self._untake(taking, lane))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)
            raise

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._hosts.give_back(lane, visit)

    async def close(self) -> None:
        """Give everything back."""
        await self._hosts.close()

    async def _untake(self, taking: "asyncio.Task[HostState | None]", lane: str) -> None:
        await asyncio.wait([taking])
        if taking.exception() is None and taking.result() is not None:
            await self._hosts.give_back(lane, None)
