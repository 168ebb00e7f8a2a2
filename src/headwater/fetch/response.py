"""What a visit brought, and whether its status is a success (F1, P9)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from headwater.errors import BadStatus
from headwater.fetch.body import Place
from headwater.model import Validators
from headwater.rules.urls import WebUrl, masked

MAX_HOLD_SECONDS = 10 * 366 * 86_400.0
_MAX_VALIDATOR_LENGTH = 1024
_VISIBLE = re.compile(r"[\x20-\x7e]+")
_SECONDS = re.compile(r"[0-9]+")
_HOLDING = frozenset({429, 503})  # the statuses whose Retry-After counts (P9)


@dataclass(slots=True)  # not frozen: every poll makes one, which would take thrice as long
class Response:
    """The final answer of a visit: whole and inflated, or the start of it for an error."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes
    url: WebUrl  # the last one, where redirects led
    size: int = 0  # bytes of the body on the wire
    redirected_to: str | None = None  # without credentials
    place: Place | None = None  # that a large body takes

    def done(self) -> None:
        """Let another body be large: this one has been read (H1)."""
        if self.place is not None:
            self.place.let_go()

    @property
    def host(self) -> str:
        """The host that answered."""
        return self.url.host

    @property
    def content_type(self) -> str | None:
        """The `Content-Type` header, or None where it is missing or no text."""
        value = self.headers.get("Content-Type")
        return value if value and _VISIBLE.fullmatch(value) else None

    @property
    def validators(self) -> Validators:
        """What may be sent back to ask for changes only (N12)."""
        return Validators(
            etag=_validator(self.headers.get("ETag")),
            last_modified=_validator(self.headers.get("Last-Modified")),
        )


def check_status(response: Response, *, now: datetime) -> None:
    """Raise BadStatus for every status that is neither a success nor "not modified"."""
    status = response.status
    if 200 <= status < 300 or status == 304:
        return
    hold_seconds = None
    if status in _HOLDING:
        hold_seconds = retry_after_seconds(response.headers.get("Retry-After"), now=now)
    raise BadStatus(
        status,
        f"{_phrase(status)} from {masked(str(response.url))}",
        host=response.host,
        hold_seconds=hold_seconds,
    )


def retry_after_seconds(value: str | None, *, now: datetime) -> float | None:
    """Read seconds or a date; garbage and the past count as nothing, years are clamped (N13)."""
    if value is None or len(value) > 100:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_HOLD_SECONDS)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return None if seconds < 0 else min(seconds, MAX_HOLD_SECONDS)


def _validator(value: str | None) -> str | None:
    if value is None or len(value) > _MAX_VALIDATOR_LENGTH:
        return None
    value = value.strip()
    return value if _VISIBLE.fullmatch(value) else None


def _phrase(status: int) -> str:
    """The status with the standard's own words: what the server writes there is not repeated."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
