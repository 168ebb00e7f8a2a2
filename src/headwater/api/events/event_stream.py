"""EventStream: a response that sends events as they happen; slow clients are dropped (U8)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headwater.api.events.event_log import EventLog, LoggedEvent
from headwater.api.problems import problem
from headwater.engine.events import EventKind
from headwater.errors import HeadwaterError
from headwater.rules.admission import timestamp
from headwater.rules.url_secrets import masked

ABORT = "headwater.abort"  # the scope extension that aborts the connection
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_EVENTS_PER_CHUNK = 500  # more would block the event loop (H2)
_CHUNK_BYTES = 32_768
_CLOSE_SECONDS = 0.5
_RETRY_SECONDS = "15"
_RECONNECT_MS = 2000
# ASCII only: no text from a feed can break a line or the encoding
_json = json.JSONEncoder(separators=(",", ":"), default=timestamp).encode


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Times of a stream."""

    heartbeat_seconds: float = 15
    token_check_seconds: float = 2  # how often a stream checks that its token is valid (U1)
    send_seconds: float = 15  # a client that reads nothing for this long is disconnected
    gather_seconds: float = 0.02  # collect events, so that not every event wakes every stream


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a stream sends; None: any."""

    user_id: str | None = None  # events without an owner are for every user
    podcast_id: str | None = None
    source_id: str | None = None
    kinds: frozenset[EventKind] | None = None

    def matches(self, event: LoggedEvent) -> bool:
        """Whether the stream sends an event."""
        data = event.data
        return (
            (self.user_id is None or data.get("userId", self.user_id) == self.user_id)
            and (self.podcast_id is None or data.get("podcastId") == self.podcast_id)
            and (self.source_id is None or data.get("sourceId") == self.source_id)
            and (self.kinds is None or event.kind in self.kinds)
        )


class EventStream(Response):
    """Sends the events after an id, then new ones, until either side closes the connection."""

    media_type = "text/event-stream"

    def __init__(
        self,
        log: EventLog,
        wanted: EventFilter,
        last_id: str | None,
        is_authorized: Callable[[], Awaitable[bool]],
        limits: StreamLimits,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._log = log
        self._wanted = wanted
        self._last_id = last_id
        self._is_authorized = is_authorized
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, or respond 429 if the user has too many."""
        streams, owner = self._log.open_streams, self._wanted.user_id
        most = self._log.most_streams_per_user
        if streams[owner] >= most:
            setting = "app.limits.max-event-streams-per-user"
            detail = f"{most} event streams are open already ({setting}); close one of them"
            refusal = problem(429, detail, headers={"Retry-After": _RETRY_SECONDS})
            await refusal(scope, receive, send)
            return
        streams[owner] += 1
        try:
            await self._run(scope, receive, send)
        finally:
            streams[owner] -= 1
            if not streams[owner]:
                del streams[owner]

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client disconnects, loses access, is too slow, or the service stops."""
        sending = asyncio.create_task(self._follow(send))
        disconnect = asyncio.create_task(_client_disconnected(receive))
        closing = asyncio.create_task(self._log.closed.wait())
        tasks = (sending, disconnect, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(sending, closing)
            if not disconnect.done():
                await _close(send, scope.get("extensions", {}).get(ABORT), disconnect)
        finally:
            await _cancelled(*tasks)
        if not sending.cancelled():
            sending.result()

    async def _follow(self, send: Send) -> None:
        log, clock, limits = self._log, self._log.clock, self._limits
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        position, missed = log.resume_after(self._last_id)
        event_id = log.id_of(position)
        first = f": headwater\nretry: {_RECONNECT_MS}\nid: {event_id}\n\n".encode()
        if missed:
            first += _text(event_id, "reset", {"at": clock.now(), "reason": missed})
        with suppress(TimeoutError):  # the client reads nothing: disconnect it
            await self._put(send, first)
            checked_at = heartbeat_at = clock.monotonic()
            while log.has_all_after(position):  # else events were dropped: it must reconnect
                if clock.monotonic() >= checked_at + limits.token_check_seconds:
                    if not await self._is_authorized():
                        return
                    checked_at = clock.monotonic()
                chunk, position = self._next_chunk(position)
                if clock.monotonic() >= heartbeat_at + limits.heartbeat_seconds:
                    # its id lets a client without recent events resume
                    chunk += f": still here\nid: {log.id_of(position)}\n\n".encode()
                    heartbeat_at = clock.monotonic()
                if chunk:
                    await self._put(send, chunk)
                timeout = checked_at + limits.token_check_seconds - clock.monotonic()
                await self._wait_for_event(position, timeout)

    async def _put(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(self._limits.send_seconds):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _next_chunk(self, position: int) -> tuple[bytes, int]:
        """The next chunk to send, and the number of its last event."""
        chunk = b""
        for event in self._log.after(position, _EVENTS_PER_CHUNK):
            position, data = event.number, event.data
            if not self._wanted.matches(event):
                continue
            if "url" in data and data["userId"] != self._wanted.user_id:
                data = data | {"url": masked(data["url"])}  # only its owner sees credentials
            chunk += _text(self._log.id_of(position), event.kind, data)
            if len(chunk) >= _CHUNK_BYTES:
                break
        return chunk, position

    async def _wait_for_event(self, position: int, seconds: float) -> None:
        log = self._log
        if position < log.newest:
            await asyncio.sleep(0)  # let other tasks run between two chunks
            return
        log.new_event.clear()  # the next event wakes all waiting streams
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await log.new_event.wait()
                await log.clock.sleep(self._limits.gather_seconds)


def _text(event_id: str, kind: str, data: dict[str, Any]) -> bytes:
    return f"id: {event_id}\nevent: {kind}\ndata: {_json(data)}\n\n".encode("ascii")


async def _client_disconnected(receive: Receive) -> None:
    with suppress(HeadwaterError):  # the client sends an endless body
        while (await receive())["type"] != "http.disconnect":
            pass


async def _cancelled(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _close(
    send: Send, abort: Callable[[], None] | None, disconnect: "asyncio.Task[None]"
) -> None:
    """End the response; abort the connection of a client that does not read it."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        if abort is not None:
            abort()
            await disconnect
