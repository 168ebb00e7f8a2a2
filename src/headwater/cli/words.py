"""Moments, spans and reasons in the words people use."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from headwater.model import Health, OutcomeKind, SkipReason
from headwater.rules.explanation import span as span

_SOON_SECONDS = 2

HEALTH_STYLE = {
    Health.OK: "green",
    Health.NEW: "cyan",
    Health.FAILING: "yellow",
    Health.DISABLED: "red",
}
OUTCOME_STYLE = {
    OutcomeKind.STORED: "green",
    OutcomeKind.UNCHANGED: "dim",
    OutcomeKind.FAILED: "red",
}


def when(moment: datetime | None, now: datetime, *, never: str = "never") -> str:
    """A moment as seen from now: `3 h ago`, `in 12 min`."""
    if moment is None:
        return never
    seconds = (moment - now).total_seconds()
    if abs(seconds) < _SOON_SECONDS:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def coming(moment: datetime | None, now: datetime) -> str:
    """When something will happen; what should have happened happens next."""
    if moment is None:
        return "–"
    return "due" if moment <= now else when(moment, now)


def minutes(count: int) -> str:
    """An interval in minutes: `30 min`, `1 d`."""
    return span(count * 60)


def clock(moment: datetime | None) -> str:
    """A moment to the second, in UTC."""
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def reason(skip: SkipReason, age: timedelta | None) -> str:
    """Why an entry is not stored; the age is unknown where several limits apply."""
    too_old = "too old" if age is None else f"older than {counted(age.days, 'day')}"
    return {
        SkipReason.ALREADY_SEEN: "no newer than the last seen",
        SkipReason.DUPLICATE: "the same text again",
        SkipReason.TOO_OLD: too_old,
        SkipReason.BEFORE_CREATION: "published before you added it",
        SkipReason.EMPTY: "has no text",
    }[skip]


def skips(counts: Mapping[SkipReason, int], age: timedelta | None, *, remedy: str) -> str:
    """Why entries are not stored, with their numbers; the remedy takes those of the past."""
    told = []
    for skip in SkipReason:
        if counts.get(skip, 0):
            hint = f" ({remedy} takes those)" if skip is SkipReason.BEFORE_CREATION else ""
            told.append(f"{counts[skip]:,} {reason(skip, age)}{hint}")
    return ", ".join(told)


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 post`, `1,200 posts`, `2 entries`, `3 keys`."""
    changes = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    plural = f"{noun[:-1]}ies" if changes else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
