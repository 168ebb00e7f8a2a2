"""What kind of failure an error is (F1, P9, O1)."""

from dataclasses import replace

from headwater import errors
from headwater.model import Failure, FailureType

_PERMANENT_STATUSES = frozenset({401, 403, 404, 410})
_HOLD_WITHOUT_RETRY_AFTER_SECONDS = 600.0  # P9: a 429 that does not say how long
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
    (errors.NotAFeed, "parse"),
    (errors.NoContent, "no content"),
    (errors.TooExpensive, "too expensive"),
)
# the kinds that counts are kept of; statuses beyond these are rare
KINDS = (
    "401", "403", "404", "410", "429", "500", "502", "503", "504",
    "DNS", "URL", *(name for _, name in _KINDS), "unexpected",
)  # fmt: skip


def classify(error: Exception) -> Failure:
    """Turn whatever a fetch raised into a failure; what nobody knows is transient (F1)."""
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
        return replace(failure, status=error.status, size=error.size)
    return failure


def one_line(error: Exception, limit: int = _MAX_MESSAGE) -> str:
    """The text of an error as one storable line for a person (M6)."""
    text = str(error) if isinstance(error, errors.HeadwaterError) else _stranger(error)
    printable = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    line = " ".join(printable.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _bad_status(error: errors.BadStatus, message: str) -> Failure:
    status, hold = error.status, error.hold_seconds
    if status == 429 and hold is None:
        hold = _HOLD_WITHOUT_RETRY_AFTER_SECONDS
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


def _stranger(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
