"""VisitorClaims: hosts for visits that are no polls, where workers poll the database."""

from collections.abc import Collection
from datetime import datetime
from typing import cast

from headwater.model import Fence, HostState, Visit
from headwater.store.claims import HostClaims
from headwater.store.database import Database
from headwater.store.postgres import PostgresDatabase


class VisitorClaims:
    """The claims of a process that visits hosts now and then, previews for one, and polls none."""

    alone = False

    def __init__(self, database: Database) -> None:
        self._hosts = HostClaims(cast(PostgresDatabase, database), seldom=True)

    def fence(self, _lane: str) -> Fence | None:
        """No shard is open here: polls must not begin."""
        return None

    def check(self, _fence: Fence | None, lanes: Collection[str]) -> None:
        """Raise Overtaken where a host that was claimed is somebody else's by now."""
        self._hosts.check(lanes)

    async def take(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there."""
        return await self._hosts.take(lane, delay_seconds, own_until)

    async def keep(self) -> None:
        """See to it that hosts whose visits are under way stay ours."""
        await self._hosts.keep()

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._hosts.give_back(lane, visit)

    async def close(self) -> None:
        """Give everything back."""
        await self._hosts.close()
