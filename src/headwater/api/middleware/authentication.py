"""Authentication: every path but the open ones requires a token or a session (U1, U2)."""

import base64
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urlencode

from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.middleware.failed_logins import FailedLogins
from headwater.api.problem_types import ProblemType
from headwater.api.problems import problem
from headwater.app import App
from headwater.errors import Forbidden, HeadwaterError, NotFound
from headwater.model import Token, TokenScope
from headwater.operations.tokens import name_of, token_in_session, token_with

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
METRICS_PATH = "/metrics"
MCP_PATH = "/mcp"
# health and documentation
OPEN_PATHS = frozenset(
    {
        "/api",
        "/api/health",
        "/api/ready",
        "/api/openapi.json",
        "/api/docs",
        "/api/docs/docs.css",
        "/api/docs/docs.js",
        "/api/docs/swagger-ui.css",
        "/api/docs/swagger-ui.js",
        *(kind.uri for kind in ProblemType),
        LOGIN_PATH,
    }
)
_OPEN_FOLDER = "/static/"  # styles and scripts
COOKIE = "headwater_session"
# feed readers can send a user name and a password only
FEEDS = ("/feed.atom", "/feed.json")
INCIDENT_FEED = "/api/incidents/feed.atom"
_SEARCH_FEED = re.compile(r"/api/users/[^/]+/podcasts/[^/]+/searches/[^/]+/feed\.(atom|json)")
FOR_PROGRAMS = ("/api/", METRICS_PATH, MCP_PATH)
_SAFE = ("GET", "HEAD")
_LOGIN_REQUIRED = "a valid access token is required: send `Authorization: Bearer TOKEN`; "
HOW_TO_LOG_IN = f"{_LOGIN_REQUIRED}`headwater tokens add NAME` creates one"
HOW_TO_READ_METRICS = (
    "`headwater tokens add prometheus --scope metrics`, or an administrator on the accounts page "
    "of the dashboard, creates a token for the metrics"
)
NO_PROOF = "a change from a browser must have an Origin header of this site"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    token: Token | None  # None: this machine, without tokens
    in_session: bool = False  # authenticated by a login cookie

    @property
    def user_id(self) -> str | None:
        """The user whose data the caller may see; None: the data of all users."""
        return None if self.token is None else self.token.user_id

    @property
    def scope(self) -> TokenScope:
        """What the caller is permitted to do."""
        return TokenScope.ADMIN if self.token is None else self.token.scope


class Authentication:
    """Identifies the caller; on loopback without any token, every caller is an administrator."""

    def __init__(
        self, app: ASGIApp, program: App, failed_logins: FailedLogins, *, on_loopback: bool
    ) -> None:
        self._app = app
        self._program = program
        self._on_loopback = on_loopback
        self._failed_logins = failed_logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its caller in the scope, or refuse it."""
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(_OPEN_FOLDER)
        if "caller" in scope:  # a call within this process, by a caller that was identified before
            refusal = _refusal_by_scope(scope["caller"], scope)
        else:
            refusal = None if is_open else await self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif is_open or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
        else:
            await self._respond_audited(scope, receive, send)

    async def _respond_audited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a change on, and complete its entry in the audit log before the response (U9)."""
        audit = self._program.store.audit
        async with audit.acting(scope["caller_name"]) as change:

            async def send_completed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    if message["status"] < HTTPStatus.BAD_REQUEST or change.entry_id is not None:
                        await audit.complete(change)
                    change.is_current = True  # what failed without any effect has no entry
                await send(message)

            await self._app(scope, receive, send_completed)

    async def _refusal(self, scope: Scope) -> Response | None:
        """The response that refuses a request; None: the scope has its caller."""
        secret = _secret(scope)
        feed_token = _feed_token(scope) if secret is None else None
        cookie = cookie_in(scope) if secret is None and feed_token is None else None
        try:
            if feed_token is not None:
                caller = await self._reader_of_feed(feed_token)
            else:
                caller = await self._caller(secret, cookie)
            if caller is not None and scope["method"] not in _SAFE:
                scope["caller_name"] = await name_of(self._program.store, caller.token)
        except NotFound:  # the user was deleted meanwhile, with the token
            caller = None
        except HeadwaterError:
            return problem(503, "the database is not available")
        if caller is None:
            address = scope["client"][0] if scope.get("client") else ""
            given = secret if feed_token is None else feed_token
            headers = None if given is None else await self._failed_logins.record(address)
            if headers is not None:
                return problem(429, "too many wrong tokens; try again later", headers=headers)
            return _unauthorized(scope)
        if cookie is not None and scope["method"] not in _SAFE and not proves_origin(scope):
            return problem(403, NO_PROOF)
        if (refusal := _refusal_by_scope(caller, scope)) is not None:
            return refusal
        if caller.token is not None and feed_token is None:
            self._program.store.token_uses.note(caller.token, self._program.clock.now())
        scope["caller"] = caller
        scope["caller_now"] = partial(self._caller, secret, cookie)
        return None

    async def _reader_of_feed(self, feed_token: str) -> Caller | None:
        """Who may read the feed of a saved search: the route checks that it is this one (B3)."""
        found = await self._program.store.saved_searches.with_token(feed_token)
        if found is None:
            return None
        search, user_id = found
        return Caller(Token(search.name, user_id, search.name, search.created_at, TokenScope.READ))

    async def _caller(self, secret: str | None, cookie: str | None) -> Caller | None:
        store, now = self._program.store, self._program.clock.now()
        if cookie is not None:
            logged_in = await token_in_session(store, cookie, now)
            if logged_in is not None:
                return Caller(logged_in, in_session=True)
        if secret is not None:
            token = await token_with(store, secret, now)
            # a wrong one is refused even where no token is required
            return None if token is None else Caller(token)
        if self._on_loopback and not await store.tokens.exist():
            return Caller(None)
        return None


