"""`Idempotency-Key`: a repeated POST gets the response of the first one and changes nothing."""

import asyncio
import hashlib
import json
import re
import uuid
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.problem_types import ProblemType
from headwater.api.problems import problem, problem_for
from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.store import Store
from headwater.store.idempotency_keys import KeyedRequest, KeyRow, mark_written

log = get_logger()
HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY_LENGTH = 255
MAX_RESPONSE_BYTES = 65_536
_SERVER_ERROR = 500
_HEADER = HEADER.lower().encode()
_VALID_KEY = re.compile(rb"[\x21-\x7e]{1,%d}" % MAX_KEY_LENGTH)
_KEPT_HEADERS = ("content-type", "etag", "location")
# a field that has a secret, such as that of a new token: it is shown once and never stored (U1)
_SECRET_FIELD = re.compile(rb'(?i)"\w*(?:token|secret|password|apikey)"\s*:')


class Idempotency:
    """Runs a POST to the API at most once per key and caller within 24 hours."""

    def __init__(self, app: ASGIApp, store: Store, clock: Clock) -> None:
        self._app = app
        self._store = store
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request, or respond to a repeated one."""
        keys = [value for name, value in scope["headers"] if name == _HEADER]
        is_api = scope["method"] == "POST" and scope["path"].startswith("/api/")
        if not keys or not is_api or "caller" not in scope:
            await self._app(scope, receive, send)
            return
        if len(keys) != 1 or not _VALID_KEY.fullmatch(keys[0]):
            await _invalid_key()(scope, receive, send)
            return
        body = await _whole_body(receive)
        if body is None:  # the client has left
            return
        request = _keyed(scope, keys[0], body)
        try:
            earlier = await self._store.idempotency_keys.reserve(request, self._clock.now())
        except HeadwaterError as error:
            await problem_for(error, scope)(scope, receive, send)
            return
        if earlier is not None:
            await _repeated(earlier, request)(scope, receive, send)
            return
        await _Attempt(self._store, request).run(self._app, scope, _replayed(body, receive), send)


class _Attempt:
    """A request that has reserved its key, and the response to it."""

    def __init__(self, store: Store, request: KeyedRequest) -> None:
        self._store = store
        self._request = request
        self._task = asyncio.current_task()
        self._status = 500  # unless there is a response
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._is_finished = False

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request; every transaction of this task marks the key as well."""
        mark = partial(mark_written, request=self._request)
        self._store.database.added_to_writes[self._task] = mark
        try:
            await app(scope, receive, partial(self._send, send))
        finally:
            await self._finish(response=None, succeeded=False)

    async def _send(self, send: Send, message: Message) -> None:
        """Send a part of the response; its end follows when the response is stored."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = Headers(raw=message["headers"])
            self._headers = {name: given[name] for name in _KEPT_HEADERS if name in given}
        else:
            if len(self._body) <= MAX_RESPONSE_BYTES:
                self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(response=self._kept(), succeeded=self._status < 300)
        await send(message)

    def _kept(self) -> str | None:
        """The response as it is stored; None if it is temporary, too large or has a secret."""
        if self._status == HTTPStatus.TOO_MANY_REQUESTS or self._status >= _SERVER_ERROR:
            return None
        body = bytes(self._body)
        if len(body) > MAX_RESPONSE_BYTES or _SECRET_FIELD.search(body):
            return None
        return json.dumps([self._status, self._headers, body.decode()])

    async def _finish(self, *, response: str | None, succeeded: bool) -> None:
        self._store.database.added_to_writes.pop(self._task, None)
        if self._is_finished:
            return
        self._is_finished = True
        try:
            keys = self._store.idempotency_keys
            await keys.finish(self._request, response, succeeded=succeeded)
        except HeadwaterError as error:  # a repeated request then gets 409
            log.warning("[API] the response to a request with a key was not stored", error=error)


def _keyed(scope: Scope, key: bytes, body: bytes) -> KeyedRequest:
    user_id: str | None = scope["caller"].user_id
    owned = json.dumps([user_id, scope["path"], key.decode("ascii")]).encode()
    content = scope["query_string"] + b"\0" + body
    return KeyedRequest(
        id=hashlib.sha256(owned).hexdigest(),
        user_id=user_id,
        fingerprint=hashlib.sha256(content).hexdigest(),
        attempt=uuid.uuid4().hex,
    )


def _repeated(earlier: KeyRow, request: KeyedRequest) -> Response:
    """The response to a request whose key is in use."""
    if earlier.fingerprint != request.fingerprint:
        detail = f"another request was sent with this {HEADER}; use a new key for a new request"
        kind = ProblemType.IDEMPOTENCY_KEY_REUSED
        return problem(422, detail, kind=kind, errors=[{"field": HEADER, "message": detail}])
    if earlier.response is not None:
        status, headers, body = json.loads(earlier.response)
        return Response(body, status, headers=headers | {REPLAYED: "true"})
    if earlier.has_written:
        detail = "a request with this key took effect, but its response was not kept"
        return problem(409, detail, kind=ProblemType.RESPONSE_LOST)
    detail = f"a request with this {HEADER} is running; try again"
    kind = ProblemType.REQUEST_IN_PROGRESS
    return problem(409, detail, kind=kind, headers={"Retry-After": "1"})


def _invalid_key() -> Response:
    reason = f"{HEADER} must be one header of 1 to {MAX_KEY_LENGTH} visible ASCII characters"
    return problem(422, reason, errors=[{"field": HEADER, "message": reason}])


async def _whole_body(receive: Receive) -> bytes | None:
    """The body of a request; None if the client disconnected."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receives the body that was already read, then what follows it."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
