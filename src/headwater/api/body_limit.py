"""Refuses request bodies beyond a limit before they are read whole (U8)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.problems import problem
from headwater.errors import TooMuch


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
            await problem(413, self._told())(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise TooMuch(self._told())
            return message

        await self._app(scope, counted, send)

    def _told(self) -> str:
        return f"the body is larger than {self._most:,} bytes (app.limits.max-request-bytes)"
