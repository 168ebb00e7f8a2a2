"""EventStream: an answer that goes on as things happen; a slow client is dropped (U8)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headwater.api.event_log import EventLog, Kept
from headwater.api.event_text import heartbeat, opening, reset, texts_of
from headwater.api.problems import problem
from headwater.clock import Clock
from headwater.engine.events import EventKind
from headwater.errors import HeadwaterError

ABORT = "headwater.abort"  # where our server puts the way to cut a connection off
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LOOKED_AT_ONCE = 500  # more of the log would hold up the event loop (H2)
_SENT_AT_ONCE_BYTES = 32_768
_GOODBYE_SECONDS = 0.5
_RETRY_SECONDS = "15"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events a stream tells; None: no matter which."""

    user_id: str | None = None  # whose; what is nobody's is for all
    podcast_id: str | None = None
    source_id: str | None = None
    kinds: frozenset[EventKind] | None = None

    def has(self, kept: Kept) -> bool:
        """Whether an event is among them."""
        return (
            (self.user_id is None or kept.user_id is None or kept.user_id == self.user_id)
            and (self.podcast_id is None or kept.podcast_id == self.podcast_id)
            and (self.source_id is None or kept.source_id == self.source_id)
            and (self.kinds is None or kept.kind in self.kinds)
        )


class Streams:
    """The open streams over one log, counted by whose they are."""

    def __init__(self, log: EventLog, clock: Clock, *, most_per_user: int) -> None:
        self.log = log
        self.clock = clock
        self.most_per_user = most_per_user
        self.open: Counter[str | None] = Counter()  # None: administrators together

    def close(self) -> None:
        """End them all."""
        self.log.close()


class EventStream(Response):
    """Tells what happened since an id, then what happens, until one of both sides ends it."""

    media_type = "text/event-stream"

    def __init__(
        self,
        streams: Streams,
        wanted: Wanted,
        last_id: str | None,
        may_stay: Callable[[], Awaitable[bool]],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._streams = streams
        self._log = streams.log
        self._clock = streams.clock
        self._wanted = wanted
        self._last_id = last_id
        self._may_stay = may_stay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the stream, or say that its owner has too many."""
        streams, owner = self._streams, self._wanted.user_id
        if streams.open[owner] >= streams.most_per_user:
            detail = (
                f"{streams.most_per_user} event streams are open already "
                "(app.limits.max-event-streams-per-user); close one of them"
            )
            refusal = problem(429, detail, headers={"Retry-After": _RETRY_SECONDS})
            await refusal(scope, receive, send)
            return
        streams.open[owner] += 1
        try:
            await self._run(scope, receive, send)
        finally:
            streams.open[owner] -= 1
            if not streams.open[owner]:
                del streams.open[owner]

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone, may not stay, is too slow, or the service stops."""
        sending = asyncio.create_task(self._follow(send))
        leaving = asyncio.create_task(_client_left(receive))
        closing = asyncio.create_task(self._log.closed.wait())
        tasks = (sending, leaving, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(sending, closing)
            if not leaving.done():
                await _say_goodbye(send, scope.get("extensions", {}).get(ABORT), leaving)
        finally:
            await _cancelled(*tasks)
        if not sending.cancelled():
            sending.result()

    async def _follow(self, send: Send) -> None:
        log, clock, limits = self._log, self._clock, self._log.limits
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        place, missed = log.place_of(self._last_id)
        first = opening(log, place)
        with suppress(TimeoutError):  # it takes nothing: enough of it
            await self._put(
                send, first + (reset(log, place, missed, clock.now()) if missed else b"")
            )
            asked_at = beaten_at = clock.monotonic()
            while log.reaches(place):  # else it came too late for some events: it shall come anew
                if clock.monotonic() >= asked_at + limits.ask_seconds:
                    if not await self._may_stay():
                        return
                    asked_at = clock.monotonic()
                chunk, place = self._next_chunk(place)
                if clock.monotonic() >= beaten_at + limits.heartbeat_seconds:
                    chunk += heartbeat(log, place)
                    beaten_at = clock.monotonic()
                if chunk:
                    await self._put(send, chunk)
                await self._wait_for_news(place, asked_at + limits.ask_seconds - clock.monotonic())

    async def _put(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(self._log.limits.send_seconds):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _next_chunk(self, place: int) -> tuple[bytes, int]:
        """What is to be sent next, and up to which event it goes."""
        texts: list[bytes] = []
        size, owner = 0, self._wanted.user_id
        for kept in self._log.after(place, _LOOKED_AT_ONCE):
            if self._wanted.has(kept):
                whole = owner is not None and owner == kept.user_id
                for number, text in texts_of(kept, self._log, after=place, whole=whole):
                    texts.append(text)
                    size, place = size + len(text), number
                    if size >= _SENT_AT_ONCE_BYTES:
                        return b"".join(texts), place
            place = kept.last
        return b"".join(texts), place

    async def _wait_for_news(self, place: int, seconds: float) -> None:
        log = self._log
        if place < log.newest:
            await asyncio.sleep(0)  # others have their turn between two chunks
            return
        log.news.clear()  # all streams that wait are woken by the next event
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await log.news.wait()
                await self._clock.sleep(log.limits.gather_seconds)


async def _client_left(receive: Receive) -> None:
    with suppress(HeadwaterError):  # a body without end: such a client may go
        while (await receive())["type"] != "http.disconnect":
            pass


async def _cancelled(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _say_goodbye(
    send: Send, abort: Callable[[], None] | None, leaving: "asyncio.Task[None]"
) -> None:
    """End the answer; a client that does not even take that is cut off."""
    try:
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        if abort is not None:
            abort()
            await leaving
