"""Formats times, durations, counts and skip reasons for people."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from headwater.cli.columns import Styled
from headwater.cli.output import on_terminal
from headwater.model import Completeness, Health, OutcomeKind, Post, SkipReason, Source, TextFrom
from headwater.rules.explanation import span as span

_SOON_SECONDS = 2
_TEXT_SOURCES = {TextFrom.FEED: "feed", TextFrom.PAGE: "page", TextFrom.X: "post on X"}

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
    """Return a time relative to now: `3 h ago`, `in 12 min`."""
    if moment is None:
        return never
    seconds = (moment - now).total_seconds()
    if abs(seconds) < _SOON_SECONDS:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def coming(moment: datetime | None, now: datetime) -> str:
    """Return when something happens; `due` if that is now or past."""
    if moment is None:
        return "–"
    return "due" if moment <= now else when(moment, now)


def minutes(count: int) -> str:
    """Return an interval in minutes as a duration: `30 min`, `1 d`."""
    return span(count * 60)


def clock(moment: datetime | None) -> str:
    """Return a time to the second, in UTC."""
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def moment(at: datetime | None, now: datetime) -> str:
    """Return a time: relative to now on a terminal, exact in a pipe."""
    return when(at, now, never="undated") if on_terminal() else clock(at)


def source_name(source: Source) -> str:
    """Return the label of a source, else its title, else its URL (T5); in a pipe always the URL."""
    return (source.label or source.title or source.url) if on_terminal() else source.url


def text_state(post: Post) -> str | None:
    """Return whether the text of a post is complete, and where it is from (T3)."""
    if post.completeness is None or post.text_from is None:
        return None
    origin = f"from the {_TEXT_SOURCES[post.text_from]}"
    if post.completeness is Completeness.UNKNOWN:
        return f"{origin}; unknown whether complete"
    return f"{post.completeness.value}, {origin}"


def styled_health(health: Health) -> Styled:
    """Return a health in its colour."""
    return Styled(health.value, HEALTH_STYLE[health])


def styled_outcome(outcome: OutcomeKind) -> Styled:
    """Return the outcome of a poll in its colour."""
    return Styled(outcome.value, OUTCOME_STYLE[outcome])


def reason(skip: SkipReason, age: timedelta | None) -> str:
    """Return why an entry is skipped; `age` is None if several age limits apply."""
    too_old = "too old" if age is None else f"older than {counted(age.days, 'day')}"
    return {
        SkipReason.ALREADY_SEEN: "not newer than the last stored entry",
        SkipReason.DUPLICATE: "duplicate text",
        SkipReason.TOO_OLD: too_old,
        SkipReason.BEFORE_CREATION: "published before you added it",
        SkipReason.EMPTY: "without text",
    }[skip]


def skips(counts: Mapping[SkipReason, int], age: timedelta | None, *, remedy: str) -> str:
    """Return why entries are skipped, with counts; `remedy` stores those from before."""
    parts = []
    for skip in SkipReason:
        if counts.get(skip, 0):
            hint = f" ({remedy} stores them)" if skip is SkipReason.BEFORE_CREATION else ""
            parts.append(f"{counts[skip]:,} {reason(skip, age)}{hint}")
    return ", ".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 post`, `1,200 posts`, `2 entries`, `3 keys`."""
    changes = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    plural = f"{noun[:-1]}ies" if changes else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
