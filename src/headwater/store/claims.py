"""HostClaims: hosts that one process has for itself, as locks of one PostgreSQL connection.

They go with the connection: a process that dies leaves none behind.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.batch import Batcher
from headwater.errors import Overtaken
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
_UNDO = """
    UPDATE hosts SET next_allowed_at = :at, next_allowed_set_at = :set_at
    WHERE lane = :lane AND next_allowed_at IS NOT NULL AND next_allowed_set_at IS NULL
"""
# a lane, the delay of whoever goes there, and until when one lasts that the same visit left behind
_Wanted = tuple[str, float, datetime | None]
# a lane, the visit, and for a host that nobody went to after all: what was stored of it before
_GivenBack = tuple[str, Visit | None, HostState | None]
_SILENT_SECONDS = 120  # longer than any visit: who says nothing for so long will not give back
_LEAST_SECONDS = 3.0  # that a host is left alone if its visitor may only have lost its connection


class HostClaims:
    """Takes and gives back hosts, those of many polls in one round trip.

    Should this process say nothing for `silent_seconds`, the server ends its connection.
    `seldom`: for single visits; the connection lasts as long as they do.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        seldom: bool = False,
        silent_seconds: float = _SILENT_SECONDS,
    ) -> None:
        self._database = database
        self._seldom = seldom
        self._silent_ms = round(silent_seconds * 1000)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-hosts")
        self._session: PostgresSession | None = None
        self._held: Counter[int] = Counter()
        self._held_anew: set[int] = set()  # taken again on a new connection
        self._taking: Batcher[_Wanted, HostState | None] = Batcher(
            self._take_many, unwanted=self._untake
        )
        self._giving: Batcher[_GivenBack, None] = Batcher(self._give_back_many)
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def backend(self) -> int | None:
        """The server's process behind the connection."""
        return None if self._session is None else self._session.connection.info.backend_pid

    def check(self, lanes: Collection[str]) -> None:
        """Raise Overtaken where one of these hosts is somebody else's by now."""
        if any(self._held[_key(lane)] <= 0 for lane in lanes):
            raise Overtaken("another process has taken the host over")

    async def take(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Claim a host and answer what is stored of it now; None: another process is there.

        Where the host may be asked soon, it is stored that somebody set out for it: if that is
        all that is found later, the visitor died there, and the delay is kept from then on.
        """
        return await self._taking((lane, delay_seconds, own_until))

    async def give_back(self, lane: str, visit: Visit | None) -> None:
        """Let others have a host, once they can know of the visit."""
        await self._giving((lane, visit, None))

    async def give_back_unused(self, state: HostState) -> None:
        """Let others have a host that was not asked for anything, as `take` found it."""
        await self._giving((state.lane, None, state))

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

    def _untake(self, _wanted: _Wanted, state: HostState | None) -> None:
        """Give a host back that nobody wants any more."""
        if state is not None:
            errand = asyncio.create_task(self.give_back_unused(state))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    async def _give_back_many(self, given: Sequence[_GivenBack]) -> Sequence[None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._given_back, given)

    def _taken(self, wanted: Sequence[_Wanted]) -> list[HostState | None]:
        keys = [_key(lane) for lane, *_ in wanted]  # a lock for each, also of the same lane
        try:
            session = self._connected()
            rows = session.connection.execute(_TAKE, [keys]).fetchall()
            taken = dict.fromkeys(key for key, is_taken, _ in rows if is_taken)
            ours = [one for one, key in zip(wanted, keys, strict=True) if key in taken]
            # only now: what the last visitor left behind was stored before it gave its host back
            states = of_lanes(session, [lane for lane, *_ in ours])
            _set_out(session, ours, states, moment(rows[0][2]))
            # last: who is told of a failure gives nothing back
            self._held.update(key for key in keys if key in taken)
            self._held_anew.difference_update(taken)
        except Exception as error:
            self._drop()
            raise self._database.translate(error) from error
        return [
            states.get(lane, HostState(lane)) if key in taken else None
            for (lane, *_), key in zip(wanted, keys, strict=True)
        ]

    def _given_back(self, given: Sequence[_GivenBack]) -> list[None]:
        try:
            try:
                session = self._connected()  # first: if it is a new one, some are others' by now
            finally:
                ours = [(key, visit) for lane, visit, _ in given if self._let_go(key := _key(lane))]
            others = [visit for lane, visit, _ in given if _key(lane) not in dict(ours)]
            visits = [visit for _, visit in ours if visit is not None]
            # whoever took a host over when our connection was cut has been there since
            visits += [replace(visit, is_last=False) for visit in others if visit is not None]
            keep_visits(session, visits)
            self._undo(session, [state for *_, state in given if state is not None], dict(ours))
            session.connection.execute(_GIVE_BACK, [[key for key, _ in ours]])
            if self._seldom and not self._held:
                self._drop()
        except Exception as error:
            self._drop()  # the connection's end gives them back as well
            if self._database.translate(error) is error:
                raise
        return [None] * len(given)

    def _undo(
        self, session: PostgresSession, states: Sequence[HostState], ours: Collection[int]
    ) -> None:
        """Take back that we set out for hosts, unless another of us is there.

        Where the connection was cut meanwhile, it may be another process that set out.
        """
        for state in states:
            key = _key(state.lane)
            if key in ours and not self._held[key] and key not in self._held_anew:
                at, set_at = to_ms(state.next_allowed_at), to_ms(state.next_allowed_set_at)
                session.execute(_UNDO, {"lane": state.lane, "at": at, "set_at": set_at})

    def _let_go(self, key: int) -> bool:
        """Count a host as given back; False: it is another process's by now."""
        held = self._held[key]
        if held > 1:
            self._held[key] = held - 1
        elif held == 1:
            del self._held[key]
        return held > 0

    def _kept(self) -> None:
        if self._session is None and not self._held:
            return
        try:
            try:
                self._connected().execute("SELECT 1")
            except Exception:  # noqa: BLE001 - it was cut: a new one is tried, once
                self._drop()
                if self._held:
                    self._connected()
        except Exception as error:
            self._drop()
            raise self._database.translate(error) from error

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._database.connect(application_name=APPLICATION)
            if self._session.connection.info.server_version >= 140_000:
                self._session.execute(f"SET idle_session_timeout = {self._silent_ms}")
            held = list(self._held.elements())
            if held:  # the connection before was cut: these visits are still under way
                rows = self._session.connection.execute(_TAKE, [held]).fetchall()
                for key, is_taken, _ in rows:
                    if not is_taken:  # another process was quicker: nothing more is asked there
                        self._let_go(key)
            self._held_anew = set(self._held)
        return self._session

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _set_out(
    session: PostgresSession,
    wanted: Sequence[_Wanted],
    states: dict[str, HostState],
    now: datetime,
) -> None:
    """Store who is going to be visited; hosts whose last visitor died there wait first."""
    lost, until = list[Visit](), dict[str, int]()
    for lane, seconds, own_until in wanted:
        state, free_at = states.get(lane, HostState(lane)), now + timedelta(seconds=seconds)
        if state.next_allowed_at is not None and state.next_allowed_set_at is None:
            least = now + timedelta(seconds=_LEAST_SECONDS)
            free_at = max(free_at, state.next_allowed_at, least)
            lost.append(Visit(lane, now, free_at))
            states[lane] = replace(state, next_allowed_at=free_at, next_allowed_set_at=now)
            continue
        wait = wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)
        if own_until is not None and state.next_allowed_at == own_until:
            wait = 0.0
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
