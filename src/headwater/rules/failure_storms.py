"""Failure storms: failures of many sources of a host at once are the host's fault (Y6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.model import Failure, FailureType, Source

WINDOW_SECONDS = 3600.0
MIN_SOURCES = 3
_OF_TEN = 6  # this many of ten polled sources must fail in the same way


def most_others(failing: int) -> int:
    """How many other sources of the host may have been polled in a storm of this many sources."""
    return failing * (10 - _OF_TEN) // _OF_TEN


def may_be_in_storm(source: Source, failure: Failure) -> bool:
    """Whether a storm can explain a failure.

    A transient failure disables nothing, and a source that never succeeded proves nothing.
    """
    is_permanent = failure.type is FailureType.PERMANENT and not failure.local
    return is_permanent and source.first_poll_done


def has_recovered(source: Source) -> bool:
    """Whether a source can be part of a new storm: it has succeeded since it failed in one.

    Feeds that died for good would otherwise begin a storm whenever another source of the host
    has ended one, and never be disabled. A source that was not polled in the last storm counts
    as having succeeded before.
    """
    return not source.in_storm


def as_fault_of_host(failure: Failure) -> Failure:
    """The same failure attributed to the host: it does not change the permanent count."""
    return replace(failure, by_host=True)


@dataclass(frozen=True, slots=True)
class CountedFailure:
    """A permanent failure that was counted, with the source before and after it."""

    at: float  # on the monotonic clock
    kind: str
    before: Source
    after: Source

    def continues(self, run: "Sequence[CountedFailure]") -> bool:
        """Whether the count is as these failures left it; an outage may have taken some back."""
        return bool(run) and run[-1].after.permanent_failures == self.before.permanent_failures


def without_counted(current: Source, *, run: Sequence[CountedFailure], kind: str) -> Source:
    """The source without the failures of a storm that were counted before it was detected.

    `run` has its permanent failures one after another; those of other kinds stay counted. It still
    fails, with its backoff. Unchanged if something else happened to it since.
    """
    first, last = run[0].before, run[-1].after
    was, now = (
        (one.url, one.enabled, one.permanent_failures, one.disabled_reason)
        for one in (last, current)
    )
    if was != now:
        return current
    others = [one for one in run if one.kind != kind]
    kinds = {one.kind for one in others}
    if first.permanent_failures:
        kinds.add(first.permanent_kind or "permanent")
    restored = replace(
        current,
        permanent_failures=first.permanent_failures + len(others),
        permanent_kind="permanent" if len(kinds) > 1 else next(iter(kinds), None),
        in_storm=True,
    )
    if any(one.kind == kind and one.before.enabled and not one.after.enabled for one in run):
        return replace(restored, enabled=True, disabled_reason=None, disabled_at=None)
    return restored
