"""SharedChecks: sources with the same address that are due together share one request (Y7)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Outcome, Source, SourceType, Validators
from headwater.simulation.checker_state import CheckerState, SourceRecord, VisitAnswer

_GRACE_SECONDS = 2.0


@dataclass(slots=True)
class RequestRecord:
    """The last request for an address."""

    by: str  # the source
    validators: Validators  # of that source
    at: float
    now: datetime
    was_requested: bool  # by a user
    ended_at: float = 0.0
    answer: VisitAnswer | None = None
    expected_at: datetime | None = None  # the `last_polled` that every source must store


class SharedChecks:
    """Compares polls without a request of their own with the request that they shared."""

    def __init__(self, state: CheckerState, tick_seconds: float) -> None:
        self._state = state
        self._tick = tick_seconds
        self._requests: dict[tuple[SourceType, str], RequestRecord] = {}

    def request_started(self, record: SourceRecord, at: float, now: datetime) -> None:
        """Check that a source did not miss the request for another source of the same address."""
        source, last = record.source, self._requests.get(_address(record.source))
        if last is not None and last.by != record.id and not last.was_requested:
            self._check_missed(record, last)
        requested = source.requested_at is not None
        self._requests[_address(source)] = RequestRecord(
            record.id, source.validators, at, now, requested
        )

    def request_ended(self, record: SourceRecord) -> None:
        """Keep the result for the sources that share it."""
        last = self._requests[_address(record.source)]
        last.ended_at = self._state.clock.monotonic()
        last.answer, last.expected_at = record.answer, record.expected_at

    def stored(self, outcome: Outcome, record: SourceRecord) -> None:
        """Check a source that was stored without a request, and give it the shared result."""
        source, last = record.source, self._requests.get(_address(record.source))
        if last is None or last.answer is None or outcome.started_at != last.now:
            self._wrong(record, "it was stored without a request")
            return
        due = record.due_at
        if source.requested_at is None and (due is None or due > last.now):
            self._wrong(record, "it shares a request before it is due", rule="S2")
        record.is_probation = source.requested_at is None and not source.enabled
        if record.is_probation and due is None:
            self._wrong(record, "it is disabled and shares a request", rule="S4")
        if outcome.status == 304 and source.validators != last.validators:
            self._wrong(record, "it shares a 304 with other validators")
        self._state.polls += 1
        self._state.lane(record.lane).rest(last.ended_at + record.delay)
        result = last.answer.result
        if result.hold is not None and self._state.is_held_by_source(record.lane):
            record.held_since = last.ended_at
            record.held_until = last.ended_at + min(result.hold, record.cap * 60.0)
        record.answer, record.expected_at = last.answer, last.expected_at
        record.due_used, record.pending = source.last_polled, True

    def stopped(self) -> None:
        """Note that running requests were lost."""
        self._requests.clear()

    def _check_missed(self, record: SourceRecord, last: RequestRecord) -> None:
        source, faults = record.source, self._state.fault_history
        waited = timedelta(seconds=self._tick + _GRACE_SECONDS)
        began = max(faults.up_since, faults.clock_changed_at, faults.resumed_at, record.edited_at)
        was_queued = record.due_at is not None and record.due_at + waited <= last.now
        was_free = record.held_until <= last.at - self._tick - _GRACE_SECONDS
        is_settled = began + self._tick + _GRACE_SECONDS <= last.at
        if source.requested_at is None and was_queued and was_free and is_settled:
            self._wrong(record, f"it was due when its address was requested for {last.by}")

    def _wrong(self, record: SourceRecord, what: str, rule: str = "Y7") -> None:
        self._state.violate(rule, record.lane, record.id, f"{record.id}: {what}")


def _address(source: Source) -> tuple[SourceType, str]:
    return source.type, source.url
