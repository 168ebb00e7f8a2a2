"""Errors as RFC 9457 problem documents."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from headwater.errors import HeadwaterError, NotFound, StoreError, UsageError
from headwater.rules.failure import one_line

MEDIA_TYPE = "application/problem+json"


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
    if isinstance(error, NotFound):
        return problem(404, message)
    if isinstance(error, UsageError):
        errors = [{"field": error.field, "message": message}] if error.field else []
        return problem(422, message, errors=errors)
    return problem(503 if isinstance(error, StoreError) else 502, message)


async def _unexpected(_: Request, __: Exception) -> JSONResponse:
    # the framework raises it again behind this answer, and the server logs it
    return problem(500, "something broke on our side; the log says what")
