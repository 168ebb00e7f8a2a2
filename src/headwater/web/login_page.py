"""Logging in with a token, and out again (U1, U3)."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.middleware.authentication import (
    COOKIE,
    LOGIN_PATH,
    LOGOUT_PATH,
    NO_PROOF,
    cookie_in,
    proves_origin,
)
from headwater.api.middleware.failed_logins import FailedLogins
from headwater.api.middleware.origin_guard import host_part
from headwater.api.problems import problem
from headwater.app import App
from headwater.operations.tokens import SESSION_LIFETIME, log_in, log_out, token_in_session
from headwater.rules.addresses import is_loopback
from headwater.web.forms import fields_of, one
from headwater.web.rendering import render


def login_routes(app: App) -> APIRouter:
    """Return the routes of `/login` and `/logout`."""
    routes = APIRouter(include_in_schema=False)
    bound_to = app.settings.server.host

    @routes.get(LOGIN_PATH)
    async def ask(request: Request) -> Response:
        """Show the login form, unless the browser is logged in."""
        cookie = cookie_in(request.scope)
        if cookie is not None and await token_in_session(app.store, cookie, app.clock.now()):
            return RedirectResponse(_next(request), status_code=303)
        return await _form(app, request)

    @routes.post(LOGIN_PATH)
    async def enter(request: Request) -> Response:
        """Log in: set a session cookie."""
        if not proves_origin(request.scope):
            return problem(403, NO_PROOF)  # another site must not log a user in
        secret = one(await fields_of(request), "token")
        before = cookie_in(request.scope)
        cookie = await log_in(app.store, secret, app.clock.now(), instead_of=before)
        if cookie is None:
            return await _wrong_token(app, request)
        response = RedirectResponse(_next(request), status_code=303)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_LIFETIME.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=_is_secure(request, bound_to),
        )
        return response

    @routes.post(LOGOUT_PATH)
    async def leave(request: Request) -> Response:
        """Log out: end the session."""
        cookie = cookie_in(request.scope)
        if cookie is not None:
            await log_out(app.store, cookie)
        response = RedirectResponse(f"{LOGIN_PATH}?left", status_code=303)
        secure = _is_secure(request, bound_to)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)
        return response

    return routes


async def _wrong_token(app: App, request: Request) -> Response:
    """Return the form with an error: 401, or 429 beyond the limit of wrong tokens."""
    failed_logins: FailedLogins = request.app.state.failed_logins
    headers = await failed_logins.record(request.client.host if request.client else "")
    response = await _form(app, request, status=401 if headers is None else 429)
    response.headers.update(headers or {})
    return response


async def _form(app: App, request: Request, *, status: int = 200) -> Response:
    """Return the login form, with an error unless the status is 200."""
    bound_to = app.settings.server.host
    headers = request.headers
    is_open = is_loopback(bound_to) and not await app.store.tokens.exist()
    return render(
        request,
        "login.html",
        None,
        status=status,
        wrong=status != 200,
        is_open=is_open,
        left="left" in request.query_params,
        action=f"{LOGIN_PATH}?{urlencode({'next': _next(request)})}",
        next_page=_next(request),
        # browsers do not send the cookie when a link on another site leads here
        from_elsewhere=headers.get("sec-fetch-site") == "cross-site",
        needs_tls=_is_secure(request, bound_to)
        and headers.get("x-forwarded-proto", "http") != "https",
    )


def _next(request: Request) -> str:
    """Return the page to go to after login; anything but a path of ours leads to `/`."""
    path = request.query_params.get("next", "/")
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours and not path.startswith((LOGIN_PATH, LOGOUT_PATH)) else "/"


def _is_secure(request: Request, bound_to: str) -> bool:
    """Return whether the cookie is for TLS only: always, except on loopback (U3)."""
    return not (is_loopback(bound_to) and is_loopback(host_part(request.headers["host"])))
