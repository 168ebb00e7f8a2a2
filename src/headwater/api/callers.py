"""Who asks: nobody comes in without a token, but for what is open to all (U1, U2)."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.attempts import Attempts
from headwater.api.problems import problem
from headwater.app import App
from headwater.errors import Forbidden, HeadwaterError
from headwater.operations.tokens import token_with

# whether the program lives is no secret, and neither is how to ask it
OPEN_PATHS = frozenset({"/api/health", "/api/ready", "/api/openapi.json", "/api/docs"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may come in."""

    user_id: str | None  # None: an administrator, or the one person at this machine

    @property
    def is_admin(self) -> bool:
        """Whether everything may be seen and done."""
        return self.user_id is None


ADMIN = Caller(None)


class Access:
    """Finds out who asks; on loopback, while there are no tokens, it is the machine's owner."""

    def __init__(self, app: ASGIApp, program: App, *, on_loopback: bool) -> None:
        self._app = app
        self._program = program
        self._on_loopback = on_loopback
        self._attempts = Attempts(program.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its caller, or refuse it."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        wait = self._attempts.seconds_to_wait(address)
        if wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            refusal = problem(429, "too many wrong tokens; come back later", headers=headers)
            await refusal(scope, receive, send)
            return
        try:
            caller = await self._caller(scope)
        except HeadwaterError:
            await problem(503, "the database cannot be asked now")(scope, receive, send)
            return
        if caller is None:
            if _bearer(scope) is not None:
                self._attempts.failed(address)
            headers = {"WWW-Authenticate": "Bearer"}
            refusal = problem(401, "a valid access token is needed", headers=headers)
            await refusal(scope, receive, send)
            return
        scope["caller"] = caller
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller | None:
        store = self._program.store
        secret = _bearer(scope)
        if secret is not None:
            token = await token_with(store, secret)
            if token is not None:
                return Caller(token.user_id)
        if self._on_loopback and not await store.tokens.exist():
            return ADMIN
        return None


def caller_of(request: Request) -> Caller:
    """Who sent a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


def need_admin(request: Request) -> None:
    """Refuse whoever is no administrator."""
    if not caller_of(request).is_admin:
        raise Forbidden("this needs an administrator's token")


def _bearer(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, secret = given[0].partition(b" ")
    return secret.strip().decode("latin-1") if scheme.lower() == b"bearer" else None
