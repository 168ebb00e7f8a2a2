"""What the X API says when it does not answer, and for how long it wants to be left alone (X4)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

from headwater.errors import BadStatus
from headwater.fetch.response import MAX_HOLD_SECONDS, retry_after_seconds
from headwater.fetch.storable import storable_line

CREDITS_HOLD_SECONDS = 3600.0  # somebody must pay first; then it shall not take a day
HOW_TO_SET = "`headwater keys set x --user NAME` or PUT /api/users/NAME/api-keys/x"
USAGE_CAP_HOLD_SECONDS = 86400.0  # monthly caps: the reset in 15 minutes is another limit's

_MAX_SAID = 200
_UNIX_SECONDS = re.compile(r"[0-9]{1,12}")
_DAILY_LIMITS = ("x-app-limit-24hour", "x-user-limit-24hour")
_SENTENCES = {
    401: f"X does not accept the API key; set a working one with {HOW_TO_SET}",
    402: "X asks for payment: the API account has no credits left",
    403: "X does not allow this with the API key",
    404: "X has no such timeline",
    429: "X asks for fewer requests",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as X describes it; `kind` is the last part of its type, whatever the host."""

    kind: str = ""
    title: str = ""
    detail: str = ""

    @classmethod
    def of(cls, said: object) -> "Problem":
        """Read a problem document or a member of `errors`, whatever is missing."""
        if not isinstance(said, dict):
            return cls()
        type_, title = said.get("type"), said.get("title")
        detail = said.get("detail") or said.get("message")
        return cls(
            kind=type_.rstrip("/").rpartition("/")[2].lower() if isinstance(type_, str) else "",
            title=title if isinstance(title, str) else "",
            detail=detail if isinstance(detail, str) else "",
        )

    def sentence(self, ours: str, key: str) -> str:
        """Our sentence and X's own, unless that gives away the key (U6)."""
        said = storable_line(self.detail or self.title)
        if not said or any(key in text for text in (said, unquote(said))):
            return ours
        return f"{ours} ({storable_line(said, _MAX_SAID)})"


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, now: datetime, key: str
) -> BadStatus:
    """The error for an answer that is no success, with the hold that X asks for (P9)."""
    problem = _problem(body)
    if is_usage_cap(problem):
        return usage_capped(problem, key)
    ours = _SENTENCES.get(status, f"X answered {status}")
    return BadStatus(
        status,
        f"{problem.sentence(ours, key)} [HTTP {status}]",
        hold_seconds=_hold_seconds(status, headers, now),
    )


def is_usage_cap(problem: Problem) -> bool:
    """Whether a cap over a day or a month is used up, which no short wait mends."""
    return problem.kind == "usage-capped" or problem.title == "UsageCapExceeded"


def usage_capped(problem: Problem, key: str) -> BadStatus:
    """The error for a used-up cap: transient with a long hold, whatever status it came with."""
    ours = "the usage cap of the X API key is reached"
    return BadStatus(429, problem.sentence(ours, key), hold_seconds=USAGE_CAP_HOLD_SECONDS)


def _problem(body: bytes) -> Problem:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):  # a gateway's HTML, or more than was worth reading (N9)
        return Problem()
    errors = said.get("errors") if isinstance(said, dict) else None
    if isinstance(errors, list) and errors and not said.get("detail"):
        return Problem.of(errors[0])
    return Problem.of(said)


def _hold_seconds(status: int, headers: Mapping[str, str], now: datetime) -> float | None:
    if status == 402:
        return CREDITS_HOLD_SECONDS
    until_reset = _seconds_to_reset(headers, now) if status == 429 else None
    if until_reset is not None:
        return until_reset
    says_when = status in (429, 503)
    return retry_after_seconds(headers.get("retry-after"), now=now) if says_when else None


def _seconds_to_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long until the limit that was hit is lifted; the daily ones name themselves by 0 left."""
    hit = [name for name in _DAILY_LIMITS if headers.get(f"{name}-remaining", "").strip() == "0"]
    waits = [_seconds_until(headers.get(f"{name}-reset"), now) for name in (*hit, "x-rate-limit")]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds_until(reset: str | None, now: datetime) -> float | None:
    """Seconds from now to a moment in Unix seconds; None where that is garbage or past (N13)."""
    reset = (reset or "").strip()
    if not _UNIX_SECONDS.fullmatch(reset):
        return None
    seconds = int(reset) - now.timestamp()
    return min(seconds, MAX_HOLD_SECONDS) if seconds > 0 else None
