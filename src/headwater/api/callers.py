"""Who asks: nobody comes in without a token, but for what is open to all (U1, U2)."""

import base64
import binascii
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, urlencode

from fastapi.responses import RedirectResponse, Response
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.attempts import Attempts
from headwater.api.problems import problem
from headwater.app import App
from headwater.errors import Forbidden, HeadwaterError
from headwater.operations.sessions import token_in_session
from headwater.operations.tokens import token_with

LOGIN_PATH = "/login"
# whether the program lives is no secret, and neither is how to ask it
OPEN_PATHS = frozenset(
    {
        "/api",
        "/api/health",
        "/api/ready",
        "/api/openapi.json",
        "/api/docs",
        "/api/docs.css",
        LOGIN_PATH,
    }
)
_OPEN_FOLDER = "/static/"  # how pages look
COOKIE = "headwater_session"
# what readers fetch that can say who they are by a user name and a password alone
FEEDS = ("/feed.atom", "/feed.json")
FOR_PROGRAMS = ("/api/", "/metrics")
_SAFE = ("GET", "HEAD")
HOW_TO_COME_IN = (
    "a valid access token is needed: send `Authorization: Bearer TOKEN`; "
    "`headwater tokens add NAME` makes one"
)
NO_PROOF = "a browser's change needs proof that it comes from our own pages"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may come in."""

    user_id: str | None  # None: an administrator, or the one person at this machine
    in_session: bool = False  # a browser that logged in

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
        if scope["type"] != "http" or _is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        """Why a request is not let in; None: it is, and its scope says who sends it."""
        address = scope["client"][0] if scope.get("client") else ""
        secret = _secret(scope)
        wait = 0.0 if secret is None else self._attempts.seconds_to_wait(address, secret)
        if wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            return problem(429, "too many wrong tokens; come back later", headers=headers)
        cookie = cookie_in(scope) if secret is None else None
        try:
            caller = await self._caller(secret, cookie)
        except HeadwaterError:
            return problem(503, "the database cannot be asked now")
        if caller is None:
            if secret is not None:
                self._attempts.failed(address, secret)
            return _unauthorized(scope)
        if cookie is not None and scope["method"] not in _SAFE and not proves_origin(scope):
            return problem(403, NO_PROOF)
        scope["caller"] = caller
        scope["caller_now"] = partial(self._caller, secret, cookie)
        return None

    async def _caller(self, secret: str | None, cookie: str | None) -> Caller | None:
        store = self._program.store
        if cookie is not None:
            logged_in = await token_in_session(store, cookie, self._program.clock.now())
            if logged_in is not None:
                return Caller(logged_in.user_id, in_session=True)
        if secret is not None:
            token = await token_with(store, secret)
            if token is None:
                return None  # a wrong token is wrong where none is needed, too
            self._attempts.succeeded(secret)
            return Caller(token.user_id)
        if self._on_loopback and not await store.tokens.exist():
            return ADMIN
        return None


def caller_of(request: Request) -> Caller:
    """Who sent a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


async def is_still_let_in(request: Request) -> bool:
    """Whether whoever was let in would be again: tokens are revocable at once (U1)."""
    try:
        now: Caller | None = await request.scope["caller_now"]()
    except HeadwaterError:
        return True  # a database that is away takes no revocation either
    return now == caller_of(request)


def need_admin(request: Request) -> None:
    """Refuse whoever is no administrator."""
    if not caller_of(request).is_admin:
        raise Forbidden("this needs an administrator's token")


def cookie_in(scope: Scope) -> str | None:
    """The session that a browser says it has."""
    return HTTPConnection({**scope, "type": "http"}).cookies.get(COOKIE)


def proves_origin(scope: Scope) -> bool:
    """Whether a browser says where its request comes from: the guard before us let only ours in."""
    given = dict(scope["headers"])
    return given.get(b"origin", b"null") != b"null" or (
        given.get(b"sec-fetch-site") == b"same-origin"
    )


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(_OPEN_FOLDER)


def _unauthorized(scope: Scope) -> Response:
    """The one answer to a token that is missing, malformed, unknown or revoked.

    Somebody who opens a page, or uses one after their session has ended, is led to where they can
    log in instead.
    """
    path: str = scope["path"]
    if not path.startswith(FOR_PROGRAMS) and scope.get("method") in (*_SAFE, "POST"):
        return RedirectResponse(_login_before(scope), status_code=303)
    refusal = problem(401, HOW_TO_COME_IN, headers={"WWW-Authenticate": "Bearer"})
    if _is_feed(scope):  # elsewhere a browser would ask for a password nobody has
        refusal.headers.append("WWW-Authenticate", 'Basic realm="Headwater", charset="UTF-8"')
    return refusal


def _login_before(scope: Scope) -> str:
    """Where to log in, and to go on from there to the page that was asked for."""
    if scope.get("method") not in _SAFE:
        return LOGIN_PATH  # what was sent is lost, and nobody wants to see it sent again
    query = scope.get("query_string", b"").decode("latin-1")
    wanted = quote(scope["path"]) + (f"?{query}" if query else "")
    return f"{LOGIN_PATH}?{urlencode({'next': wanted})}"


def _secret(scope: Scope) -> str | None:
    """What a request says who it is with; None: it does not, empty: in no way we know."""
    given: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        return None
    scheme, _, credentials = given[0].strip().partition(b" ")
    match scheme.lower():
        case b"bearer" if len(given) == 1:
            return credentials.strip().decode("latin-1")
        case b"basic" if len(given) == 1 and _is_feed(scope):
            return _password(credentials.strip())
    return ""


def _is_feed(scope: Scope) -> bool:
    """Whether a reader fetches a feed: nothing else takes what a browser remembers for a site."""
    return scope.get("method") in _SAFE and scope["path"].endswith(FEEDS)


def _password(credentials: bytes) -> str:
    """The password of a user name and password; the name may be any."""
    try:
        text = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text.partition(":")[2]
