"""How a source is, in plain words: what is wrong, what happens next, what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model import FailureType, Health, PollRecord, Source, SourceType
from headwater.operations.overview import SourceView
from headwater.rules.policy import Policy
from headwater.web.failure_words import words_for


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of a source's health; None: there is nothing to say."""

    headline: str
    then: str  # what happens next
    why: str | None = None
    todo: str | None = None


def verdict_of(view: SourceView, polls: Sequence[PollRecord], policy: Policy) -> Verdict:
    """How a source is; `polls` are its last ones, newest first."""
    source = view.source
    match view.health:
        case Health.DISABLED:
            return _disabled(source)
        case Health.FAILING:
            return _failing(source, _kind(source, polls), policy)
        case Health.NEW:
            return Verdict("New: it has not been polled with success yet.", _first_poll(source))
    if view.held:
        return Verdict(
            headline="Fine, but its host asked to be left alone for a while.",
            then="It is polled again when that time is over.",
            why=None if view.hold is None else f"{view.hold.reason}.",
        )
    return Verdict(headline="Everything is fine.", then="It goes on being polled at its interval.")


def _first_poll(source: Source) -> str:
    if source.requested_at is not None:
        return "A poll was asked for; it is made as soon as its host's turn comes."
    spread = "First polls are spread over one interval, so that no host is overrun."
    return f"{spread} Poll now does not wait for that."


def _disabled(source: Source) -> Verdict:
    if source.disabled_reason is None:
        return Verdict(
            headline="Switched off by a person.",
            then="Nothing: it is polled by hand only, until somebody enables it again.",
            todo="Enable it to have it polled again. What was stored stays either way.",
        )
    what, todo = _words(source, source.permanent_kind)
    count = source.permanent_failures
    times = f"{count:,} times in a row" if count > 1 else "once"
    return Verdict(
        headline="Switched off by Headwater, because it kept failing.",
        why=f"{what}; that was so {times}.",
        then="Nothing: it is not polled until somebody enables it again.",
        todo=f"{todo} Once it works, enable it: failures are forgotten and it is polled at once.",
    )


def _failing(source: Source, kind: str | None, policy: Policy) -> Verdict:
    count = source.consecutive_failures
    what, todo = _words(source, kind)
    then = "Headwater keeps trying, each time after a longer rest, and never gives up over this."
    if source.last_failure_type is FailureType.PERMANENT:
        limit = policy.max_failures if source.max_failures is None else source.max_failures
        then = (
            "Headwater tries again after a longer rest. After "
            f"{limit:,} such answers in a row it switches the source off; "
            f"so far there {'was' if source.permanent_failures == 1 else 'were'} "
            f"{source.permanent_failures:,}."
        )
    return Verdict(
        headline="The last poll failed." if count == 1 else f"The last {count:,} polls failed.",
        why=f"{what}.",
        then=then,
        todo=todo,
    )


def _kind(source: Source, polls: Sequence[PollRecord]) -> str | None:
    kinds = (poll.failure_kind for poll in polls if poll.failure_kind is not None)
    return next(kinds, source.permanent_kind)


def _words(source: Source, kind: str | None) -> tuple[str, str]:
    """What a kind of failure means for a source, and what a person can do about it."""
    words = words_for(kind, on_x=source.type is SourceType.TWITTER)
    status = f" ({kind})" if kind is not None and kind.isdigit() else ""
    return f"{words.what}{status}", words.todo
