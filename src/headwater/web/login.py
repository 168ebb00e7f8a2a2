"""Logging in with a token, and out again (U1, U3)."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.attempts import Attempts
from headwater.api.callers import COOKIE, LOGIN_PATH, NO_PROOF, cookie_in, proves_origin
from headwater.api.problems import problem
from headwater.api.server import is_loopback
from headwater.api.site_guard import host_part
from headwater.app import App
from headwater.operations.sessions import LASTS, log_in, log_out, token_in_session
from headwater.web.forms import fields_of, one
from headwater.web.rendering import Pages

LOGOUT_PATH = "/logout"


def login_routes(app: App, pages: Pages) -> APIRouter:
    """`/login` and `/logout`."""
    routes = APIRouter(include_in_schema=False)
    attempts = Attempts(app.clock)
    bound_to = app.settings.server.host

    @routes.get(LOGIN_PATH)
    async def ask(request: Request) -> Response:
        """Ask for a token, unless the browser is logged in."""
        cookie = cookie_in(request.scope)
        if cookie is not None and await token_in_session(app.store, cookie, app.clock.now()):
            return RedirectResponse(_next(request), status_code=303)
        return await form(request)

    @routes.post(LOGIN_PATH)
    async def enter(request: Request) -> Response:
        """Let a browser in."""
        if not proves_origin(request.scope):
            return problem(403, NO_PROOF)  # no other site logs anybody in as somebody else
        secret = one(await fields_of(request), "token")
        address = request.client.host if request.client else ""
        login, before = None, cookie_in(request.scope)
        if attempts.seconds_to_wait(address, secret) <= 0:
            login = await log_in(app.store, secret, app.clock.now(), instead_of=before)
        if login is None:
            attempts.failed(address, secret)
            return await form(request, wrong=True)
        attempts.succeeded(secret)
        answer = RedirectResponse(_next(request), status_code=303)
        answer.set_cookie(
            COOKIE,
            login.cookie,
            max_age=int(LASTS.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=_is_secure(request, bound_to),
        )
        return answer

    @routes.post(LOGOUT_PATH)
    async def leave(request: Request) -> Response:
        """Let a browser go."""
        cookie = cookie_in(request.scope)
        if cookie is not None:
            await log_out(app.store, cookie)
        answer = RedirectResponse(f"{LOGIN_PATH}?left", status_code=303)
        secure = _is_secure(request, bound_to)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)
        return answer

    async def form(request: Request, *, wrong: bool = False) -> Response:
        headers = request.headers
        is_open = is_loopback(bound_to) and not await app.store.tokens.exist()
        return pages.show(
            request,
            "login.html",
            None,
            status=401 if wrong else 200,
            wrong=wrong,
            is_open=is_open,
            left="left" in request.query_params,
            action=f"{LOGIN_PATH}?{urlencode({'next': _next(request)})}",
            next_page=_next(request),
            # browsers keep the cookie to themselves where a link on another site leads here
            from_elsewhere=headers.get("sec-fetch-site") == "cross-site",
            needs_tls=_is_secure(request, bound_to)
            and headers.get("x-forwarded-proto", "http") != "https",
        )

    return routes


def _next(request: Request) -> str:
    """The page of ours to go on to; whatever else is asked for leads to the first page."""
    path = request.query_params.get("next", "/")
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours and not path.startswith((LOGIN_PATH, LOGOUT_PATH)) else "/"


def _is_secure(request: Request, bound_to: str) -> bool:
    """Whether the cookie is for encrypted connections only: wherever others may listen in (U3)."""
    return not (is_loopback(bound_to) and is_loopback(host_part(request.headers["host"])))
