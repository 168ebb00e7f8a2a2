"""Refuses request bodies beyond a limit before they are read whole (U8)."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.problems import problem
from headwater.errors import TooMuch

_FAREWELL_BYTES = 64 * 1024 * 1024
_FAREWELL_SECONDS = 2.0
_SILENCE_SECONDS = 30.0  # between two pieces of a body
_LONGEST_SECONDS = 600.0  # for all of them


@dataclass(frozen=True, slots=True)
class Room:
    """How much the body of a request may be; None: as much as is configured."""

    size: int | None = None
    # Reading JSON holds up everything else, in a thread as well, and how long depends on how many
    # values there are: ten times as many bytes in a few long ones take less.
    values: int | None = None


_JSON = Room(64 * 1024)
_FORM = Room(128 * 1024)
_PODCAST = "/api/users/[^/]+/podcasts/[^/]+"
# what is sent by POST to these paths may be larger
_ROOMS = (
    (re.compile(f"{_PODCAST}/sources/batch"), Room(5 * 1024 * 1024, values=101_000)),
    (re.compile(f"{_PODCAST}/articles/processed"), Room(1024 * 1024, values=11_000)),
    (re.compile(f"{_PODCAST}/opml"), Room()),
    (re.compile("/podcasts/[^/]+/import"), Room()),
)


class BodyLimit:
    """Answers 413 to a body that is, or turns out to be, too large, and 408 to one too slow."""

    def __init__(
        self, app: ASGIApp, most: int, *, silence_seconds: float = _SILENCE_SECONDS
    ) -> None:
        self._app = app
        self._most = most
        self._silence_seconds = silence_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, counting its bytes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, send, _room_for(scope), self._most, self._silence_seconds)
        declared = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not value.isdigit() or int(value) > body.most for value in declared):
            await body.refuse(413, body.too_large())
            return
        with suppress(_Refused):
            await self._app(scope, body.receive, body.send)
        if body.refusal is not None and not body.is_answered:
            await body.refuse(*body.refusal)


class _Refused(TooMuch):
    """Ends the reading of a body, wherever that goes on."""


class _Body:
    """A body as it comes in."""

    def __init__(
        self, receive: Receive, send: Send, room: Room, configured: int, silence_seconds: float
    ) -> None:
        self._receive = receive
        self._send = send
        self._room = room
        self._is_configured = room.size is None or room.size >= configured
        self.most = configured if room.size is None else min(room.size, configured)
        self._silence_seconds = silence_seconds
        self._deadline = asyncio.get_running_loop().time() + _LONGEST_SECONDS
        self._read = self._values = 0
        self._is_whole = False
        self.is_answered = False
        self.refusal: tuple[int, str] | None = None

    async def receive(self) -> Message:
        """The next piece, if all is well with it."""
        if self._is_whole:  # what comes now tells that the caller is gone, and may take for ever
            return await self._receive()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(left, self._silence_seconds)):
                message = await self._receive()
        except TimeoutError:
            self._fail(408, "the body did not come in time")
        piece = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self._read += len(piece)
        if self._read > self.most:
            self._fail(413, self.too_large())
        if self._room.values is not None:
            self._values += sum(piece.count(mark) for mark in (b",", b"[", b"{"))
            if self._values > self._room.values:
                self._fail(413, f"the body has more than {self._room.values:,} values")
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on; the framework calls a body that broke off a wrong one, wrongly."""
        if self.is_answered or self.refusal is None:
            self.is_answered = True
            await self._send(message)

    async def refuse(self, status: int, detail: str) -> None:
        """Answer at once, then listen a moment: who is cut off while sending reads no answer."""
        answer = problem(status, detail, headers={"Connection": "close"})
        headers = answer.raw_headers
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await _pass_over(self._receive)
        await self._send({"type": "http.response.body", "body": b""})

    def too_large(self) -> str:
        """What is told of a body with too many bytes."""
        setting = " (app.limits.max-request-bytes)" if self._is_configured else ""
        return f"the body is larger than {self.most:,} bytes{setting}"

    def _fail(self, status: int, detail: str) -> NoReturn:
        self.refusal = status, detail
        raise _Refused(detail)


def _room_for(scope: Scope) -> Room:
    path = scope["path"]
    if scope["method"] == "POST":
        for pattern, room in _ROOMS:
            if pattern.fullmatch(path):
                return room
    return _JSON if path.startswith("/api/") else _FORM


async def _pass_over(receive: Receive) -> None:
    left = _FAREWELL_BYTES
    while left > 0:
        message = await receive()
        if not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))
