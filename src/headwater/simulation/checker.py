"""Checker: compares requests and stored state with the specification.

It sees the engine only from outside: its requests to hosts and its writes to the store.
"""

from datetime import datetime

from headwater.clock import Clock
from headwater.rules.policy import Policy
from headwater.simulation.checker_state import (
    CheckerState,
    LaneRecord,
    SourceRecord,
    VisitAnswer,
    redirect_delay,
)
from headwater.simulation.event_trail import TrailStep, format_time
from headwater.simulation.incident_checks import IncidentChecks
from headwater.simulation.message_checks import MessageChecks
from headwater.simulation.move_checks import MoveChecks
from headwater.simulation.page_checks import PageChecks
from headwater.simulation.search_checks import SearchChecks
from headwater.simulation.shared_checks import SharedChecks
from headwater.simulation.state_checks import StateChecks
from headwater.simulation.storm_checks import StormChecks
from headwater.simulation.virtual_hosts import VisitResult
from headwater.simulation.wait_checks import WaitChecks

TOLERANCE = 0.005  # seconds: stored times are whole milliseconds
_UNRESOLVED = frozenset({"DNS", "unresolved", "unexpected"})  # no name had an address


class Checker(CheckerState):
    """Checks all rules at every step."""

    def __init__(self, clock: Clock, policy: Policy, *, tick_seconds: float, slots: int) -> None:
        super().__init__(clock, policy, slots)
        self.digest = 0  # of all polls and their times
        self._wait_checks = WaitChecks(self, tick_seconds)
        self._page_checks = PageChecks(self)
        self._shared_checks = SharedChecks(self, tick_seconds)
        self.move_checks = MoveChecks(self)
        self._storm_checks = StormChecks(self, tick_seconds)
        self.incident_checks = IncidentChecks(self, self._storm_checks, tick_seconds)
        self.search_checks = SearchChecks(self, self._storm_checks)
        self.message_checks = MessageChecks(self, tick_seconds)
        self.state_checks = StateChecks(
            self,
            self._page_checks,
            self._shared_checks,
            self.move_checks,
            self._storm_checks,
            self.incident_checks,
            self.search_checks,
            self.message_checks,
        )

    # requests, as reported by VirtualWeb

    def request_started(
        self,
        host: str,
        source_id: str,
        *,
        redirected: bool,
        page: str | None = None,
        is_search: bool = False,
    ) -> None:
        """Check that the host may be asked now, and count the request.

        `page`: its URL if it is not the source (T4); `is_search`: it is a step of a search (Y5).
        """
        at, now, record = self.clock.monotonic(), self.clock.now(), self.sources[source_id]
        lane = self.lane(host)
        what = "redirected for" if redirected else "asked for"
        lane.steps.append(TrailStep(at, now, what, source_id))
        if not self.fault_history.up:
            self.violate("S8", host, source_id, "a request after the process ended")
        if lane.visiting is not None:
            text = f"{host} is asked for {source_id} during the request for {lane.visiting}"
            self.violate("P1", host, source_id, text)
        if host:
            self._check_lane_is_free(lane, record, at)
        lane.visiting = source_id
        self.request_counts.add_request(at)
        if redirected:
            return
        if page is None:
            self._start_poll(lane, record, at, now)
        else:
            lane.max_delay = max(lane.max_delay, self._delay(lane, record))
            if is_search:
                self.search_checks.visit_started(lane, record, page)
            else:
                self._page_checks.visit_started(lane, record, page, at)
            self._wait_checks.check_probe(lane, record, at)
            self._visit_started(at)

    def request_ended(
        self,
        host: str,
        source_id: str,
        result: VisitResult,
        *,
        redirected: bool,
        page: str | None = None,
    ) -> None:
        """Start the host's delay, and its hold if it asked for one."""
        at, lane, record = self.clock.monotonic(), self.lane(host), self.sources[source_id]
        lane.steps.append(TrailStep(at, self.clock.now(), "ended", source_id, result.kind))
        lane.visiting = None
        if result.kind not in _UNRESOLVED:
            self.fault_history.resolved_at = at
        delay = self._delay(lane, record)
        if redirected:
            delay = redirect_delay(record.source.type, self.policy, lane.name)
        lane.rest(at + delay)
        if result.hold is not None:
            self._hold(lane, record, page, at, min(result.hold, record.cap * 60.0))

    def visit_ended(
        self,
        host: str,
        source_id: str,
        result: VisitResult,
        *,
        page: str | None = None,
        is_search: bool = False,
    ) -> None:
        """Start the delay of the visited host, and remember the result of a poll."""
        at, record, lane = self.clock.monotonic(), self.sources[source_id], self.lane(host)
        lane.rest(at + self._delay(lane, record))
        self.fault_history.in_flight -= 1
        self.request_counts.visit_ended(at)
        if page is not None:
            if is_search and result.kind in ("busy", "hold"):
                self.search_checks.visit_interrupted(source_id)
            return
        storm = self._storm_checks.verdict(record, result)
        record.answer = VisitAnswer(result, self.fault_history.outage, storm)
        record.expected_at = self.clock.now()
        self._shared_checks.request_ended(record)

    # faults

    def started(self) -> None:
        """Note that a process starts; it knows of no outage."""
        at, faults = self.clock.monotonic(), self.fault_history
        faults.up, faults.up_since, faults.outage = True, at, None
        faults.down_seconds += at - faults.down_since
        self.note_fault("start")

    def stopped(self, *, clean: bool) -> None:
        """Note that the process ended."""
        faults = self.fault_history
        faults.up, faults.down_since, faults.outage = False, self.clock.monotonic(), None
        self.note_fault("stop" if clean else "kill")
        self.state_checks.forget_failures()
        self._page_checks.stopped(clean=clean)
        self.search_checks.stopped(clean=clean)
        self._shared_checks.stopped()
        self._storm_checks.stopped()
        for record in self.sources.values():
            if record.pending:
                self.state_checks.poll_lost(record, clean=clean)

    def clock_set(self, seconds: float) -> None:
        """Note that the wall clock was set forward or back."""
        at, faults = self.clock.monotonic(), self.fault_history
        faults.clock_changed(at, began=at)
        if seconds < 0:
            faults.set_back_at = at
            faults.set_back_steps.append((at, -seconds))
        else:
            faults.set_forward_at = at
        self._wait_checks.resume(at)
        self.note_fault("clock set", f"{seconds:+.0f} s")

    def slept(self, seconds: float) -> None:
        """Note that the machine slept and woke now."""
        at = self.clock.monotonic()
        self.fault_history.clock_changed(at, began=at - seconds)
        self.fault_history.slept_seconds += seconds
        self._wait_checks.resume(at)
        self.note_fault("slept", f"{seconds:+.0f} s")

    def network_changed(self, fault: str | None) -> None:
        """Note that the network failed, or works again."""
        self.fault_history.network_fault = fault
        if fault is None:
            self.fault_history.network_ok_since = self.clock.monotonic()
        self.note_fault("network works" if fault is None else f"network fault: {fault}")

    def outage_changed(self, kind: str | None) -> None:
        """Note that the engine detected an outage of our network, or its end."""
        self.note_fault("outage over" if kind is None else f"outage noticed: {kind}")
        at, faults = self.clock.monotonic(), self.fault_history
        faults.outage = kind
        if kind is None:
            faults.outages += 1
            self._wait_checks.resume(at)
        else:  # from now on it only probes
            faults.outage_at, faults.probed_at = at, float("-inf")
            self.state_checks.outage_noticed(kind)

    def check_all(self) -> None:
        """Check every source for steps that should have happened and did not."""
        self._wait_checks.check_all(self.clock.monotonic(), self.clock.now())
        self.state_checks.check_all()
        self._page_checks.check_all(self.clock.monotonic())
        self._storm_checks.check_all()
        self.incident_checks.check_all()
        self.search_checks.check_all()
        self.message_checks.check_all()

    def _start_poll(self, lane: LaneRecord, record: SourceRecord, at: float, now: datetime) -> None:
        self.polls += 1
        self.digest = combined_digest(self.digest, int(at * 1000) ^ record.number)
        if record.source.requested_at is not None:
            lane.began_at = at
        else:
            self._check_due(lane, record, at, now)
        self._shared_checks.request_started(record, at, now)
        self._storm_checks.poll_started(record, at)
        record.due_used = record.source.last_polled
        record.pending = True
        self._visit_started(at)

    def _visit_started(self, at: float) -> None:
        self.fault_history.poll_started(at)
        self.request_counts.visit_started(at)

    def _check_due(self, lane: LaneRecord, record: SourceRecord, at: float, now: datetime) -> None:
        due, last = record.due_at, record.source.last_polled
        record.is_probation = not record.source.enabled
        if record.is_probation and (due is None or now < due):
            rule, when = ("S4", "never") if due is None else ("Y9", due)
            text = f"{record.id} was disabled at {record.source.disabled_at}, its next poll: {when}"
            self.violate(rule, lane.name, record.id, text)
            return
        if due is None or now < due:
            text = f"{record.id} is polled before it is due: "
            text += f"{record.source.consecutive_failures} failures, "
            text += f"{record.effective_minutes()} min after {last}"
            self.violate("S2", lane.name, record.id, text)
            return
        if record.due_used is not None and record.due_used == last:
            self.violate("S2", lane.name, record.id, "a second poll for one due time")
        self._wait_checks.poll_started(lane, record, due, at, now)

    def _check_lane_is_free(self, lane: LaneRecord, record: SourceRecord, at: float) -> None:
        if at < lane.free_at - TOLERANCE:
            text = f"{lane.name} is asked {lane.free_at - at:.3f} s before its delay is over"
            self.violate("P3", lane.name, record.id, text)
        held_until = max(lane.held_until, record.held_until)
        jumped = self.fault_history.clock_jumped_since(lane.held_since)
        if at < held_until - TOLERANCE and not jumped:
            text = f"{lane.name} is asked while on hold until {format_time(held_until)}"
            self.violate("P9", lane.name, record.id, text)

    def _delay(self, lane: LaneRecord, record: SourceRecord) -> float:
        """The pause after a visit: a source's own delay is only for its own host (P2)."""
        if lane.name == record.lane:
            return record.delay
        return redirect_delay(record.source.type, self.policy, lane.name)

    def _hold(
        self, lane: LaneRecord, record: SourceRecord, page: str | None, at: float, seconds: float
    ) -> None:
        if self.is_held_by_source(lane.name):
            if page is None:
                record.held_since, record.held_until = at, at + seconds
            else:
                self._page_checks.held(record, page, at + seconds)
            return
        lane.held_before, lane.held_by = lane.held_until, page or record.id
        lane.held_since, lane.held_until = at, at + seconds


def combined_digest(digest: int, number: int) -> int:
    """Return the digest of a sequence that ends with this number."""
    return (digest * 1_000_003 ^ number) & 0xFFFFFFFFFFFF