def caller_of(request: Request) -> Caller:
    """The caller of an authenticated request."""
    caller: Caller = request.scope["caller"]
    return caller


async def is_still_let_in(request: Request) -> bool:
    """Whether the caller of a request is still authenticated: tokens end (U1)."""
    try:
        now: Caller | None = await request.scope["caller_now"]()
    except HeadwaterError:
        return True  # no token can be revoked meanwhile
    return now == caller_of(request)


def need_admin(request: Request) -> None:
    """Raise unless the caller is an administrator, or may read everything.

    `Authentication` has refused changes by tokens that permit reading only.
    """
    if caller_of(request).user_id is not None:
        raise Forbidden("this needs an administrator's token")


def cookie_in(scope: Scope) -> str | None:
    """The session cookie of a request."""
    return HTTPConnection({**scope, "type": "http"}).cookies.get(COOKIE)


def proves_origin(scope: Scope) -> bool:
    """Whether a browser sent an origin; `OriginGuard` has refused all but our own."""
    given = dict(scope["headers"])
    return given.get(b"origin", b"null") != b"null" or (
        given.get(b"sec-fetch-site") == b"same-origin"
    )


def _refusal_by_scope(caller: Caller, scope: Scope) -> Response | None:
    """The response to a request that a token does not permit; None: its scope permits it."""
    path, is_change = scope["path"], scope["method"] not in _SAFE
    if caller.scope is TokenScope.METRICS and path != METRICS_PATH:
        return problem(403, "this token permits reading /metrics only")
    # tools of /mcp that change something call the API, which refuses them
    if caller.scope is TokenScope.READ and is_change and path not in (LOGOUT_PATH, MCP_PATH):
        return problem(403, "this token permits reading only")
    return None


def _unauthorized(scope: Scope) -> Response:
    """The response to a missing, unknown, expired or revoked token: 401 or the login page."""
    path: str = scope["path"]
    if not path.startswith(FOR_PROGRAMS) and scope["method"] in (*_SAFE, "POST"):
        url = LOGIN_PATH
        if scope["method"] in _SAFE:  # a form is not sent again after the login
            query = scope["query_string"].decode("latin-1")
            url += "?" + urlencode({"next": quote(path) + (f"?{query}" if query else "")})
        return RedirectResponse(url, status_code=303)
    how = _LOGIN_REQUIRED + HOW_TO_READ_METRICS if path == METRICS_PATH else HOW_TO_LOG_IN
    refusal = problem(401, how, headers={"WWW-Authenticate": "Bearer"})
    if _is_feed(scope):  # elsewhere a browser would ask for a password
        refusal.headers.append("WWW-Authenticate", 'Basic realm="Headwater", charset="UTF-8"')
    return refusal


def _secret(scope: Scope) -> str | None:
    """The token of a request; None: there is none, empty: the scheme is not supported."""
    given = Headers(scope=scope).getlist("authorization")
    if not given:
        return _token_in_address(scope)
    scheme, _, credentials = given[0].strip().partition(" ")
    if len(given) == 1 and scheme.lower() == "bearer":
        return credentials.strip()
    if len(given) == 1 and scheme.lower() == "basic" and _is_feed(scope):
        return _password(credentials.strip())
    return ""


def _token_in_address(scope: Scope) -> str | None:
    """The token in the address of the feed of incidents, for readers that cannot send one."""
    if scope["path"] != INCIDENT_FEED or scope["method"] not in _SAFE:
        return None
    return HTTPConnection({**scope, "type": "http"}).query_params.get("token")


def _feed_token(scope: Scope) -> str | None:
    """The `token` parameter of a request for the feed of a saved search."""
    if scope["method"] not in _SAFE or _SEARCH_FEED.fullmatch(scope["path"]) is None:
        return None
    return HTTPConnection({**scope, "type": "http"}).query_params.get("token")


def _is_feed(scope: Scope) -> bool:
    """Whether a feed is requested: only there Basic authentication is accepted."""
    return scope["method"] in _SAFE and scope["path"].endswith(FEEDS)


def _password(credentials: str) -> str:
    """The password of Basic credentials; the user name is ignored."""
    try:
        text = base64.b64decode(credentials, validate=True).decode()
    except ValueError:  # not base64, or not UTF-8
        return ""
    return text.partition(":")[2]
