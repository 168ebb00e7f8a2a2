"""HostClaims: hosts that one process has for itself, as locks of one PostgreSQL connection.

They go with the connection: a process that dies leaves none behind.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.batch import Batcher
from headwater.model import HostState, Visit
from headwater.rules.politeness import SOON_SECONDS, hold_seconds, wait_seconds
from headwater.store.hosts import keep_visits, of_lanes
from headwater.store.postgres import PostgresDatabase, PostgresSession
from headwater.store.rows import moment, to_ms
from headwater.store.shards import NOW_MS

APPLICATION = "headwater hosts"
_TAKE = f"SELECT k, pg_try_advisory_lock(k), {NOW_MS} FROM unnest(%s::BIGINT[]) AS k"
_GIVE_BACK = "SELECT pg_advisory_unlock(k) FROM unnest(%s::BIGINT[]) AS k"
# A moment without the one that it was set at: somebody set out and did not say yet that he is back.
# It is not waited for to be on disk: should the server die, no request outlives it for long.
_SET_OUT = """
    WITH at_once AS (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO hosts (lane, next_allowed_at)
    SELECT o.lane, o.until FROM unnest(%b::TEXT[], %b::BIGINT[]) AS o (lane, until), at_once
    ON CONFLICT (lane) DO UPDATE
    SET next_allowed_at = excluded.next_allowed_at, next_allowed_set_at = NULL
"""
_Wanted = tuple[str, float]  # a lane, and the delay of whoever goes there
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
        self._taking: Batcher[_Wanted, HostState | None] = Batcher(
            self._take_many, unwanted=self._untake
        )
        self._giving: Batcher[_GivenBack, None] = Batcher(self._give_back_many)
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def backend(self) -> int | None:
        """The server's process behind the connection."""
        return None if self._session is None else self._session.connection.info.backend_pid

    async def take(self, lane: str, delay_seconds: float) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there.

        Where the host may be asked soon, it is stored that somebody set out for it: if that is
        all that is found later, the visitor died there, and the delay is kept from then on.
        """
        return await self._taking((lane, delay_seconds))

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._giving((lane, visit))

    async def keep(self) -> None:
        """See to it that hosts whose visits are under way stay ours, on a new connection too."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._kept)

    async def close(self) -> None:
        """Give everything back."""
        await asyncio.to_thread(self._thread.shutdown)
        if self._session is not None:
            self._session.close()

    async def _take_many(self, wanted: Sequence[_Wanted]) -> Sequence[HostState | None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._taken, wanted)

    def _untake(self, wanted: _Wanted, state: HostState | None) -> None:
        """Give a host back that nobody wants any more."""
        if state is not None:
            errand = asyncio.create_task(self.give_back(wanted[0], None))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    async def _give_back_many(self, given: Sequence[_GivenBack]) -> Sequence[None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._given_back, given)

    def _taken(self, wanted: Sequence[_Wanted]) -> list[HostState | None]:
        keys = {lane: _key(lane) for lane, _ in wanted}
        try:
            session = self._connected()
            rows = session.connection.execute(_TAKE, [list(keys.values())]).fetchall()
            ours = {key for key, taken, _ in rows if taken}
            delays = {lane: delay for lane, delay in wanted if keys[lane] in ours}
            # only now: what the last visitor left behind was stored before it gave its host back
            states = of_lanes(session, list(delays))
            _set_out(session, delays, states, moment(rows[0][2]))
            self._held.update(ours)  # last: who is told of a failure gives nothing back
        except Exception as error:
            self._drop()
            raise self._database.translate(error) from error
        return [states.get(lane, HostState(lane)) if lane in delays else None for lane, _ in wanted]

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

    def _kept(self) -> None:
        if self._session is None and not +self._held:
            return
        try:
            try:
                self._connected().execute("SELECT 1")
            except Exception:  # noqa: BLE001 - it was cut: a new one is tried, once
                self._drop()
                if +self._held:
                    self._connected()
        except Exception as error:
            self._drop()
            raise self._database.translate(error) from error

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


def _set_out(
    session: PostgresSession,
    delays: Mapping[str, float],
    states: dict[str, HostState],
    now: datetime,
) -> None:
    """Store who is going to be visited; hosts whose last visitor died there wait first."""
    lost, until = list[Visit](), dict[str, int]()
    for lane, seconds in delays.items():
        state, free_at = states.get(lane, HostState(lane)), now + timedelta(seconds=seconds)
        if state.next_allowed_at is not None and state.next_allowed_set_at is None:
            free_at = max(free_at, state.next_allowed_at)
            lost.append(Visit(lane, now, free_at))
            states[lane] = replace(state, next_allowed_at=free_at, next_allowed_set_at=now)
            continue
        wait = wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)
        wait = max(wait, hold_seconds(state.hold, now))
        if seconds > 0 and wait <= SOON_SECONDS:
            until[lane] = to_ms(free_at + timedelta(seconds=wait)) or 0
    if lost:
        keep_visits(session, lost)
    if until:
        lanes = sorted(until)  # in one order: nobody waits in a circle
        session.connection.execute(_SET_OUT, [lanes, [until[lane] for lane in lanes]])


def _key(lane: str) -> int:
    digest = hashlib.md5(lane.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], signed=True)
