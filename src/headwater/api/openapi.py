"""What the OpenAPI document has beyond routes and models: errors, access, links."""

import inspect
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Body, FastAPI
from fastapi.routing import APIRoute

from headwater.api.events.event_schemas import EventOut
from headwater.api.middleware.authentication import FEEDS, HOW_TO_LOG_IN, OPEN_PATHS
from headwater.api.middleware.idempotency import HEADER, MAX_KEY_LENGTH, REPLAYED
from headwater.api.problem_types import type_for
from headwater.api.problems import MEDIA_TYPE, Problem
from headwater.api.schemas.pagination import DEFAULT_LIMIT

Document = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]
_SCHEMAS = "#/components/schemas/"
# pydantic's names of generic models
_PAGE_NAME = re.compile(r'\b(Numbered)?ListPage[_[](\w+?)[_\]](?=")')
DESCRIPTION = """\
JSON with names in camelCase; timestamps are UTC, such as `2026-02-16T08:00:00.000Z`. Errors are
problem documents (RFC 9457).

Lists come in pages: `limit` is the maximum number of items; send `nextCursor` of a response as
`cursor` to get the next page; null means that there is none.

An unknown field in a request body is an error. Fields that only responses have are ignored, so
that the response of GET can be changed and sent back with PUT.

Requests from the machine itself need no token until the first one is created.

A POST with an `Idempotency-Key` can be repeated for 24 hours: the repetition gets the response of
the first request, with the header `Idempotent-Replayed: true`, and changes nothing. Another body
with the same key is refused with 422.

Every response has an `X-Request-Id`, which the log contains too. A request may set it: up to 128
visible ASCII characters without spaces; otherwise a new one is created.
"""
TAGS = {
    "tokens": "Access to this API.",
    "audit": "What people have changed.",
    "users": "Owners of podcasts, and their API keys at other services.",
    "podcasts": "Groups of sources.",
    "sources": "What is watched: feeds, web pages, X timelines.",
    "posts": "What polls have stored, and the history of polls.",
    "articles": "Made of posts, for further processing.",
    "webhooks": "Endpoints that receive events.",
    "opml": "Lists of sources as OPML files.",
    "searches": "Saved searches, each with a feed.",
    "feeds": "The articles of a podcast for feed readers.",
    "hosts": "The hosts of sources, and their responses.",
    "events": "A stream of what the service does.",
    "incidents": "Problems that need attention, and where users get messages about them.",
    "scheduler": "When and where sources are polled.",
    "operations": "Health and metrics of the service.",
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An access token; `headwater tokens add` creates one.",
}
_BASIC = {
    "type": "http",
    "scheme": "basic",
    "description": "An access token as password, for feed readers; any user name.",
}
_REQUEST_ID = {
    "description": "The id of the request, also in the log.",
    "required": True,
    "schema": {"type": "string"},
}
_REQUEST_ID_REF = {"$ref": "#/components/headers/RequestId"}
_IDEMPOTENCY_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Makes the request safe to repeat for 24 hours; a new value for each request.",
    "schema": {
        "type": "string",
        "maxLength": MAX_KEY_LENGTH,
        "pattern": "^[!-~]+$",
        "examples": ["6f1c3a52-4a0e-4d7c-9b1e-2f8f5a3f0d11"],
    },
}
_REPLAYED = {
    "description": "`true` if this is the stored response to an earlier request.",
    "schema": {"type": "string", "enum": ["true"]},
}
# status: what it means, an example of `detail`
_ERRORS: dict[int, tuple[str, str]] = {
    401: ("A valid access token is required.", HOW_TO_LOG_IN),
    403: (
        "The request comes from another site, or the token does not permit it.",
        "this needs an administrator's token",
    ),
    404: ("It does not exist, or belongs to another user.", "there is no user 'ann'"),
    408: ("The body did not arrive in time.", "the body did not arrive in time"),
    409: (
        "It exists already, its name is in use, or the `Idempotency-Key` cannot be replayed.",
        "there is a user 'ann' already",
    ),
    412: (
        "The settings have changed since they were read.",
        "this has changed since it was read: its ETag is not the one in `If-Match`",
    ),
    413: (
        "The body is too large, or a limit on numbers is reached.",
        "the body is larger than 65,536 bytes",
    ),
    422: (
        "The input is not valid; see `errors`.",
        "wrong input: limit: must be at most 500",
    ),
    429: ("Too many requests; see `Retry-After`.", "too many wrong tokens; try again later"),
    503: ("The database is not available; try again later.", "the database is not available"),
}
_HEADERS: dict[int, Document] = {
    401: {"WWW-Authenticate": {"description": "How to log in.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}},
}


class DocumentedRoute(APIRoute):
    """A route documented by its docstring, with the errors that its path, body and access imply."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        summary, _, rest = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        summary = " ".join(summary.split()).removesuffix(".")
        options |= {"summary": summary, "description": rest or f"{summary}."}
        if path in OPEN_PATHS:
            options["openapi_extra"] = {"security": []}
        elif path.endswith(FEEDS):
            options["openapi_extra"] = {"security": [{"bearer": []}, {"basic": []}]}
        super().__init__(path, endpoint, **options)
        has_body = self.body_field or "requestBody" in (self.openapi_extra or {})
        statuses = {403, 422}  # an unknown parameter is an error everywhere
        statuses |= set() if path in OPEN_PATHS else {401, 429, 503}
        statuses |= {404} if "{" in path else set()
        statuses |= {409} if "POST" in (self.methods or ()) else set()  # Idempotency-Key
        statuses |= {408, 413} if has_body else set()
        own = self.responses
        self.responses = {code: one for code, one in own.items() if int(code) < 400}
        for code in sorted(statuses | {int(code) for code in own if int(code) >= 400}):
            self.responses[code] = _error_reference(code) | own.get(code, {})


def documented_router(prefix: str, tag: str) -> APIRouter:
    """A router for routes that are part of the document."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=DocumentedRoute)


def body_example(value: Document) -> Any:
    """A request body with an example."""
    return Body(openapi_examples={"example": {"value": value}})


_ETAG = {
    "description": "The version of the settings, for `If-Match`.",
    "required": True,
    "schema": {"type": "string"},
}
WITH_ETAG: Responses = {200: {"description": "Success.", "headers": {"ETag": _ETAG}}}
MATCHED: Responses = {412: {}}  # the response to an `If-Match` that does not match


def created(parameter: str, path: str, *operation_ids: str, etag: bool = False) -> Responses:
    """The response 201 with its `Location`, and links to operations on what was created."""
    parameters = {name: f"$request.path.{name}" for name in re.findall(r"\{(\w+)\}", path)}
    parameters[parameter] = "$response.body#/id"
    location = {"description": "Its path.", "required": True, "schema": {"type": "string"}}
    links = {one: {"operationId": one, "parameters": parameters} for one in operation_ids}
    headers = {"Location": location} | ({"ETag": _ETAG} if etag else {})
    return {201: {"description": "Created.", "headers": headers, "links": links}}


def install(api: FastAPI, *, max_page_size: int) -> None:
    """Complete FastAPI's document when it is first requested."""
    generate = api.openapi

    def document() -> Document:
        if api.openapi_schema is None:
            api.openapi_schema = _completed(generate(), max_page_size)
        return api.openapi_schema

    api.openapi = document  # type: ignore[method-assign]


def _completed(document: Document, max_page_size: int) -> Document:
    components = document["components"]
    for model in (Problem, EventOut):
        schema = model.model_json_schema(mode="serialization", ref_template=_SCHEMAS + "{model}")
        components["schemas"] |= schema.pop("$defs") | {model.__name__: schema}
    components["headers"] = {"RequestId": _REQUEST_ID}
    components["responses"] = {_name(code): _error_response(code) for code in _ERRORS}
    components["securitySchemes"] = {"bearer": _BEARER, "basic": _BASIC}
    document["security"] = [{"bearer": []}]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    for response in (
        *components["responses"].values(),
        *(one for operation in operations for one in operation["responses"].values()),
    ):
        if "$ref" not in response:
            response["headers"] = response.get("headers", {}) | {"X-Request-Id": _REQUEST_ID_REF}
    for operation in (path["post"] for path in document["paths"].values() if "post" in path):
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        for status, response in operation["responses"].items():
            if status < "300":
                response["headers"] |= {REPLAYED: _REPLAYED}
    for parameter in (one for operation in operations for one in operation.get("parameters", ())):
        if parameter["name"] == "limit":
            usual = min(DEFAULT_LIMIT, max_page_size)
            parameter["schema"] |= {"maximum": max_page_size, "default": usual, "examples": [usual]}
    public: Document = json.loads(_PAGE_NAME.sub(r"\1\2Page", json.dumps(document)))
    return public


def _error_reference(status: int) -> Document:
    if status not in _ERRORS:
        return _error_response(status)
    reference = f"#/components/responses/{_name(status)}"
    return {"$ref": reference, "description": _ERRORS[status][0]}


def _error_response(status: int) -> Document:
    phrase = HTTPStatus(status).phrase
    description, detail = _ERRORS.get(status, (f"{phrase}.", phrase.lower()))
    errors = [{"field": "limit", "message": "must be at most 500"}] if status == 422 else []
    kind = type_for(status)
    example = {
        "type": kind.uri, "title": kind.text.title, "status": status, "detail": detail,
        "errors": errors,
    }  # fmt: skip
    schema = {"$ref": f"{_SCHEMAS}Problem"}
    response: Document = {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
    }
    return response | ({"headers": _HEADERS[status]} if status in _HEADERS else {})


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")
