"""Polls make way while somebody waits for an answer (H3)."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.store import Database

# who asked once asks again: a request must not meet the long turn that began just before it
_LINGERS_SECONDS = 1.0
_ENDLESS = "/api/events"  # whoever follows events waits for nothing in particular


class Courtesy:
    """Counts the requests that are or just were answered; polls then take smaller steps."""

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self._app = app
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and let polls know of it as long as it takes and a moment longer."""
        if scope["type"] != "http" or scope["path"] == _ENDLESS:
            await self._app(scope, receive, send)
            return
        self._database.people_waiting += 1
        try:
            await self._app(scope, receive, send)
        finally:
            asyncio.get_running_loop().call_later(_LINGERS_SECONDS, self._gone)

    def _gone(self) -> None:
        self._database.people_waiting -= 1
