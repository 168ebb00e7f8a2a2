"""Errors as RFC 9457 problem documents, with messages in plain words."""

import difflib
import typing
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.routing import compile_path
from starlette.types import Scope

from headwater.api.middleware.security_headers import HEADERS
from headwater.api.problem_types import ProblemType, type_for
from headwater.errors import (
    AlreadyExists,
    DatabaseReplaced,
    DuplicateKey,
    DuplicateUrl,
    FetchError,
    Forbidden,
    HeadwaterError,
    NotFound,
    Outdated,
    QueryError,
    RequestRepeated,
    SearchTooSlow,
    SecretError,
    Stopping,
    StoreError,
    TooMany,
    TooMuch,
    UsageError,
    WouldDelete,
)
from headwater.logs import get_logger
from headwater.model import FailureType
from headwater.rules.failure_kinds import classify, one_line

log = get_logger()
MEDIA_TYPE = "application/problem+json"
EVENTS_PATH = "/api/events"  # takes no HEAD: its GET does not end
_MAX_ERRORS = 100
_MAX_NAMES = 10
_MAX_NAME_LENGTH = 100  # clients choose the names of unknown fields
_STATUSES: tuple[tuple[type[HeadwaterError], int], ...] = (
    (NotFound, 404),
    (Forbidden, 403),
    (AlreadyExists, 409),
    (WouldDelete, 409),
    (RequestRepeated, 409),
    (Outdated, 412),
    (TooMuch, 413),
    (TooMany, 429),
    (UsageError, 422),
    (DuplicateKey, 409),
    (StoreError, 503),
    (Stopping, 503),
    (FetchError, 502),
)


_MAX_SUGGESTIONS = 20  # known fields in a message
_SEND_JSON = "send JSON, with the header `Content-Type: application/json`"
_MESSAGES = {  # formatted with the context of the error
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge:,}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le:,}",
    "list_type": "must be a list",
    "missing": "is missing",
    "string_pattern_mismatch": "has characters that are not allowed",
    "string_too_long": "must have at most {max_length:,} {unit}",
    "string_too_short": "must have at least {min_length:,} {unit}",
    "string_type": "must be text",
    "string_unicode": "is not valid text",
    "too_long": "must have at most {max_length:,} {unit}",
    "too_short": "must have at least {min_length:,} {unit}",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(description="Its name; `a.0.b` for nested fields.")
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why a request failed (RFC 9457). Some problems have further members."""

    model_config = ConfigDict(alias_generator=to_camel)
    type: str = Field(
        description="The type of the problem: a path on this server with an explanation.",
        json_schema_extra={"enum": [one.uri for one in ProblemType]},
    )
    title: str = Field(description="The type as text.")
    status: int = Field(ge=400, le=599, description="The HTTP status.")
    detail: str = Field(description="What is wrong, in one sentence.")
    errors: list[FieldError] = Field(description="The wrong fields, if any.")
    failure_type: FailureType | None = Field(
        default=None,
        description="Of a failed visit: whether the failure is transient or permanent.",
    )
    failure_kind: str | None = Field(
        default=None,
        description="Of a failed visit: the kind of failure, such as `404` or `DNS`.",
    )
    duplicate_of: str | None = Field(
        default=None, description="Of a conflict: the id of the source that exists."
    )
    would_delete: dict[str, int] | None = Field(
        default=None,
        description="Of a change to be confirmed: the numbers of `articles` and `posts` that it "
        "would delete.",
    )
    position: int | None = Field(
        default=None,
        description="Of an invalid query: where it is wrong. 0 is its first character.",
    )


def problem(
    status: int,
    detail: str,
    *,
    kind: ProblemType | None = None,
    errors: list[dict[str, str]] | None = None,
    headers: dict[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """A problem document, with further members; without a kind, of the usual type of its status."""
    kind = kind or type_for(status)
    document: dict[str, Any] = {
        "type": kind.uri,
        "title": kind.text.title,
        "status": status,
        "detail": detail,
        "errors": errors or [],
        **members,
    }
    return JSONResponse(document, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def failed_fetch(error: FetchError | SecretError) -> JSONResponse:
    """A problem about the field `url`: the client can change it, the server did not fail."""
    failure = classify(error)
    return problem(
        422,
        failure.message,
        kind=ProblemType.FETCH_FAILED,
        errors=[{"field": "url", "message": failure.message}],
        failureType=failure.type.value,
        failureKind=failure.kind,
    )


def install(api: FastAPI) -> None:
    """Convert every error of a route to a problem document."""
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(RequestValidationError, _validation)
    api.add_exception_handler(HeadwaterError, _ours)
    api.add_exception_handler(Exception, _unexpected)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HeadwaterError):  # raised by us while the body was read
        return await _ours(request, error.__cause__)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # FastAPI cannot decode the body
        message = "the body cannot be read"
        return problem(422, message, errors=[{"field": "body", "message": message}])
    headers, detail = dict(error.headers or {}), str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        slash = "no path ends with a slash; " if request.url.path.endswith("/") else ""
        detail = f"there is nothing at this path; {slash}/api/docs shows what there is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # FastAPI lists the methods of the first matching route only
        methods = _allowed_methods(request.app.openapi(), request.url.path)
        headers |= {"Allow": ", ".join(methods)} if methods else {}
        detail = f"this path does not take {_shown(request.method)}; it takes {headers['Allow']}"
    return problem(error.status_code, detail, headers=headers)


def _allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods of a path in the OpenAPI document; literal paths come before patterns."""
    matching = [template for template in document["paths"] if compile_path(template)[0].match(path)]
    if not matching:
        return []
    nearest = min(matching, key=lambda template: template.count("{"))
    methods = {method.upper() for method in document["paths"][nearest]}
    return sorted(methods | ({"HEAD"} if "GET" in methods and path != EVENTS_PATH else set()))


