"""The response to a fetch, and the check of its status (F1, P9)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from headwater.errors import BadStatus
from headwater.fetch.net.large_bodies import LargeBodyPermit
from headwater.model import Validators
from headwater.rules.url_secrets import masked
from headwater.rules.urls import WebUrl

MAX_HOLD_SECONDS = 10 * 366 * 86_400.0
_MAX_VALIDATOR_LENGTH = 1024
_VISIBLE = re.compile(r"[\x20-\x7e]+")
_SECONDS = re.compile(r"[0-9]+")
_HOLDING = frozenset({429, 503})  # the statuses whose Retry-After counts (P9)


@dataclass(slots=True)
class Response:
    """The final response: decompressed, or the start of the body for an error."""

    status: int
    headers: Mapping[str, str]  # the first value of each name, in lower case
    body: bytes
    url: WebUrl  # the last one, after redirects
    size: int = 0  # bytes of the body on the wire
    redirected_to: str | None = None  # without credentials
    is_moved: bool = False  # all redirects are permanent (Y4)
    permit: LargeBodyPermit | None = None  # held by a large body

    def release(self) -> None:
        """Return the permit of a large body that has been read (H1)."""
        if self.permit is not None:
            self.permit.release()

    @property
    def content_type(self) -> str | None:
        """The `Content-Type` header, or None if it is missing or not printable."""
        value = self.headers.get("content-type")
        return value if value and _VISIBLE.fullmatch(value) else None

    @property
    def validators(self) -> Validators:
        """Sent back with the next request, to fetch only changes (N12)."""
        return Validators(
            etag=_validator(self.headers.get("etag")),
            last_modified=_validator(self.headers.get("last-modified")),
        )


def check_status(response: Response, *, now: datetime) -> None:
    """Raise BadStatus for every status that is neither a success nor "not modified"."""
    status = response.status
    if 200 <= status < 300 or status == 304:
        return
    hold_seconds = None
    if status in _HOLDING:
        hold_seconds = retry_after_seconds(response.headers.get("retry-after"), now=now)
    raise BadStatus(
        status,
        f"{_phrase(status)} from {masked(str(response.url))}",
        host=response.url.host,
        hold_seconds=hold_seconds,
    )


def retry_after_seconds(value: str | None, *, now: datetime) -> float | None:
    """Seconds or a date as seconds; None for garbage or the past; clamped to ten years (N13)."""
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
    """The status with the standard reason phrase, not the server's own."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
