"""Errors as RFC 9457 problem documents."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from headwater.api.allow import allowed_methods
from headwater.api.answer_headers import HEADERS
from headwater.api.input_words import words_for
from headwater.errors import (
    FetchError,
    Forbidden,
    HeadwaterError,
    NotFound,
    Stopping,
    StoreError,
    TooMany,
    TooMuch,
    UsageError,
)
from headwater.logs import get_logger
from headwater.rules.failure import one_line

log = get_logger()
MEDIA_TYPE = "application/problem+json"
_ERRORS_SHOWN = 100  # whoever sends more wrong fields than that has one mistake to mend
_NAMES_SHOWN = 10
_LONGEST_NAME = 100  # of a field, which may be anything at all
_RETRY_SECONDS = "10"  # by then something that is under way may have ended
_STATUSES: tuple[tuple[type[HeadwaterError], int], ...] = (
    (NotFound, 404),
    (Forbidden, 403),
    (TooMuch, 413),
    (TooMany, 429),
    (UsageError, 422),
    (StoreError, 503),
    (Stopping, 503),
    (FetchError, 502),
)


def problem(
    status: int,
    detail: str,
    *,
    errors: list[dict[str, str]] | None = None,
    headers: dict[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """A problem document; `members` are what this kind of problem has to say besides."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": errors or [],
        **members,
    }
    return JSONResponse(document, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def install(api: FastAPI) -> None:
    """Answer every error of a route with a problem document."""
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(RequestValidationError, _validation)
    api.add_exception_handler(HeadwaterError, _ours)
    api.add_exception_handler(Exception, _unexpected)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HeadwaterError):  # ours, raised while the body was read
        return await _ours(request, error.__cause__)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # the framework's word for a broken body
        message = "the body cannot be read"
        return problem(422, message, errors=[{"field": "body", "message": message}])
    headers, detail = dict(error.headers or {}), str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = _nothing_at(request.url.path)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # the framework names the methods of the first route that fits, and there may be more
        methods = allowed_methods(request.app.openapi(), request.url.path)
        headers |= {"Allow": ", ".join(methods)} if methods else {}
        detail = f"this path does not take {_shown(request.method)}; it takes {headers['Allow']}"
    return problem(error.status_code, detail, headers=headers)


def _nothing_at(path: str) -> str:
    slash = "no path ends with a slash; " if path.endswith("/") else ""
    return f"there is nothing at this path; {slash}/api/docs shows what there is"


async def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [
        {"field": _field(one), "message": words_for(one, request)} for one in found[:_ERRORS_SHOWN]
    ]
    named = ", ".join(one["field"] for one in errors[:_NAMES_SHOWN])
    more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
    why = f": {errors[0]['message']}" if len(found) == 1 else ""
    return problem(422, f"wrong input: {named}{more}{why}", errors=errors)


def _field(error: Mapping[str, Any]) -> str:
    """The name of what is wrong; of a body as a whole it is `body`."""
    part, *path = error["loc"]
    if error["type"] == "json_invalid":  # the path is a number of characters
        path = []
    return _shown(".".join(map(str, path)) or part)


def _shown(name: str) -> str:
    """A name as it can be shown, whatever somebody made up."""
    cut = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return "".join(c if c.isprintable() else "�" for c in cut)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    message = one_line(error)
    if isinstance(error, StoreError) and error.__cause__ is not None:
        log.warning("[API] the database refused something", error=message)
        message = "the database cannot be used for this now; the log says why"  # and where it is
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    field = error.field if isinstance(error, UsageError) else None
    errors = [{"field": _shown(field), "message": message}] if field else []
    headers = {"Retry-After": _RETRY_SECONDS} if status == HTTPStatus.TOO_MANY_REQUESTS else None
    return problem(status, message, errors=errors, headers=headers)


async def _unexpected(_: Request, __: Exception) -> JSONResponse:
    # the framework raises it again behind this answer, and the server logs it; it answers from
    # outside of all middleware, which would have added the headers
    return problem(500, "something broke on our side; the log says what", headers=HEADERS)