async def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [
        {"field": _field(one), "message": _message_for(one, request)} for one in found[:_MAX_ERRORS]
    ]
    named = ", ".join(one["field"] for one in errors[:_MAX_NAMES])
    more = f" and {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
    why = f": {errors[0]['message']}" if len(found) == 1 else ""
    return problem(422, f"wrong input: {named}{more}{why}", errors=errors)


def _field(error: Mapping[str, Any]) -> str:
    """The path of the wrong field; `body` for the body itself."""
    part, *path = error["loc"]
    if error["type"] == "json_invalid":  # the path is a character position
        path = []
    return _shown(".".join(map(str, path)) or part)


def _shown(name: str) -> str:
    """A name from a client, shortened and without control characters."""
    cut = name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"
    return "".join(c if c.isprintable() else "�" for c in cut)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HeadwaterError)
    return problem_for(error, request.scope)


def problem_for(error: HeadwaterError, scope: Scope) -> JSONResponse:
    """The problem document of an error."""
    message = one_line(error)
    if isinstance(error, DuplicateKey):
        message = "this exists already: another request has just created it"
    elif isinstance(error, DatabaseReplaced) or (
        isinstance(error, StoreError) and error.__cause__ is not None
    ):
        log.warning("[API] the database failed", error=message, request_id=scope.get("request_id"))
        message = "the database is not available; the log has the reason"  # and its address
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    field = error.field if isinstance(error, UsageError) else None
    errors = [{"field": _shown(field), "message": message}] if field else []
    headers = {"Retry-After": str(error.retry_seconds)} if isinstance(error, TooMany) else None
    members: dict[str, Any] = {}
    if isinstance(error, DuplicateUrl):
        members["duplicateOf"] = error.source_id
    if isinstance(error, SearchTooSlow):
        members["kind"] = ProblemType.SEARCH_TOO_SLOW
    if isinstance(error, QueryError):
        members["position"] = error.position
    if isinstance(error, WouldDelete):
        members["wouldDelete"] = {"articles": error.articles, "posts": error.posts}
        members["kind"] = ProblemType.CONFIRMATION_NEEDED
    if isinstance(error, RequestRepeated):
        members["kind"] = ProblemType.REQUEST_IN_PROGRESS
    return problem(status, message, errors=errors, headers=headers, **members)


async def _unexpected(_: Request, __: Exception) -> JSONResponse:
    # Starlette raises it again after this response, and RequestTracking logs it; the response does
    # not pass through the middleware that adds the headers
    return problem(500, "internal error; the log has the details", headers=HEADERS)


def _message_for(error: Mapping[str, Any], request: Request) -> str:
    """The message for one error of pydantic."""
    kind, (part, *path) = error["type"], error["loc"]
    whole_body = part == "body" and not path
    context = error.get("ctx", {})
    if kind == "missing" and whole_body:
        return f"a body is required: {_SEND_JSON}"
    if kind in ("model_attributes_type", "model_type", "dict_type"):
        if whole_body and not _is_json(request):
            return f"the body has another media type: {_SEND_JSON}"
        return "must be a JSON object"
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _known_names(request, path[:-1]))
    if kind == "json_invalid":
        return f"the body is not JSON at character {path[0] + 1}: {context['error']}"
    if context.get("min_length") == 1:
        return "must not be empty"
    unit = "characters" if isinstance(error.get("input"), str) else "entries"
    return _MESSAGES[kind].format(**context, unit=unit) if kind in _MESSAGES else str(error["msg"])


def _is_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _unknown(name: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name[:_MAX_NAME_LENGTH], known, n=1)
    if nearest:
        return f"there is no such field; did you mean `{nearest[0]}`?"
    if known and len(known) <= _MAX_SUGGESTIONS:
        return f"there is no such field; there are: {', '.join(known)}"
    return "there is no such field"


def _known_names(request: Request, path: Sequence[Any]) -> list[str]:
    """The fields of the model at a path in the body."""
    body = request.scope["route"].dependant.body_params
    model = _model_in(body[0].field_info.annotation) if body else None
    for name in path:
        fields = {} if model is None else model.model_fields
        annotations = [field.annotation for field in fields.values() if field.alias == name]
        model = _model_in(annotations[0]) if annotations else None
    return [] if model is None else [field.alias or "" for field in model.model_fields.values()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation or in its union members."""
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
