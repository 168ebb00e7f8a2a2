"""Waiting: nobody waits longer than somebody's delay, hold or absence explains, nor all at once."""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.simulation.ledger import FUTURE, Account, Spot

if TYPE_CHECKING:
    from headwater.simulation.checker import Checker

PROBE_SECONDS = 30.0  # O2
SPREAD_SECONDS = 300.0  # over which lanes come back after an outage
LANES_PER_SECOND = 10.0
BACK_SECONDS = 900.0  # by when an outage must be known to be over
_GRACE_SECONDS = 2.0
_TOLERANCE = 0.005


class Waiting:
    """How late polls begin, and how late they may."""

    def __init__(self, checker: "Checker", tick_seconds: float) -> None:
        self._checker = checker
        self._machine = checker.machine
        self._tick = tick_seconds
        self._allowance = 0.0  # lanes that may come back in one second after an outage
        self._returned: Counter[int] = Counter()

    def begins(self, spot: Spot, account: Account, due: datetime, at: float, now: datetime) -> None:
        """A source that was due is polled."""
        late = (now - due).total_seconds()
        spot.began_at, spot.last_due = at, due
        if self._machine.outage is not None:
            self._check_probe(spot, account, at)
            return
        self._checker.tally.waited(at - self._wanted_at(spot, account, at - late), spot.name)
        if late > self._tick:  # else it needs no excuse
            self._check_lateness(spot, account, late, at)
        if at - self._machine.back_at < 2 * SPREAD_SECONDS:
            self._check_return(spot, account, at, at - late)

    def comes_back(self, at: float) -> None:
        """From here on lanes come back, a few each second (O2, O4)."""
        self._machine.comes_back(at)
        now = self._checker.clock.now()
        accounts = self._checker.accounts.values()
        lanes = {a.lane for a in accounts if a.enabled and a.due_at and a.due_at <= now}
        per_second = max(LANES_PER_SECOND, len(lanes) / SPREAD_SECONDS)
        self._allowance = 3 * per_second + 10
        self._returned.clear()

    def look_around(self, at: float, now: datetime) -> None:
        """Find sources whose turn should have come."""
        machine = self._machine
        if not machine.up:
            return
        if machine.outage is not None:
            well_for = at - max(machine.well_since, machine.outage_at, machine.upset_at)
            if machine.in_trouble is None and well_for > BACK_SECONDS:
                self._checker.broken("O2", "", "", "the outage is over, and nobody noticed")
            return
        settled = at > max(machine.upset_at, machine.up_since) + self._tick + _GRACE_SECONDS
        future = now + FUTURE
        for account in self._checker.accounts.values():
            due, last = account.due_at, account.last_polled
            if due is None or last is None or not account.enabled:
                continue
            if settled and last > future:  # as a clock that was set back leaves it (S2)
                told = f"{account.id} is silent until {last}, which is to come"
                self._checker.broken("S2", account.lane, account.id, told)
            if due <= now and not account.pending:
                self._look(self._checker.spot(account.lane), account, due, at, now)

    def _look(self, spot: Spot, account: Account, due: datetime, at: float, now: datetime) -> None:
        late = (now - due).total_seconds()
        latest = self._latest(spot, account, at - late)
        if spot.guest is None and at > latest:
            told = f"{account.id} is due for {late:.0f} s and nobody polls it"
            self._checker.broken("S6", spot.name, account.id, told)
        overtaken = spot.last_due is not None and (spot.last_due - due).total_seconds() > self._tick
        settled = spot.began_at > max(self._machine.upset_at, self._machine.up_since) + self._tick
        if overtaken and settled and at - late < spot.began_at - 2 * self._tick:
            told = f"{account.id} is due for {late:.0f} s, and others of its lane overtook it"
            self._checker.broken("P1", spot.name, account.id, told)

    def _wanted_at(self, spot: Spot, account: Account, due_at: float) -> float:
        """From when on a source could be polled: due, while up, awake, online and not on hold."""
        machine = self._machine
        return max(due_at, machine.up_since, machine.back_at, spot.held_until, account.held_until)

    def _check_lateness(self, spot: Spot, account: Account, late: float, at: float) -> None:
        latest = self._latest(spot, account, at - late)
        if at > latest:
            told = (
                f"{account.id} was due for {late:.1f} s, {at - latest:.1f} s longer than it had to"
            )
            self._checker.broken("S6", spot.name, account.id, told)

    def _latest(self, spot: Spot, account: Account, due_at: float) -> float:
        """The moment by which a poll must have begun, with all that can excuse it."""
        machine = self._machine
        begin = max(
            due_at,
            spot.free_at,
            spot.held_until,
            account.held_until,
            account.asked_at,
            machine.up_since,
            machine.full_at,
            machine.back_at + SPREAD_SECONDS,
            machine.up_since + spot.most_delay,  # kept once more after a kill (P3)
        )
        if machine.up_since > spot.held_since and machine.set_back_at > spot.held_since:
            # a clock set back makes a stored hold count anew from the start (O4)
            begin = max(begin, machine.up_since + spot.held_until - spot.held_since)
        return begin + self._tick + _GRACE_SECONDS

    def _check_probe(self, spot: Spot, account: Account, at: float) -> None:
        machine = self._machine
        if at - machine.probed_at < PROBE_SECONDS - _TOLERANCE and at > machine.outage_at:
            told = f"{at - machine.probed_at:.1f} s after another probe of an outage"
            self._checker.broken("O2", spot.name, account.id, told)
        machine.probed_at = at

    def _check_return(self, spot: Spot, account: Account, at: float, due_at: float) -> None:
        machine = self._machine
        if due_at > machine.back_at or spot.returned_after == machine.returns:
            return
        if machine.is_beginning:
            return  # it is in a hurry
        spot.returned_after = machine.returns
        self._returned[int(at)] += 1
        if self._returned[int(at)] > self._allowance:
            told = f"{self._returned[int(at)]} hosts in one second after an outage, a sleep or "
            told += "a clock set forward"
            self._checker.broken("O2", spot.name, account.id, told)
