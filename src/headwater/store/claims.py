"""HostClaims: hosts that one process has for itself, as locks of one PostgreSQL connection.

They go with the connection: a process that dies leaves none behind.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.batch import Batcher
from headwater.model import HostState, Visit
from headwater.store.hosts import keep_visits, of_lanes
from headwater.store.postgres import PostgresDatabase, PostgresSession

APPLICATION = "headwater hosts"
_TAKE = "SELECT k, pg_try_advisory_lock(k) FROM unnest(%s::BIGINT[]) AS k"
_GIVE_BACK = "SELECT pg_advisory_unlock(k) FROM unnest(%s::BIGINT[]) AS k"
_GivenBack = tuple[str, Visit | None]
_SILENT_SECONDS = 120  # longer than any visit: who says nothing for so long will not give back


class HostClaims:
    """Takes and gives back hosts, those of many polls in one round trip.

    `seldom`: for single visits. The connection lasts as long as they do, and should this process
    fall silent, the server ends it: nobody else looks after processes that are no workers.
    """

    def __init__(self, database: PostgresDatabase, *, seldom: bool = False) -> None:
        self._database = database
        self._seldom = seldom
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-hosts")
        self._session: PostgresSession | None = None
        self._held: Counter[int] = Counter()
        self._taking: Batcher[str, HostState | None] = Batcher(self._take_many)
        self._giving: Batcher[_GivenBack, None] = Batcher(self._give_back_many)

    @property
    def backend(self) -> int | None:
        """The server's process behind the connection."""
        return None if self._session is None else self._session.connection.info.backend_pid

    async def take(self, lane: str) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there."""
        return await self._taking(lane)

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._giving((lane, visit))

    async def close(self) -> None:
        """Give everything back."""
        await asyncio.to_thread(self._thread.shutdown)
        if self._session is not None:
            self._session.close()

    async def _take_many(self, lanes: Sequence[str]) -> Sequence[HostState | None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._taken, lanes)

    async def _give_back_many(self, given: Sequence[_GivenBack]) -> Sequence[None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._given_back, given)

    def _taken(self, lanes: Sequence[str]) -> list[HostState | None]:
        keys = {lane: _key(lane) for lane in lanes}
        try:
            session = self._connected()
            rows = session.connection.execute(_TAKE, [list(keys.values())]).fetchall()
            ours = {key for key, taken in rows if taken}
            # only now: what the last visitor left behind was stored before it gave its host back
            states = of_lanes(session, lanes)
            self._held.update(ours)  # last: who is told of a failure gives nothing back
        except Exception as error:
            self._drop()
            raise self._database.translate(error) from error
        return [states.get(lane, HostState(lane)) if keys[lane] in ours else None for lane in lanes]

    def _given_back(self, given: Sequence[_GivenBack]) -> list[None]:
        keys = [_key(lane) for lane, _ in given]
        self._held.subtract(keys)
        try:
            session = self._connected()
            keep_visits(session, [visit for _, visit in given if visit is not None])
            session.connection.execute(_GIVE_BACK, [keys])
            if self._seldom and not +self._held:
                self._drop()
        except Exception as error:
            self._drop()  # the connection's end gives them back as well
            if self._database.translate(error) is error:
                raise
        return [None] * len(given)

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._database.connect(application_name=APPLICATION)
            if self._seldom and self._session.connection.info.server_version >= 140_000:
                self._session.execute(f"SET idle_session_timeout = '{_SILENT_SECONDS}s'")
            held = list((+self._held).elements())
            if held:  # the connection before was cut: these visits are still under way
                self._session.connection.execute(_TAKE, [held])
        return self._session

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _key(lane: str) -> int:
    digest = hashlib.md5(lane.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], signed=True)
