"""What can go wrong with a call: the service refuses it, or cannot be reached."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_RETRIED = (429, 502, 503, 504)  # the same request may succeed later


class HeadwaterClientError(Exception):
    """Base of all errors of the client."""


class HeadwaterUnreachable(HeadwaterClientError):
    """The service cannot be reached, or the connection broke before the response was complete."""


class HeadwaterTimeout(HeadwaterUnreachable):
    """The service did not respond in time."""


@dataclass(frozen=True)
class InvalidField:
    """What is wrong with one field of a request."""

    field: str
    message: str


class HeadwaterProblem(HeadwaterClientError):
    """The service refused a request; `document` is its problem document (RFC 9457)."""

    def __init__(self, status: int, document: dict[str, Any], headers: Mapping[str, str]) -> None:
        self.status = status
        self.document = document
        self.type = str(document.get("type", "about:blank"))
        self.title = str(document.get("title", _phrase(status)))
        self.detail = str(document.get("detail", ""))
        self.errors = tuple(
            InvalidField(str(one.get("field", "")), str(one.get("message", "")))
            for one in document.get("errors") or ()
        )
        self.retry_after = _seconds(headers.get("retry-after"))
        self.request_id = headers.get("x-request-id")
        super().__init__(self._text())

    def _text(self) -> str:
        fields = "".join(f"; {one.field}: {one.message}" for one in self.errors)
        return f"{self.status} {self.title}: {self.detail}{fields}"


def problem_from(status: int, headers: Mapping[str, str], body: bytes) -> HeadwaterProblem:
    """The error of a response; one that is not from Headwater gets a document in its place."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "title" not in document:
        detail = f"the response is not from a Headwater service: {_described(headers, body)}"
        document = {"type": "about:blank", "title": _phrase(status), "status": status}
        document |= {"detail": detail, "errors": []}
    return HeadwaterProblem(status, document, headers)


def wait_before_retry(error: HeadwaterClientError, usual_seconds: float) -> float:
    """How long to wait before the same request is sent again; raise if that cannot help."""
    if isinstance(error, HeadwaterUnreachable):
        return usual_seconds
    if isinstance(error, HeadwaterProblem) and error.status in _RETRIED:
        return max(usual_seconds, error.retry_after or 0)
    raise error


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _described(headers: Mapping[str, str], body: bytes) -> str:
    if "location" in headers:
        return f"it redirects to {headers['location']}"
    kind = headers.get("content-type", "without a content type")
    return f"{len(body)} bytes, {kind}"
