"""Polls make way while somebody waits for an answer (H3)."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.store import Database

# who asked once asks again: a request must not meet the long turn that began just before it
_LINGERS_SECONDS = 1.0
# whoever follows events waits for nothing in particular, and watchmen have the time
_PATIENT = frozenset({"/api/events", "/api/health", "/api/ready", "/metrics"})


class Courtesy:
    """Counts the requests that are or just were answered; polls then take smaller steps.

    It stands behind the doors: who is refused, or asks for what is open to all, slows nothing down.
    """

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self._app = app
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and let polls know of it as long as it takes and a moment longer."""
        if scope["type"] != "http" or scope["path"] in _PATIENT:
            await self._app(scope, receive, send)
            return
        self._database.people_waiting += 1
        try:
            await self._app(scope, receive, send)
        finally:
            asyncio.get_running_loop().call_later(_LINGERS_SECONDS, self._gone)

    def _gone(self) -> None:
        self._database.people_waiting -= 1
