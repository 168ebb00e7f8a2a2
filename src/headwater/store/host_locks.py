"""HostLocks: exclusive access to hosts, as advisory locks of one PostgreSQL session.

The server releases them with the connection: a process that dies leaves no lock behind.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from headwater.batcher import Batcher
from headwater.errors import LeaseLost
from headwater.model import HostState, Visit
from headwater.rules.politeness import SOON_SECONDS, visit_wait_seconds
from headwater.store.hosts import keep_visits, of_lanes
from headwater.store.postgres import PostgresDatabase, PostgresSession
from headwater.store.row_mapping import from_ms, to_ms
from headwater.store.shards import HOST_LOCKS_APPLICATION, NOW_MS

_LOCK = f"SELECT k, pg_try_advisory_lock(k), {NOW_MS} FROM unnest(%s::BIGINT[]) AS k"
_UNLOCK = "SELECT pg_advisory_unlock(k) FROM unnest(%s::BIGINT[]) AS k"
# An unfinished visit: next_allowed_at without next_allowed_set_at. The commit does not wait for
# the disk: if the server crashes, no request outlives it for long.
_START_VISITS = """
    WITH at_once AS (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO hosts (lane, next_allowed_at)
    SELECT o.lane, o.until FROM unnest(%b::TEXT[], %b::BIGINT[]) AS o (lane, until), at_once
    ON CONFLICT (lane) DO UPDATE
    SET next_allowed_at = excluded.next_allowed_at, next_allowed_set_at = NULL
"""
_Request = tuple[str, float, datetime | None]  # lane, delay, end of the same visit's own delay
_Release = tuple[str, Visit | None]
_IDLE_SECONDS = 120  # longer than any visit: a session that is idle for this long is abandoned
_MIN_SECONDS = 3.0  # delay after an unfinished visit, whose process may only be disconnected
_Result = TypeVar("_Result")


class HostLocks:
    """Locks and unlocks hosts, for many visits in one round trip.

    The server ends the session if this process sends nothing for `idle_seconds`.
    `keep_connection=False`: disconnect whenever no host is locked.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        keep_connection: bool = True,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._database = database
        self._keep_connection = keep_connection
        self._idle_ms = round(idle_seconds * 1000)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-hosts")
        self._session: PostgresSession | None = None
        self._held: Counter[int] = Counter()
        self._locking: Batcher[_Request, HostState | None] = Batcher(
            partial(self._in_thread, self._lock), on_abandoned=self._unlock_abandoned
        )
        self._unlocking: Batcher[_Release, None] = Batcher(partial(self._in_thread, self._unlock))
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def backend(self) -> int | None:
        """The process id of the server's backend for this session."""
        return None if self._session is None else self._session.connection.info.backend_pid

    def check(self, lanes: Collection[str]) -> None:
        """Raise LeaseLost if the lock of one of these lanes is lost."""
        if any(self._held[_key(lane)] <= 0 for lane in lanes):
            raise LeaseLost("another process has taken the host over")

    async def lock(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Lock a host and return its stored state; None: another process has locked it.

        If the host may be visited soon, an unfinished visit is stored. A process that finds one
        later knows that its visitor died, and keeps the delay from then on.
        """
        return await self._locking((lane, delay_seconds, own_until))

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        """Store the visit, then let other processes lock the host."""
        await self._unlocking((lane, visit))

    async def confirm(self) -> None:
        """Show the server that this process is alive; renew the locks after a lost connection."""
        await self._in_thread(self._confirm)

    async def close(self) -> None:
        """Release all locks."""
        await asyncio.to_thread(self._thread.shutdown)
        self._disconnect()

    async def _in_thread(self, work: Callable[..., _Result], *args: object) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _unlock_abandoned(self, request: _Request, state: HostState | None) -> None:
        """Unlock a host whose caller was cancelled; its unfinished visit stays stored."""
        if state is not None:
            task = asyncio.create_task(self.unlock(request[0], None))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _lock(self, requests: Sequence[_Request]) -> list[HostState | None]:
        keys = [_key(lane) for lane, *_ in requests]  # one lock per request, also for equal lanes
        try:
            session = self._connected()
            rows = session.connection.execute(_LOCK, [keys]).fetchall()
            locked = {key for key, is_locked, _ in rows if is_locked}
            ours = [one for one, key in zip(requests, keys, strict=True) if key in locked]
            # read under the lock: the last visitor stored its visit before it unlocked the host
            states = of_lanes(session, [lane for lane, *_ in ours])
            _start_visits(session, ours, states, from_ms(rows[0][2]))
            # last: a caller that gets an error unlocks nothing
            self._held.update(key for key in keys if key in locked)
        except Exception as error:
            self._disconnect()
            raise self._database.translate(error) from error
        return [
            states.get(lane, HostState(lane)) if key in locked else None
            for (lane, *_), key in zip(requests, keys, strict=True)
        ]

    def _unlock(self, releases: Sequence[_Release]) -> list[None]:
        try:
            try:
                session = self._connected()  # first: a new session may have lost some locks
            finally:
                ours = [self._release(_key(lane)) for lane, _ in releases]
            visits = [
                # if the lock was lost, another process may have visited the host since
                visit if is_ours else replace(visit, is_last=False)
                for (_, visit), is_ours in zip(releases, ours, strict=True)
                if visit is not None
            ]
            keep_visits(session, visits)
            keys = [_key(lane) for (lane, _), held in zip(releases, ours, strict=True) if held]
            session.connection.execute(_UNLOCK, [keys])
            if not self._keep_connection and not self._held:
                self._disconnect()
        except Exception as error:
            self._disconnect()  # which unlocks them as well
            if self._database.translate(error) is error:
                raise
        return [None] * len(releases)

    def _release(self, key: int) -> bool:
        """Count one lock less; False: the lock is lost already."""
        count = self._held[key]
        if count > 1:
            self._held[key] = count - 1
        elif count == 1:
            del self._held[key]  # an empty counter means that no host is locked
        return count > 0

    def _confirm(self) -> None:
        if self._session is None and not self._held:
            return
        try:
            try:
                self._connected().execute("SELECT 1")
            except Exception:  # noqa: BLE001 - the connection was lost: one attempt on a new one
                self._disconnect()
                if self._held:
                    self._connected()
        except Exception as error:
            self._disconnect()
            raise self._database.translate(error) from error

    def _connected(self) -> PostgresSession:
        """The session; a new one locks the hosts of visits under way again."""
        if self._session is None:
            self._session = self._database.connect(application_name=HOST_LOCKS_APPLICATION)
            if self._session.connection.info.server_version >= 140_000:
                self._session.execute(f"SET idle_session_timeout = {self._idle_ms}")
            held = list(self._held.elements())
            if held:
                rows = self._session.connection.execute(_LOCK, [held]).fetchall()
                for key, is_locked, _ in rows:
                    if not is_locked:  # another process was faster: `check` stops our visit
                        self._release(key)
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _start_visits(
    session: PostgresSession,
    requests: Sequence[_Request],
    states: dict[str, HostState],
    now: datetime,
) -> None:
    """Store unfinished visits; where one is found, its delay counts from now."""
    lost, until = list[Visit](), dict[str, int]()
    for lane, seconds, own_until in requests:
        state, free_at = states.get(lane, HostState(lane)), now + timedelta(seconds=seconds)
        if state.next_allowed_at is not None and state.next_allowed_set_at is None:
            earliest = now + timedelta(seconds=_MIN_SECONDS)
            free_at = max(free_at, state.next_allowed_at, earliest)
            lost.append(Visit(lane, now, free_at))
            states[lane] = replace(state, next_allowed_at=free_at, next_allowed_set_at=now)
            continue
        wait = visit_wait_seconds(state, now, own_until=own_until)
        if seconds > 0 and wait <= SOON_SECONDS:
            until[lane] = to_ms(free_at + timedelta(seconds=wait))
    if lost:
        keep_visits(session, lost)
    if until:
        lanes = sorted(until)  # the same order in all processes: no deadlock
        session.connection.execute(_START_VISITS, [lanes, [until[lane] for lane in lanes]])


def _key(lane: str) -> int:
    digest = hashlib.md5(lane.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], signed=True)
