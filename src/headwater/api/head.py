"""HEAD on what programs read: the head of the answer that GET would get."""

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.allow import ENDLESS
from headwater.api.callers import FOR_PROGRAMS


class HeadAsGet:
    """Passes HEAD on as GET; the server knows what was asked and leaves the body out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            path = scope["path"]
            if path.startswith(FOR_PROGRAMS) and path != ENDLESS:
                scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
