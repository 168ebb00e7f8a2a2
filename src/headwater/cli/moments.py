"""Times in options: a date, a time, or a duration from now."""

import re
from datetime import UTC, datetime, timedelta

from headwater.errors import UsageError

_DURATION = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_of(text: str, now: datetime, *, ago: bool = False) -> datetime:
    """The time that a text names; a duration such as `30d` counts from now, or back with `ago`."""
    try:
        if found := _DURATION.fullmatch(text):
            span = timedelta(**{_UNITS[found[2]]: int(found[1])})
            return now - span if ago else now + span
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        reason = "is no time; examples: 30d, 12h, 2027-01-31, 2027-01-31T08:00Z"
        raise UsageError(f"{text!r} {reason}") from None
