"""Errors as RFC 9457 problem documents."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from headwater.errors import (
    FetchError,
    Forbidden,
    HeadwaterError,
    NotFound,
    StoreError,
    TooMuch,
    UsageError,
)
from headwater.rules.failure import one_line

MEDIA_TYPE = "application/problem+json"
_STATUSES: tuple[tuple[type[HeadwaterError], int], ...] = (
    (NotFound, 404),
    (Forbidden, 403),
    (TooMuch, 413),
    (UsageError, 422),
    (StoreError, 503),
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


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return problem(error.status_code, str(error.detail), headers=headers)


async def _validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"field": ".".join(str(part) for part in one["loc"][1:]), "message": one["msg"]}
        for one in error.errors()
    ]
    named = ", ".join(one["field"] for one in errors if one["field"])
    return problem(422, f"wrong input: {named}" if named else "wrong input", errors=errors)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    message = one_line(error)
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    field = error.field if isinstance(error, UsageError) else None
    errors = [{"field": field, "message": message}] if field else []
    return problem(status, message, errors=errors)


async def _unexpected(_: Request, __: Exception) -> JSONResponse:
    # the framework raises it again behind this answer, and the server logs it
    return problem(500, "something broke on our side; the log says what")
