"""MCP over HTTP: the path /mcp of a running service, behind its access checks (V5, U2)."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headwater.api.middleware.authentication import MCP_PATH
from headwater.errors import NotFound

HOW_TO_INSTALL = "the Model Context Protocol needs a package: pip install 'headwater[mcp]'"
Respond = Callable[[Scope, Receive, Send], Awaitable[None]]


def add_mcp(api: FastAPI) -> None:
    """Serve MCP with the API."""
    api.router.routes.append(Route(MCP_PATH, endpoint=_Endpoint(), methods=["POST"]))


class _Endpoint:
    """Loads the MCP package at the first request: it takes a second, and few services need it."""

    def __init__(self) -> None:
        self._respond: Respond | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one message."""
        if self._respond is None:
            try:
                module = await asyncio.to_thread(import_module, "headwater.mcp_server.transports")
            except ModuleNotFoundError as error:
                raise NotFound(HOW_TO_INSTALL) from error
            self._respond = module.http_responder()
        await self._respond(scope, receive, send)
