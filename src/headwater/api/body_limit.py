"""Refuses request bodies beyond a limit before they are read whole (U8)."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.problems import problem
from headwater.errors import TooMuch

_FAREWELL_BYTES = 64 * 1024 * 1024
_FAREWELL_SECONDS = 2.0


class BodyLimit:
    """Answers 413 to a body that is, or turns out to be, too large."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, counting its bytes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not value.isdigit() or int(value) > self._most for value in declared):
            await self._refuse(receive, send)
            return
        read, answered = 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise TooMuch(self._told())
            return message

        async def guarded(message: Message) -> None:
            nonlocal answered
            # the framework calls a body that broke off a wrong one: the answer is ours
            if answered or read <= self._most:
                answered = True
                await send(message)

        with suppress(TooMuch):
            await self._app(scope, counted, guarded)
        if read > self._most and not answered:
            await self._refuse(receive, send)

    async def _refuse(self, receive: Receive, send: Send) -> None:
        """Answer at once, then listen a moment: who is cut off while sending reads no answer."""
        answer = problem(413, self._told(), headers={"Connection": "close"})
        headers = answer.raw_headers
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await _pass_over(receive)
        await send({"type": "http.response.body", "body": b""})

    def _told(self) -> str:
        return f"the body is larger than {self._most:,} bytes (app.limits.max-request-bytes)"


async def _pass_over(receive: Receive) -> None:
    left = _FAREWELL_BYTES
    while left > 0:
        message = await receive()
        if not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))
