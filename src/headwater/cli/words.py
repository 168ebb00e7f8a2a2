"""Moments, spans and reasons in the words people use."""

from datetime import datetime, timedelta

from headwater.model import Health, OutcomeKind, SkipReason

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
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


def span(seconds: float) -> str:
    """A length of time in its two largest units, rounded down: `3 h`, `2 min 5 s`."""
    left = max(int(seconds), 0)
    for index, (size, unit) in enumerate(_UNITS):
        if left >= size or size == 1:
            count, rest = divmod(left, size)
            if count < 10 and index + 1 < len(_UNITS):
                smaller, name = _UNITS[index + 1]
                if rest >= smaller:
                    return f"{count} {unit} {rest // smaller} {name}"
            return f"{count} {unit}"
    return "0 s"


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


def reason(skip: SkipReason, age: timedelta) -> str:
    """Why an entry would not be stored."""
    return {
        SkipReason.ALREADY_SEEN: "seen before",
        SkipReason.DUPLICATE: "the same text again",
        SkipReason.TOO_OLD: f"older than {age.days} days",
        SkipReason.BEFORE_CREATION: "published before you added it",
        SkipReason.EMPTY: "has no text",
    }[skip]


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 post`, `1,200 posts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
