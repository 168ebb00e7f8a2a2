"""Limits the size and duration of request bodies while they are read (U8)."""

import asyncio
import re
from contextlib import suppress
from typing import NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.middleware.authentication import FOR_PROGRAMS
from headwater.api.problems import problem
from headwater.errors import TooMuch

_DRAIN_BYTES = 64 * 1024 * 1024
_DRAIN_SECONDS = 2.0
_IDLE_SECONDS = 30.0  # between two chunks of a body
_TOTAL_SECONDS = 600.0


_PODCAST = "/api/users/[^/]+/podcasts/[^/]+"
_KIB = 1024
# maximum number of bytes and of values of these operations; None: as configured, any number.
# Parsing JSON holds the GIL, and its duration depends on the number of values, not of bytes
_LARGE_BODIES: tuple[tuple[str, str, int | None, int | None], ...] = (
    ("POST", f"{_PODCAST}/sources/batch", 5 * _KIB * _KIB, 101_000),
    ("PATCH", f"{_PODCAST}/articles", 5 * _KIB * _KIB, 101_000),
    ("POST", f"{_PODCAST}/articles/(un)?processed", _KIB * _KIB, 11_000),
    ("POST", f"{_PODCAST}/opml", None, None),
    ("POST", "/podcasts/[^/]+/import", None, None),
)
_JSON_BYTES = 64 * _KIB
_FORM_BYTES = 128 * _KIB


class BodyLimit:
    """Responds 413 to a body that is too large, declared or not, and 408 to one too slow."""

    def __init__(self, app: ASGIApp, most: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._app = app
        self._most = most
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count the bytes of its body."""
        body = _Body(scope, receive, send, self._most, self._idle_seconds)
        declared = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not value.isdigit() or int(value) > body.most for value in declared):
            await body.refuse(413, body.too_large())
            return
        with suppress(_Refused):
            await self._app(scope, body.receive, body.send)
        if body.refusal is not None and not body.is_responding:
            await body.refuse(*body.refusal)


class _Refused(TooMuch):
    """Aborts the reading of a body."""


class _Body:
    """A request body while it is received."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, configured: int, idle_seconds: float
    ) -> None:
        self._receive = receive
        self._send = send
        most, self._most_values = _limits_for(scope)
        self._is_configured = most is None or most >= configured
        self.most = configured if most is None else min(most, configured)
        self._idle_seconds = idle_seconds
        self._deadline = asyncio.get_running_loop().time() + _TOTAL_SECONDS
        self._read = self._values = 0
        self._is_complete = False
        self.is_responding = False
        self.refusal: tuple[int, str] | None = None

    async def receive(self) -> Message:
        """The next chunk; raises if it exceeds a limit."""
        if self._is_complete:  # the next message is the disconnect, at any time
            return await self._receive()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(left, self._idle_seconds)):
                message = await self._receive()
        except TimeoutError:
            self._fail(408, "the body did not arrive in time")
        chunk = message.get("body", b"")
        self._is_complete = not message.get("more_body", False)
        self._read += len(chunk)
        if self._read > self.most:
            self._fail(413, self.too_large())
        self._values += sum(chunk.count(mark) for mark in (b",", b"[", b"{"))
        if self._most_values is not None and self._values > self._most_values:
            self._fail(413, f"the body has more than {self._most_values:,} values")
        return message

    async def send(self, message: Message) -> None:
        """Send a response, but not the framework's response to a body that was aborted."""
        if self.is_responding or self.refusal is None:
            self.is_responding = True
            await self._send(message)

    async def refuse(self, status: int, detail: str) -> None:
        """Respond at once, then drain: a client that is still sending reads no response."""
        response = problem(status, detail, headers={"Connection": "close"})
        headers = response.raw_headers
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": response.body, "more_body": True})
        left, more = _DRAIN_BYTES, True
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while more and left > 0:
                    message = await self._receive()
                    more = message.get("more_body", False)
                    left -= len(message.get("body", b""))
        await self._send({"type": "http.response.body", "body": b""})

    def too_large(self) -> str:
        """The detail for a body with too many bytes."""
        setting = " (app.limits.max-request-bytes)" if self._is_configured else ""
        return f"the body is larger than {self.most:,} bytes{setting}"

    def _fail(self, status: int, detail: str) -> NoReturn:
        self.refusal = status, detail
        raise _Refused(detail)


def _limits_for(scope: Scope) -> tuple[int | None, int | None]:
    """The maximum number of bytes and of values; None: as configured, any number."""
    path = scope["path"]
    for method, pattern, most, values in _LARGE_BODIES:
        if scope["method"] == method and re.fullmatch(pattern, path):
            return most, values
    return _JSON_BYTES if path.startswith(FOR_PROGRAMS) else _FORM_BYTES, None
