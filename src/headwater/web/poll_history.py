"""The last polls of a source as marks on a strip: what came of each, and how long it took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.model import OutcomeKind, PollRecord, SkipReason

OUTCOME_WORDS = {
    OutcomeKind.STORED: "new posts",
    OutcomeKind.UNCHANGED: "nothing new",
    OutcomeKind.FAILED: "failed",
}
OUTCOME_TONES = {  # the class of a tag
    OutcomeKind.STORED: "accent",
    OutcomeKind.UNCHANGED: "good",
    OutcomeKind.FAILED: "bad",
}
_SKIP_WORDS = {
    SkipReason.ALREADY_SEEN: "no newer than the last seen",
    SkipReason.DUPLICATE: "with a text that is stored already",
    SkipReason.TOO_OLD: "too old",
    SkipReason.BEFORE_CREATION: "published before you added the source",
    SkipReason.EMPTY: "without text",
}
_LOWEST = 3.0  # percent: the quickest poll still leaves a mark


@dataclass(frozen=True, slots=True)
class Mark:
    """One poll on the strip."""

    id: int
    started_at: datetime
    outcome: OutcomeKind
    told: str  # all but the moment, on one line
    height: float  # percent of the slowest


@dataclass(frozen=True, slots=True)
class Strip:
    """The marks, oldest first, and how long polls take."""

    marks: tuple[Mark, ...]
    typical: str
    slowest: str


def strip_of(polls: Sequence[PollRecord]) -> Strip:
    """The strip of polls that are given newest first."""
    lengths = sorted(poll.duration_ms for poll in polls)
    slowest = lengths[-1] if lengths else 0
    typical = lengths[len(lengths) // 2] if lengths else 0
    marks = tuple(_mark(poll, slowest) for poll in reversed(polls))
    return Strip(marks, typical=duration(typical), slowest=duration(slowest))


def duration(milliseconds: int) -> str:
    """`412 ms`, `1.9 s`, `58 s`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def skips(counts: Mapping[SkipReason, int]) -> str:
    """How many entries did not become posts, and why."""
    told = [f"{counts[why]:,} {_SKIP_WORDS[why]}" for why in SkipReason if counts.get(why)]
    return ", ".join(told)


def posts(number: int) -> str:
    """`1 new post`, `12 new posts`."""
    return f"{number:,} new post{'' if number == 1 else 's'}"


def _mark(poll: PollRecord, slowest: int) -> Mark:
    return Mark(
        id=poll.id,
        started_at=poll.started_at,
        outcome=poll.outcome,
        told=_told(poll),
        height=round(max(100 * poll.duration_ms / max(slowest, 1), _LOWEST), 1),
    )


def _told(poll: PollRecord) -> str:
    came = OUTCOME_WORDS[poll.outcome]
    parts = [
        posts(poll.new_posts) if poll.new_posts else came,
        None if poll.status is None else f"HTTP {poll.status}",
        duration(poll.duration_ms),
        poll.error,
    ]
    return " · ".join(part for part in parts if part)
