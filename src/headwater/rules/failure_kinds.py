"""Classifies errors into failures: permanent or transient, with a kind (F1, P9, O1)."""

from dataclasses import replace

from headwater import errors
from headwater.model import Failure, FailureType
from headwater.rules.holds import HOLD_WITHOUT_RETRY_AFTER_SECONDS

_PERMANENT_STATUSES = frozenset({401, 403, 404, 410})
_MAX_MESSAGE = 500
_KINDS: tuple[tuple[type[errors.FetchError], str], ...] = (
    (errors.LocalFault, "local"),
    (errors.TimedOut, "timeout"),
    (errors.TlsFailed, "TLS"),
    (errors.ConnectFailed, "connection"),
    (errors.AddressRefused, "address"),
    (errors.BadRedirect, "redirect"),
    (errors.TooLarge, "too large"),
    (errors.BrokenBody, "broken body"),
    (errors.HostBusy, "busy"),
    (errors.OnHold, "hold"),
    (errors.KeyMissing, "key"),
    (errors.FeedBehindLogin, "login"),
    (errors.NotAFeed, "parse"),
    (errors.SelectorUnmatched, "selector"),
    (errors.NoContent, "no content"),
    (errors.LoginPage, "login"),
    (errors.FeedNotFound, "no feed"),
    (errors.TooExpensive, "too expensive"),
)
# the kinds that metrics count separately; other statuses are rare
KINDS = (
    "401", "403", "404", "410", "429", "500", "502", "503", "504",
    "DNS", "URL", *dict.fromkeys(name for _, name in _KINDS), "unexpected",
)  # fmt: skip


def classify(error: Exception) -> Failure:
    """Classify an exception raised by a fetch; an unknown one is transient (F1)."""
    message = one_line(error)
    match error:
        case errors.BadStatus():
            return _bad_status(error, message)
        case errors.NameNotFound():
            return Failure(FailureType.PERMANENT, kind="DNS", message=message)
        case errors.BadUrl():
            return Failure(FailureType.TRANSIENT, kind="URL", message=message)
    kind = next((name for cls, name in _KINDS if isinstance(error, cls)), "unexpected")
    local = isinstance(error, errors.LocalFault | MemoryError)
    failure = Failure(FailureType.TRANSIENT, kind=kind, message=message, local=local)
    if isinstance(error, errors.FetchError):
        is_page = isinstance(error, errors.PageNotFeed)
        return replace(failure, status=error.status, size=error.size, is_page=is_page)
    return failure


def one_line(error: Exception, limit: int = _MAX_MESSAGE) -> str:
    """The text of an error as one line that can be stored and shown (M6)."""
    text = str(error)
    if not isinstance(error, errors.HeadwaterError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    printable = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    line = " ".join(printable.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _bad_status(error: errors.BadStatus, message: str) -> Failure:
    status, hold = error.status, error.hold_seconds
    if status == 429 and hold is None:
        hold = HOLD_WITHOUT_RETRY_AFTER_SECONDS
    permanent = status in _PERMANENT_STATUSES
    return Failure(
        FailureType.PERMANENT if permanent else FailureType.TRANSIENT,
        kind=str(status),
        message=message,
        status=status,
        size=error.size,
        hold_seconds=hold,
        hold_host=error.host,
    )
