"""MoveChecks: a move is suggested after enough polls were redirected permanently (Y4)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Outcome, Source, SuggestionKind
from headwater.simulation.checker_state import CheckerState, SourceRecord

_POLLS = 5
_TIME = timedelta(days=3)


@dataclass(slots=True)
class FollowedRedirect:
    """Successful polls in a row that were redirected permanently to the same URL."""

    url: str
    since: datetime
    polls: int = 0


class MoveChecks:
    """Compares suggested moves with the redirects of the web."""

    def __init__(self, state: CheckerState) -> None:
        self._state = state
        # by URL: where permanent redirects led at the last response; None: there were none
        self._led_to: dict[str, str | None] = {}
        self._followed: dict[str, FollowedRedirect] = {}  # by source

    def answered(self, url: str, moved_to: str | None) -> None:
        """Note where a response came from."""
        self._led_to[url] = moved_to

    def stored(self, outcome: Outcome, after: Source, record: SourceRecord) -> None:
        """Check that a success suggests a move if, and only if, enough polls confirm it."""
        now = after.last_polled
        if outcome.failure is not None or now is None:
            return
        target = self._led_to.get(after.url)
        if target is None:
            self._followed.pop(record.id, None)
        elif record.id not in self._followed or self._followed[record.id].url != target:
            self._followed[record.id] = FollowedRedirect(target, now)
        followed = self._followed.get(record.id)
        is_confirmed = False
        if followed is not None:
            followed.polls += 1
            is_confirmed = followed.polls >= _POLLS and now - followed.since >= _TIME
        suggestion = outcome.suggestions.get(SuggestionKind.MOVE)
        if suggestion is not None and (not is_confirmed or suggestion.detail["url"] != target):
            self._wrong(record, f"a move was suggested after {followed}")
        if is_confirmed and (after.redirect is None or not after.redirect.is_suggested):
            self._wrong(record, f"no move was suggested after {followed}")

    def _wrong(self, record: SourceRecord, what: str) -> None:
        self._state.violate("Y4", record.lane, record.id, f"{record.id}: {what}")
