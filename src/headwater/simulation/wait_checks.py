"""WaitChecks: no source waits longer than delays, holds and downtime explain (S6, P3, O2)."""

from collections import Counter
from datetime import datetime

from headwater.simulation.checker_state import FUTURE, CheckerState, LaneRecord, SourceRecord

PROBE_SECONDS = 30.0  # O2
SPREAD_SECONDS = 300.0  # over which lanes resume after an outage
LANES_PER_SECOND = 10.0
OUTAGE_END_SECONDS = 900.0  # within which the engine must notice the end of an outage
_GRACE_SECONDS = 2.0
_TOLERANCE = 0.005


class WaitChecks:
    """Compares how late polls start with how late they may start."""

    def __init__(self, state: CheckerState, tick_seconds: float) -> None:
        self._state = state
        self._faults = state.fault_history
        self._tick = tick_seconds
        self._max_resumed = 0.0  # lanes that may resume in one second
        self._resumed: Counter[int] = Counter()  # lanes by second

    def poll_started(
        self, lane: LaneRecord, record: SourceRecord, due: datetime, at: float, now: datetime
    ) -> None:
        """Check the start of a poll of a source that was due by time."""
        late = (now - due).total_seconds()
        lane.began_at, lane.last_due = at, due
        faults = self._faults
        if self.check_probe(lane, record, at):
            return
        possible_at = max(
            at - late, faults.up_since, faults.resumed_at, lane.held_until, record.held_until
        )
        self._state.request_counts.add_wait(at - possible_at, lane.name)
        if late > self._tick:
            latest = self._latest(lane, record, at - late)
            if at > latest:
                text = f"{record.id} was due for {late:.1f} s, {at - latest:.1f} s too long"
                self._state.violate("S6", lane.name, record.id, text)
        if at - faults.resumed_at < 2 * SPREAD_SECONDS:
            self._check_resume(lane, record, at, at - late)

    def check_probe(self, lane: LaneRecord, record: SourceRecord, at: float) -> bool:
        """Check that probes of an outage are rare; False if there is no outage (O2)."""
        faults = self._faults
        if faults.outage is None:
            return False
        if at - faults.probed_at < PROBE_SECONDS - _TOLERANCE and at > faults.outage_at:
            text = f"{at - faults.probed_at:.1f} s after another probe of an outage"
            self._state.violate("O2", lane.name, record.id, text)
        faults.probed_at = at
        return True

    def resume(self, at: float) -> None:
        """Limit how many lanes may resume per second from now on (O2, O4)."""
        self._faults.resumed_at = at
        self._faults.resumes += 1
        now = self._state.clock.now()
        sources = self._state.sources.values()
        lanes = {s.lane for s in sources if s.due_at and s.due_at <= now}
        per_second = max(LANES_PER_SECOND, len(lanes) / SPREAD_SECONDS)
        self._max_resumed = 3 * per_second + 10
        self._resumed.clear()

    def check_all(self, at: float, now: datetime) -> None:
        """Find sources that should have been polled."""
        faults = self._faults
        if not faults.up:
            return
        if faults.outage is not None:
            ok_for = at - max(faults.network_ok_since, faults.outage_at, faults.clock_changed_at)
            if faults.network_fault is None and ok_for > OUTAGE_END_SECONDS:
                self._state.violate("O2", "", "", "the end of the outage was not noticed")
            return
        changed_at = max(faults.clock_changed_at, faults.up_since)
        future = now + FUTURE
        for record in self._state.sources.values():
            due, last = record.due_at, record.source.last_polled
            if due is None or last is None:
                continue
            is_ahead = record.source.enabled and last > future  # the clock was set back (S2)
            if is_ahead and at > changed_at + self._tick + _GRACE_SECONDS:
                text = f"lastPolled of {record.id} is {last}, in the future"
                self._state.violate("S2", record.lane, record.id, text)
            if due > now or record.pending:
                continue
            lane, late = self._state.lane(record.lane), (now - due).total_seconds()
            if lane.visiting is None and at > self._latest(lane, record, at - late):
                text = f"{record.id} is due for {late:.0f} s and not polled"
                self._state.violate("S6", lane.name, record.id, text)
            last_due, settled = lane.last_due, lane.began_at > changed_at + self._tick
            overtaken = last_due is not None and (last_due - due).total_seconds() > self._tick
            if overtaken and settled and at - late < lane.began_at - 2 * self._tick:
                text = f"{record.id} is due for {late:.0f} s, and others of its lane overtook it"
                self._state.violate("P1", lane.name, record.id, text)

    def _latest(self, lane: LaneRecord, record: SourceRecord, due_at: float) -> float:
        """Return the time by which a poll must have started."""
        faults = self._faults
        start = max(
            due_at,
            lane.free_at,
            lane.held_until,
            self._held_until(record),
            record.edited_at,
            faults.up_since,
            faults.full_at,
            faults.resumed_at + SPREAD_SECONDS,
            faults.up_since + lane.max_delay,  # a delay starts again after a kill (P3)
        )
        if faults.up_since > lane.held_since and faults.set_back_at > lane.held_since:
            # after a clock set back, a stored hold starts again with the process (O4)
            start = max(start, faults.up_since + lane.held_until - lane.held_since)
        return start + self._tick + _GRACE_SECONDS

    def _held_until(self, record: SourceRecord) -> float:
        """Return when the hold of a source ends; it is stored as a time of the wall clock."""
        longer = self._faults.set_back_since(record.held_since)
        return record.held_until + min(longer, record.held_until - record.held_since)

    def _check_resume(
        self, lane: LaneRecord, record: SourceRecord, at: float, due_at: float
    ) -> None:
        faults = self._faults
        if due_at > faults.resumed_at or lane.resumed_in == faults.resumes:
            return
        if faults.just_started:
            return  # lanes are not spread after a start
        lane.resumed_in = faults.resumes
        self._resumed[int(at)] += 1
        if self._resumed[int(at)] > self._max_resumed:
            text = f"{self._resumed[int(at)]} hosts in one second after an outage, a sleep or "
            text += "a clock set forward"
            self._state.violate("O2", lane.name, record.id, text)
