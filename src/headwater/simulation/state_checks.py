"""StateChecks: which source fields a poll changes, and nothing else does (S2, S7, P6, F2-F4)."""

from collections import deque
from datetime import datetime, timedelta

from headwater.model import Outcome, Source
from headwater.rules.full_text import PageResult, PageVisit
from headwater.rules.incidents import IncidentChanges
from headwater.simulation.checker_state import (
    FUTURE,
    CheckerState,
    FailureCounts,
    SourceRecord,
    StormVerdict,
    VisitAnswer,
)
from headwater.simulation.incident_checks import IncidentChecks
from headwater.simulation.message_checks import MessageChecks
from headwater.simulation.move_checks import MoveChecks
from headwater.simulation.page_checks import PageChecks
from headwater.simulation.search_checks import SearchChecks
from headwater.simulation.shared_checks import SharedChecks
from headwater.simulation.storm_checks import StormChecks, counts_of

WINDOW_SECONDS = 600.0  # O2: how far back failures are given back
_STORE_SECONDS = 1.0  # the time of storing is not known more exactly


class StateChecks:
    """Compares stored sources with the results of their visits."""

    def __init__(
        self,
        state: CheckerState,
        pages: PageChecks,
        shared: SharedChecks,
        moves: MoveChecks,
        storms: StormChecks,
        incidents: IncidentChecks,
        searches: SearchChecks,
        messages: MessageChecks,
    ) -> None:
        self._state = state
        self._pages = pages
        self._shared = shared
        self._moves = moves
        self._storms = storms
        self._incidents = incidents
        self.searches = searches
        self.messages = messages
        self._faults = state.fault_history
        self._clock = state.clock
        # recent failures: time, source, kind, and the counts before
        self._counted: deque[tuple[float, str, str, FailureCounts]] = deque()
        # counts that must, or may, be restored because an outage caused the failures (O2)
        self._must_restore: dict[str, list[FailureCounts]] = {}
        self._may_restore: dict[str, list[FailureCounts]] = {}
        # enabled again when a storm began: an outage does not restore their other counts
        self._enabled_again: set[str] = set()

    def recorded(self, outcome: Outcome, after: Source) -> None:
        """Compare a stored outcome with the result of its visit."""
        record = self._state.sources[after.id]
        if after.consecutive_failures or not after.enabled:
            self._state.note(record, "stored, failures:", after.consecutive_failures)
        if record.answer is None:
            self._shared.stored(outcome, record)
        if record.answer is None:
            raise LookupError(f"{record.id} was stored without a visit")
        answer = record.answer
        record.pending, record.answer = False, None
        if after.last_polled != record.expected_at:
            self._wrong("S7", record, f"lastPolled is {after.last_polled} after its poll")
        self._check_counts(record, answer, FailureCounts.of(after))
        if record.source.enabled and not after.enabled:
            count, kind = after.permanent_failures, after.permanent_kind
            if after.disabled_reason != f"Auto-disabled after {count} consecutive {kind} errors":
                self._wrong("F3", record, f"disabled for {after.disabled_reason!r}")
            if after.disabled_at != record.expected_at:
                self._wrong("Y9", record, f"disabled at {after.disabled_at}")
        for post in outcome.posts:
            if post.content_hash in record.posts:
                self._wrong("D1", record, "a post was stored twice")
            record.posts.add(post.content_hash)
        self._pages.stored(outcome, record)
        self._moves.stored(outcome, after, record)
        record.is_probation = False
        record.store(after)
        self.searches.poll_stored(record, answer, outcome)
        self._incidents.stored(record, answer.result, outcome)

    def page_stored(self, result: PageResult) -> None:
        """Note that the result of a page visit was stored (T4)."""
        self._pages.visit_stored(result)

    def page_dropped(self, visit: PageVisit) -> None:
        """Note that a page is given up (T4)."""
        self._pages.visit_dropped(visit)

    def incidents_changed(self, changes: IncidentChanges) -> None:
        """Note that incidents were opened, changed and closed (Y1)."""
        self._incidents.changed(changes)

    def storm_began(self, host: str, now: datetime) -> None:
        """Note that a failure storm of a host was stored (Y6)."""
        self._storms.began(host, now)

    def storm_ended(self, host: str) -> None:
        """Note that the end of a failure storm was stored (Y6)."""
        self._storms.ended(host)

    def discarded(self, outcome: Outcome) -> None:
        """Note that the outcome of a poll was discarded: its source was edited meanwhile (D4)."""
        record = self._state.sources[outcome.source.id]
        self._state.note(record, "discarded")
        if outcome.failure is None:
            self._storms.interrupted(record, succeeded=False)
        elif outcome.failure.by_host:
            self._storms.spared(record)
        self.poll_lost(record, clean=True)

    def rewritten(self, before: Source, after: Source, why: str) -> None:
        """Check that only polls, first contact and a clock set back write `lastPolled` (S7)."""
        record = self._state.sources[after.id]
        self._state.note(record, why)
        if before.last_polled != after.last_polled:
            self._check_last_polled(record, after, why)
        record.edited_at = self._clock.monotonic()
        if why == "edited":
            self._check_edit(record, after)
        if after.last_polled == self._clock.now():
            record.due_used = None
        record.store(after)
        self._incidents.edited(record)

    def poll_lost(self, record: SourceRecord, *, clean: bool) -> None:
        """Allow a second poll for the same due time: the first one was not stored."""
        record.pending, record.due_used, record.answer = False, None, None
        lane = self._state.lane(record.lane)
        if lane.held_by == record.id and not clean:
            lane.held_until = lane.held_before  # the hold was lost with the killed process

    def outage_noticed(self, kind: str) -> None:
        """Require that failures of this kind since the last good answer are undone (O2)."""
        at = self._clock.monotonic()
        since = max(min(at - WINDOW_SECONDS, self._faults.resolved_at), at - 2 * WINDOW_SECONDS)
        for failed_at, source_id, failed_as, before in self._counted:
            if failed_as == kind:
                must = failed_at > since + _STORE_SECONDS or source_id in self._must_restore
                must = must and source_id not in self._enabled_again
                restore = self._must_restore if must else self._may_restore
                restore.setdefault(source_id, []).append(before)
        for source_id in self._must_restore:
            self._must_restore[source_id] += self._may_restore.pop(source_id, [])
        self._counted.clear()

    def forget_failures(self) -> None:
        """Drop the recent failures: a new process does not know them."""
        self._counted.clear()
        self._must_restore.clear()
        self._may_restore.clear()
        self._enabled_again.clear()

    def check_all(self) -> None:
        """Check that all failures of an outage were given back."""
        for source_id in list(self._must_restore):
            record = self._state.sources[source_id]
            self._wrong("O2", record, "the failures of an outage were not given back")

    def _check_counts(
        self, record: SourceRecord, answer: VisitAnswer, stored: FailureCounts
    ) -> None:
        result, before = answer.result, counts_of(record)
        if result.local or (answer.outage is not None and result.kind == answer.outage):
            if stored != before:
                self._wrong("F6", record, f"stored {stored} after {result.kind}, had {before}")
            return
        # a later poll changed the source: no counts are restored any more
        self._must_restore.pop(record.id, None)
        self._may_restore.pop(record.id, None)
        if result.kind == "ok":
            self._storms.interrupted(record, succeeded=True)
            self._enabled_again.discard(record.id)
            expected = FailureCounts(0, 0, None, before.enabled or record.is_probation)
            if stored != expected:
                rule = "Y9" if record.is_probation else "F2"
                self._wrong(rule, record, f"stored {stored} after a success, expected {expected}")
        # a failure by which the engine notices the outage is not counted
        elif stored != before or result.kind != self._faults.outage:
            self._check_failure(record, answer, before, stored)
            self._add_failure(record, result.kind, before)

    def _check_failure(
        self,
        record: SourceRecord,
        answer: VisitAnswer,
        before: FailureCounts,
        stored: FailureCounts,
    ) -> None:
        """Check the counts after a failure of the source, or of its host (F2, F3, Y6)."""
        kind, permanent = answer.result.kind, answer.result.permanent
        counted = before.after_failure(kind, record.limit, permanent=permanent)
        spared = before._replace(failures=before.failures + 1, in_storm=True)
        had_succeeded = permanent and record.source.first_poll_done
        storm = self._storms.verdict_for(record, answer) if had_succeeded else StormVerdict.NO
        if stored == counted and storm is not StormVerdict.YES:
            if had_succeeded:
                self._storms.counted(record, kind, before, stored)
            elif not permanent:
                self._storms.interrupted(record, succeeded=False)
        elif stored == spared and storm is not StormVerdict.NO:
            self._storms.spared(record)
        else:
            rule = "Y6" if storm is not StormVerdict.NO or stored == spared else "F2"
            text = f"stored {stored} after {kind}, had {before}, storm: {storm.value}"
            self._wrong(rule, record, text)

    def _add_failure(self, record: SourceRecord, kind: str, before: FailureCounts) -> None:
        at = self._clock.monotonic()
        if kind == self._faults.outage:
            self._must_restore.setdefault(record.id, []).append(before)
            return
        self._counted.append((at, record.id, kind, before))
        while self._counted[0][0] <= at - 2 * WINDOW_SECONDS - _STORE_SECONDS:
            self._counted.popleft()

    def _check_last_polled(self, record: SourceRecord, after: Source, why: str) -> None:
        now, last = self._clock.now(), record.source.last_polled
        if why == "first contact" and last is None and after.last_polled is not None:
            interval = timedelta(minutes=after.poll_interval_minutes)
            valid = timedelta() <= now - after.last_polled <= interval
        else:
            in_future = last is not None and last > now + FUTURE
            valid = why == "clamped" and in_future and after.last_polled == now
        if not valid:
            self._wrong("S7", record, f"lastPolled became {after.last_polled} ({why})")

    def _check_edit(self, record: SourceRecord, after: Source) -> None:
        id_ = record.id
        allowed = self._must_restore.pop(id_, None) or self._may_restore.pop(id_, [])
        counts = FailureCounts.of(after)
        if self._storms.edited(record, counts):
            if counts.enabled != record.source.enabled:
                self._enabled_again.add(id_)
            return
        cleared = (counts.failures, counts.permanent) == (0, 0)
        unmarked = counts.in_storm in (False, record.source.in_storm)  # another URL clears it
        if counts not in (*allowed, counts_of(record)) and not (cleared and unmarked):
            self._wrong("F2", record, f"an edit left {counts}")

    def _wrong(self, rule: str, record: SourceRecord, what: str) -> None:
        self._state.violate(rule, record.lane, record.id, f"{record.id}: {what}")
