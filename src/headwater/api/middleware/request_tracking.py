"""Gives every request an id, counts it by route, and writes the access log."""

import re
import sys
import uuid
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.clock import Clock
from headwater.logs import Output, get_logger
from headwater.logs.formatting import json_line
from headwater.logs.masking import without_secrets
from headwater.operations.http_metrics import OTHER, HttpMetrics

log = get_logger()
HEADER = "X-Request-Id"
_HEADER = HEADER.lower().encode()
_VALID_ID = re.compile(rb"[\x21-\x7e]{1,128}")  # others are replaced
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_MAX_PATH = 4000  # characters in the access log


class RequestTracking:
    """The outermost middleware: every response passes it, error responses included."""

    def __init__(
        self, app: ASGIApp, metrics: HttpMetrics, clock: Clock, access_log: Literal["off", "json"]
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock
        self._access_log = None if access_log == "off" else Output(sys.stdout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; log an error that no handler caught, with the request's id."""
        request = _Request(scope, send, self._clock.monotonic())
        try:
            await self._app(scope, receive, request.send)
        except Exception:
            log.exception(
                "[API] a request failed", request_id=request.id, method=request.method,
                path=scope["path"],
            )  # fmt: skip
            if not request.is_complete:  # the server closes the connection
                raise
        finally:
            self._finish(scope, request)

    def _finish(self, scope: Scope, request: "_Request") -> None:
        route = getattr(scope.get("route"), "path", OTHER)
        seconds = self._clock.monotonic() - request.started_at
        method = request.method if request.method in _METHODS else OTHER
        status = "none" if request.status is None else str(request.status)
        self._metrics.add(method, route, status, seconds)
        if self._access_log is not None:
            line = {
                "method": request.method[:_MAX_PATH],
                "route": route,
                "path": _path(scope),
                "status": request.status,
                "bytes": 0 if request.method == "HEAD" else request.size,
                "ms": round(seconds * 1000, 1),
                "client": scope["client"][0] if scope.get("client") else None,
                "who": _who(scope),
                "request_id": request.id,
            }
            self._access_log.write(json_line(self._clock.now(), "info", "[API] request", line))


class _Request:
    """A request in progress, and the response to it."""

    def __init__(self, scope: Scope, send: Send, started_at: float) -> None:
        self._send = send
        self.started_at = started_at
        self.method: str = scope["method"]  # HEAD is handled as GET
        self.id = scope["request_id"] = _request_id(scope)
        self.status: int | None = None  # None: there was no response
        self.size = 0
        self.is_complete = False

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the id in its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            header = (_HEADER, self.id.encode("ascii"))
            message["headers"] = [*message.get("headers", ()), header]
        else:
            self.size += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The id that the client or a proxy has chosen, if it is valid; else a new one."""
    given = [value for name, value in scope["headers"] if name == _HEADER]
    if len(given) == 1 and _VALID_ID.fullmatch(given[0]):
        return str(given[0], "ascii")
    return uuid.uuid4().hex


def _path(scope: Scope) -> str:
    """Path and query without secrets; a truncated secret might not be recognised as one (U6)."""
    query = scope["query_string"].decode("latin-1")
    path: str = scope["path"]
    return without_secrets(f"{path}?{query}" if query else path)[:_MAX_PATH]


def _who(scope: Scope) -> str | None:
    """The id of the user, or the scope of a token without one; None for unknown callers."""
    caller = scope.get("caller")
    return None if caller is None else caller.user_id or caller.scope.value
