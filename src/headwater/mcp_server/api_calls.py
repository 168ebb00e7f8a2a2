"""Calls of the REST API by tools, within this process."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message, Scope

from headwater.api.middleware.authentication import Caller
from headwater.errors import CallFailed

Query = Mapping[str, object]


class Api(Protocol):
    """What tools need of the API."""

    async def call(self, method: str, path: str, query: Query, body: Any = None) -> Any:
        """The JSON of a response; CallFailed if the API refuses the request."""


@dataclass(frozen=True, slots=True)
class InProcessApi:
    """Calls the application directly, on behalf of a caller that is known already.

    All checks apply but those of the network: the rights of the caller, limits, the audit log.
    """

    app: ASGIApp
    caller: Caller
    caller_name: str  # for the audit log
    client: tuple[str, int] = ("127.0.0.1", 0)
    request_id: str | None = None  # of the request that this call is a part of

    async def call(self, method: str, path: str, query: Query, body: Any = None) -> Any:
        """The JSON of a response; CallFailed if the API refuses the request."""
        response = _Response(b"" if body is None else json.dumps(body).encode())
        await self.app(self._scope(method, path, query), response.receive, response.send)
        document = json.loads(response.body)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise call_failed(document)
        return document

    def _scope(self, method: str, path: str, query: Query) -> Scope:
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        if self.request_id is not None:
            headers.append((b"x-request-id", self.request_id.encode("ascii")))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode(query).encode(),
            "root_path": "",
            "headers": headers,
            "client": self.client,
            "server": ("127.0.0.1", 80),
            "extensions": {},
            "caller": self.caller,
            "caller_name": self.caller_name,
        }


class _Response:
    """One request body, and the response to it while it is received."""

    def __init__(self, request_body: bytes) -> None:
        self._request_body: bytes | None = request_body
        self.status = 0
        self.body = bytearray()

    async def receive(self) -> Message:
        """The body of the request; then nothing: the client does not disconnect."""
        if self._request_body is None:
            await asyncio.Event().wait()
        body, self._request_body = self._request_body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Take a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


def call_failed(problem: Mapping[str, Any]) -> CallFailed:
    """The error for a problem document; those of visits quote what a site responded."""
    return CallFailed(str(problem["detail"]), is_external="failureKind" in problem)
