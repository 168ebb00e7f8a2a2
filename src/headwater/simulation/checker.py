"""Checker: watches the virtual web and what is stored, and holds both against the specification.

It knows the engine from outside only: when hosts are asked, and what becomes of sources.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from headwater.clock import Clock
from headwater.model import Outcome, Source
from headwater.rules.policy import HoldScope, Policy
from headwater.simulation.books import Books
from headwater.simulation.hosts import Truth
from headwater.simulation.ledger import Account, Spot, account_of, passing_delay
from headwater.simulation.machine import Machine
from headwater.simulation.tally import Tally
from headwater.simulation.trail import Trail, Violation, told_at
from headwater.simulation.waiting import Waiting

TOLERANCE = 0.005  # seconds: stored moments are whole milliseconds

_SILENT = frozenset({"DNS", "unresolved", "unexpected"})  # after these no name had an address


class Checker:
    """All rules that must hold at every step; the first that does not ends the story."""

    def __init__(self, clock: Clock, policy: Policy, *, tick_seconds: float, slots: int) -> None:
        self.clock = clock
        self._policy = policy
        self.trail = Trail(clock)
        self.machine = Machine(slots)
        self.accounts: dict[str, Account] = {}
        self.spots: dict[str, Spot] = {}
        self.violation: Violation | None = None
        self.on_broken: Callable[[], None] = lambda: None
        self.polls = 0
        self.digest = 0  # of all that was asked, and when
        self._books = Books(self.accounts, self.machine, clock, self.broken)
        self.tally = Tally()
        self._waiting = Waiting(self, tick_seconds)

    def expect(self, sources: Iterable[tuple[Source, str]]) -> None:
        """Open an account for every source, given with its lane."""
        for source, lane in sources:
            account = self.accounts[source.id] = account_of(source, self._policy, lane)
            account.number, account.type = len(self.accounts), source.type
            spot = self.spot(lane)
            spot.most_delay = max(spot.most_delay, account.delay)

    def spot(self, host: str) -> Spot:
        """What is known of a host."""
        found = self.spots.get(host)
        if found is None:
            found = self.spots[host] = Spot(host)
        return found

    # what the web sees

    def began(self, host: str, source_id: str, *, passing: bool) -> None:
        """A host is being asked."""
        at, now, account = self.clock.monotonic(), self.clock.now(), self.accounts[source_id]
        spot = self.spots.get(host) or self.spot(host)
        spot.steps.append((at, now, "passing for" if passing else "asked for", source_id, ""))
        if not self.machine.up:
            self.broken("S8", host, source_id, "a request was sent after the end")
        if spot.guest is not None:
            told = f"{host} is asked for {source_id} while it still answers {spot.guest}"
            self.broken("P1", host, source_id, told)
        if host:
            self._check_gate(spot, account, at)
        spot.guest = source_id
        self.tally.asked(at)
        if not passing:
            self._begin(spot, account, at, now)

    def ended(self, host: str, source_id: str, truth: Truth, *, passing: bool) -> None:
        """A host is done with a request."""
        at, spot, account = self.clock.monotonic(), self.spots[host], self.accounts[source_id]
        spot.steps.append((at, self.clock.now(), "ended", source_id, truth.kind))
        spot.guest = None
        if truth.kind not in _SILENT:
            self.machine.good_at = at
        delay = account.delay
        if passing:
            delay = passing_delay(account.type, self._policy, spot.name)
        spot.rest(at + delay)
        if truth.hold is not None:
            self._hold(spot, account, at, min(truth.hold, account.cap * 60.0))

    def answered(self, host: str, source_id: str, truth: Truth) -> None:
        """The whole visit of a source is over."""
        account = self.accounts[source_id]
        self.spots[host].rest(self.clock.monotonic() + account.delay)
        self.machine.flying -= 1
        self._books.answered(account, truth)

    # what is stored

    def recorded(self, outcome: Outcome, after: Source) -> None:
        """A poll was stored."""
        account = self.accounts[after.id]
        if after.consecutive_failures or not after.enabled:
            self._note(account, "stored, failures:", after.consecutive_failures)
        self._books.recorded(account, outcome, after)

    def discarded(self, outcome: Outcome) -> None:
        """A poll's result was thrown away."""
        account = self.accounts[outcome.source.id]
        self._note(account, "discarded")
        self._books.lost(account, self.spot(account.lane), clean=True)

    def rewritten(self, before: Source, after: Source, why: str) -> None:
        """A source was changed by something else than a poll."""
        account = self.accounts[after.id]
        self._note(account, why)
        self._books.rewritten(account, before, after, why)

    # what befalls the machine

    def started(self) -> None:
        """A process begins."""
        self.machine.start(self.clock.monotonic())
        self.trail.befell("start")

    def stopped(self, *, clean: bool) -> None:
        """The process has ended."""
        self.machine.stop(self.clock.monotonic(), clean=clean)
        self.trail.befell("stop" if clean else "kill")
        self._books.forget_failures()
        for account in self.accounts.values():
            if account.pending:
                self._books.lost(account, self.spot(account.lane), clean=clean)

    def upset(self, what: str, seconds: float) -> None:
        """The clock was set, or the machine slept."""
        at = self.clock.monotonic()
        self.machine.upset(at, what, seconds)
        self._waiting.comes_back(at)
        self.trail.befell(what, f"{seconds:+.0f} s")

    def trouble(self, kind: str | None) -> None:
        """The network broke, or is well again."""
        self.machine.trouble(self.clock.monotonic(), kind)
        self.trail.befell("network" if kind is None else f"network trouble: {kind}")

    def outage(self, kind: str | None) -> None:
        """The engine says that it noticed an outage of its own, or its end."""
        self.trail.befell("outage over" if kind is None else f"outage noticed: {kind}")
        at = self.clock.monotonic()
        if kind is None:
            self.machine.outage_over()
            self._waiting.comes_back(at)
        else:
            self.machine.outage_noticed(at, kind)
            self._books.outage_noticed(kind)

    def look_around(self) -> None:
        """Look at everything at once: what should have happened, and did not."""
        self._waiting.look_around(self.clock.monotonic(), self.clock.now())
        self._books.look_around()

    def disabled_in_trouble(self) -> int:
        """How many sources were switched off for what the network did to them."""
        return sum(not a.enabled and a.ended_in_trouble for a in self.accounts.values())

    def _note(self, account: Account, what: str, detail: object = "") -> None:
        step = (self.clock.monotonic(), self.clock.now(), what, account.id, detail)
        self.spot(account.lane).steps.append(step)

    def _begin(self, spot: Spot, account: Account, at: float, now: datetime) -> None:
        self.polls += 1
        self.digest = (self.digest * 1_000_003 ^ int(at * 1000) ^ account.number) & 0xFFFFFFFFFFFF
        if account.requested:
            spot.began_at = at
        else:
            self._check_due(spot, account, at, now)
        account.spent = account.last_polled
        account.pending = True
        self.machine.take_off(at)

    def _check_due(self, spot: Spot, account: Account, at: float, now: datetime) -> None:
        due = account.due_at
        if not account.enabled:
            self.broken("S4", spot.name, account.id, "a disabled source is polled")
        if due is None or now < due:
            told = f"{account.id} is polled before it is due: {account.failures} failures, "
            told += f"{account.rest()} min after {account.last_polled}"
            self.broken("S2", spot.name, account.id, told)
            return
        if account.spent is not None and account.spent == account.last_polled:
            self.broken("S2", spot.name, account.id, "a second poll for one due time")
        self._waiting.begins(spot, account, due, at, now)

    def _check_gate(self, spot: Spot, account: Account, at: float) -> None:
        if at < spot.free_at - TOLERANCE:
            told = f"{spot.name} is asked {spot.free_at - at:.3f} s before its delay is over"
            self.broken("P3", spot.name, account.id, told)
        held_until = max(spot.held_until, account.held_until)
        if at < held_until - TOLERANCE and not self.machine.jumped_ahead_since(spot.held_since):
            told = f"{spot.name} is asked while on hold until {told_at(held_until)}"
            self.broken("P9", spot.name, account.id, told)

    def _hold(self, spot: Spot, account: Account, at: float, seconds: float) -> None:
        if self._policy.hold_scope(spot.name) is HoldScope.SOURCE and "/" not in spot.name:
            account.held_until = at + seconds
            return
        spot.held_before, spot.held_by = spot.held_until, account.id
        spot.held_since, spot.held_until = at, at + seconds

    def broken(self, rule: str, host: str, source_id: str, what: str) -> None:
        """Note the first rule that did not hold, and let the story end."""
        if self.violation is None:
            at, story = self.clock.monotonic(), self.trail.story(self.spot(host).steps)
            self.violation = Violation(rule, what, host, source_id, at, story)
            self.on_broken()
