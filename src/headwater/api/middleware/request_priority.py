"""Requests have priority over polls for the database (H3)."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.store import Database

# clients often send another request at once; it must not wait for a long write of a poll
_LINGER_SECONDS = 1.0
# monitoring and event streams do not need a fast response
_LOW_PRIORITY = frozenset({"/api/events", "/api/health", "/api/ready", "/metrics"})


def request_priority(app: ASGIApp, database: Database) -> ASGIApp:
    """Count requests in progress, or finished in the last second; polls then write less at once.

    It runs after authentication: refused requests and open paths do not slow polls down.
    """

    def uncount() -> None:
        database.interactive_requests -= 1

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _LOW_PRIORITY:
            await app(scope, receive, send)
            return
        database.interactive_requests += 1
        try:
            await app(scope, receive, send)
        finally:
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, uncount)

    return respond
