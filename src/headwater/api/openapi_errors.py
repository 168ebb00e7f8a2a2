"""The errors of the OpenAPI document: which operation can answer which of them."""

from http import HTTPStatus
from typing import Any

from headwater.api.callers import HOW_TO_COME_IN
from headwater.api.problems import MEDIA_TYPE
from headwater.model import FailureType

ERROR_SCHEMAS: dict[str, Any] = {
    "Problem": {
        "type": "object",
        "description": "Why a request was not done (RFC 9457); some have more to say.",
        "properties": {
            "type": {
                "type": "string",
                "const": "about:blank",
                "description": "That the status says it all.",
            },
            "title": {"type": "string", "description": "The status in words."},
            "status": {
                "type": "integer",
                "minimum": 400,
                "maximum": 599,
                "description": "The HTTP status once more.",
            },
            "detail": {"type": "string", "description": "What is wrong, in a sentence."},
            "errors": {
                "type": "array",
                "description": "Which fields are wrong, if it is about fields.",
                "items": {"$ref": "#/components/schemas/FieldError"},
            },
            "failureType": {
                "type": "string",
                "enum": list(FailureType),
                "description": "Of a preview whose visit failed: whether that may pass by itself.",
            },
            "failureKind": {
                "type": "string",
                "description": "Of such a preview: the failure in a word, such as `404` or `DNS`.",
            },
        },
        "required": ["type", "title", "status", "detail", "errors"],
    },
    "FieldError": {
        "type": "object",
        "description": "What is wrong with one field.",
        "properties": {
            "field": {"type": "string", "description": "Its name; `a.0.b` is deeper inside."},
            "message": {"type": "string", "description": "What is wrong with it."},
        },
        "required": ["field", "message"],
    },
}

_WORDS = {
    400: "The body cannot be read.",
    401: "A valid access token is needed.",
    403: "The request comes from another site, or needs an administrator's token.",
    404: "There is no such thing, or it is somebody else's.",
    408: "The body did not come in time.",
    409: "It contradicts what is there.",
    413: "The body is too large, or a limit on numbers is reached.",
    415: "The body is of a kind that is not taken.",
    422: "Something given is wrong; `errors` names the fields.",
    429: "Too much at once; `Retry-After` says when to come back.",
    502: "The source that was asked gave no good answer.",
    503: "The database cannot be asked now; the same may work later.",
}
_DETAILS = {
    400: "the body cannot be read",
    401: HOW_TO_COME_IN,
    403: "this needs an administrator's token",
    404: "there is no user 'ann'",
    408: "the body did not come in time",
    413: "the body is larger than 65,536 bytes",
    422: "wrong input: limit: must be at most 500",
    429: "too many wrong tokens; come back later",
    502: "HTTP 404 Not Found from https://example.org/feed.xml",
    503: "the database cannot be asked now",
}
_FIELD_ERROR = {"field": "limit", "message": "must be at most 500"}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {
        "WWW-Authenticate": {"description": "How to say who asks.", "schema": {"type": "string"}}
    },
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}},
}


def common_errors() -> dict[str, Any]:
    """The errors that are the same wherever they occur, by name."""
    return {_name(status): _answer(status, words) for status, words in _WORDS.items()}


def error_answers(operation: dict[str, Any], path: str, *, is_open: bool) -> dict[str, Any]:
    """Every error that an operation can answer, its own ones first."""
    own = {int(s): answer for s, answer in operation["responses"].items() if s >= "400"}
    statuses = set(own) | {403, 422}  # a parameter that nobody knows is wrong everywhere
    if not is_open:
        statuses |= {401, 429, 503}
    if "{" in path:
        statuses.add(404)
    if "requestBody" in operation:
        statuses |= {408, 413}
    return {str(status): _answer_of(status, own.get(status, {})) for status in sorted(statuses)}


def _answer_of(status: int, own: dict[str, Any]) -> dict[str, Any]:
    """The common answer, unless a route has more to say of it than its number."""
    told = own.get("description")
    if status not in _WORDS or told not in (None, HTTPStatus(status).phrase, "Validation Error"):
        return _answer(status, told or f"{HTTPStatus(status).phrase}.")
    return {"$ref": f"#/components/responses/{_name(status)}"}


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")


def _answer(status: int, description: str) -> dict[str, Any]:
    phrase = HTTPStatus(status).phrase
    example = {
        "type": "about:blank",
        "title": phrase,
        "status": status,
        "detail": _DETAILS.get(status, phrase.lower()),
        "errors": [_FIELD_ERROR] if status == 422 else [],
    }
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {MEDIA_TYPE: {"schema": schema, "example": example}}
    answer: dict[str, Any] = {"description": description, "content": content}
    if status in _HEADERS:
        answer["headers"] = _HEADERS[status]
    return answer
