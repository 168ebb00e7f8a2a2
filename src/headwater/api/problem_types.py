"""The types of problem documents; each has a page at /api/problems and a section in the docs."""

from enum import StrEnum
from typing import NamedTuple

PATH = "/api/problems"


class ProblemText(NamedTuple):
    """What a type of problem means."""

    statuses: tuple[int, ...]
    title: str
    meaning: str
    remedy: str


class ProblemType(StrEnum):
    """The names of problem types."""

    ALREADY_EXISTS = "already-exists"
    BAD_REQUEST = "bad-request"
    CONFIRMATION_NEEDED = "confirmation-needed"
    FETCH_FAILED = "fetch-failed"
    FORBIDDEN = "forbidden"
    IDEMPOTENCY_KEY_REUSED = "idempotency-key-reused"
    INTERNAL_ERROR = "internal-error"
    INVALID_INPUT = "invalid-input"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    NOT_FOUND = "not-found"
    OUTDATED = "outdated"
    REQUEST_IN_PROGRESS = "request-in-progress"
    RESPONSE_LOST = "response-lost"
    SEARCH_TOO_SLOW = "search-too-slow"
    TIMEOUT = "timeout"
    TOO_LARGE = "too-large"
    TOO_MANY_REQUESTS = "too-many-requests"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"

    @property
    def uri(self) -> str:
        """The type as documents have it: a path on this server."""
        return f"{PATH}/{self.value}"

    @property
    def text(self) -> ProblemText:
        """What the type means."""
        return _TEXTS[self]


_TEXTS = {
    ProblemType.ALREADY_EXISTS: ProblemText(
        (409,),
        "Already exists",
        "The name is in use, or the object exists already.",
        "Choose another name, or use the object that exists.",
    ),
    ProblemType.BAD_REQUEST: ProblemText(
        (400,),
        "Bad request",
        "This is not a valid HTTP request.",
        "Write characters beyond ASCII as `%C3%BC` in a URL, and check the program that sent it.",
    ),
    ProblemType.CONFIRMATION_NEEDED: ProblemText(
        (409,),
        "Confirmation needed",
        "The change would delete something at once; `wouldDelete` has the numbers.",
        "Send the request again with `confirm=true` if that is what you want.",
    ),
    ProblemType.FETCH_FAILED: ProblemText(
        (422, 502),
        "Fetch failed",
        "The visited host did not return what was expected.",
        "Read `detail`, `failureType` and `failureKind`; a transient failure may pass.",
    ),
    ProblemType.FORBIDDEN: ProblemText(
        (403,),
        "Forbidden",
        "The request comes from another site, or the token does not permit it.",
        "Use a token with more rights; for other names of this server set "
        "`app.server.allowed-hosts`.",
    ),
    ProblemType.IDEMPOTENCY_KEY_REUSED: ProblemText(
        (422,),
        "Idempotency key reused",
        "A request with another body was sent with the same `Idempotency-Key`.",
        "Use a new key for each request that is not a repetition.",
    ),
    ProblemType.INTERNAL_ERROR: ProblemText(
        (500,),
        "Internal error",
        "The program failed.",
        "Search the log for the `X-Request-Id` of the response.",
    ),
    ProblemType.INVALID_INPUT: ProblemText(
        (422,),
        "Invalid input",
        "A value, field, parameter or header is wrong, unknown, repeated or missing.",
        "`errors` names what is wrong.",
    ),
    ProblemType.METHOD_NOT_ALLOWED: ProblemText(
        (405,),
        "Method not allowed",
        "The path does not support this method.",
        "`Allow` lists the methods that it supports.",
    ),
    ProblemType.NOT_FOUND: ProblemText(
        (404,),
        "Not found",
        "The path or object does not exist, or belongs to another user.",
        "Check the id or name; `/api/docs` shows all paths.",
    ),
    ProblemType.OUTDATED: ProblemText(
        (412,),
        "Outdated",
        "The settings have changed since they were read: no ETag in `If-Match` is the current one.",
        "Read the object again, and send its new `ETag`.",
    ),
    ProblemType.REQUEST_IN_PROGRESS: ProblemText(
        (409,),
        "Request in progress",
        "A request with the same `Idempotency-Key` is running, or its process has died within the "
        "last two minutes.",
        "Wait for the seconds in `Retry-After`, and repeat the request with the same key.",
    ),
    ProblemType.RESPONSE_LOST: ProblemText(
        (409,),
        "Response lost",
        "A request with the same `Idempotency-Key` took effect, at least in part, but its response "
        "was not kept: the process died before, the response is larger than 64 KiB, has a secret, "
        "or reports a temporary error.",
        "Read what exists, and use a new key for what is missing.",
    ),
    ProblemType.SEARCH_TOO_SLOW: ProblemText(
        (422,),
        "Search too slow",
        "The search or filter preview was cancelled because it took longer than 2 seconds.",
        "Add a source or dates, or rarer words; a retry may help if the machine is busy.",
    ),
    ProblemType.TIMEOUT: ProblemText(
        (408,),
        "Request timeout",
        "The body did not arrive in time.",
        "Send the request again.",
    ),
    ProblemType.TOO_LARGE: ProblemText(
        (413,),
        "Too large",
        "The body is too large, or a limit on numbers is reached.",
        "Send less at once, or raise the limit that `detail` names.",
    ),
    ProblemType.TOO_MANY_REQUESTS: ProblemText(
        (429,),
        "Too many requests",
        "A rate limit is reached.",
        "Wait for the seconds in `Retry-After`.",
    ),
    ProblemType.UNAUTHORIZED: ProblemText(
        (401,),
        "Unauthorized",
        "The access token is missing or wrong.",
        "Send `Authorization: Bearer TOKEN`.",
    ),
    ProblemType.UNAVAILABLE: ProblemText(
        (503,),
        "Service unavailable",
        "The database does not respond, the service is stopping, or there are too many "
        "connections.",
        "Try again later; `/api/ready` and the log have the reason.",
    ),
}

_BY_STATUS = {
    400: ProblemType.BAD_REQUEST,
    401: ProblemType.UNAUTHORIZED,
    403: ProblemType.FORBIDDEN,
    404: ProblemType.NOT_FOUND,
    405: ProblemType.METHOD_NOT_ALLOWED,
    408: ProblemType.TIMEOUT,
    409: ProblemType.ALREADY_EXISTS,
    412: ProblemType.OUTDATED,
    413: ProblemType.TOO_LARGE,
    422: ProblemType.INVALID_INPUT,
    429: ProblemType.TOO_MANY_REQUESTS,
    500: ProblemType.INTERNAL_ERROR,
    502: ProblemType.FETCH_FAILED,
    503: ProblemType.UNAVAILABLE,
}


def type_for(status: int) -> ProblemType:
    """The usual type of a problem with this status."""
    other = ProblemType.BAD_REQUEST if status < 500 else ProblemType.INTERNAL_ERROR
    return _BY_STATUS.get(status, other)
