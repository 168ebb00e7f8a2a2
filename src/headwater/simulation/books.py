"""Books: what polls must change of a source, and what nothing else may (S2, S7, P6, F2-F4, O2)."""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from headwater.clock import Clock
from headwater.model import Outcome, Source
from headwater.simulation.hosts import Truth
from headwater.simulation.ledger import FUTURE, Account, Spot
from headwater.simulation.machine import Machine

WINDOW_SECONDS = 600.0  # O2: how far back failures are given back
_BLUR_SECONDS = 1.0  # storing takes a moment
Broken = Callable[[str, str, str, str], None]


class Counts(NamedTuple):
    """What failures move."""

    failures: int
    permanent: int
    kind: str | None
    enabled: bool


class Books:
    """Compares what is stored with what the answers of the web demand."""

    def __init__(
        self, accounts: Mapping[str, Account], machine: Machine, clock: Clock, broken: Broken
    ) -> None:
        self._accounts = accounts
        self._machine = machine
        self._clock = clock
        self._broken = broken
        self._counted: deque[tuple[float, str, str, Counts]] = deque()
        self._owed: dict[str, list[Counts]] = {}  # what an outage took from sources
        self._perhaps: dict[str, list[Counts]] = {}  # and what it may have taken

    def answered(self, account: Account, truth: Truth) -> None:
        """Remember what really came of a visit, and when."""
        machine = self._machine
        account.answer = (truth, machine.outage, machine.in_trouble is not None)
        account.expected_at = self._clock.now()

    def recorded(self, account: Account, outcome: Outcome, after: Source) -> None:
        """Hold what was stored against what came."""
        if account.answer is None:
            raise LookupError(f"{account.id} was stored without a visit")
        truth, outage, in_trouble = account.answer
        account.pending, account.answer = False, None
        if after.last_polled != account.expected_at:
            self._wrong("S7", account, f"lastPolled is {after.last_polled} after its poll")
        if truth.kind == "ok":
            self._check_success(account, after)
        else:
            self._check_failure(account, truth, outage, _counts_of(account), _counts(after))
        if account.enabled and not after.enabled:
            self._check_end(account, after, in_trouble=in_trouble)
        if outcome.posts:
            self._check_posts(account, outcome)
        self._take_over(account, after)
        account.requested = False

    def rewritten(self, account: Account, before: Source, after: Source, why: str) -> None:
        """Only first contact and a clock set back may write `lastPolled` beside polls (S7)."""
        now = self._clock.now()
        if before.last_polled != after.last_polled:
            self._check_rewriting(account, after, why)
        account.asked_at = self._clock.monotonic()
        if why == "requested":
            account.requested = True
        elif why == "edited":
            self._check_edit(account, after)
            account.requested = after.requested_at is not None
        account.spent = None if after.last_polled == now else account.spent
        self._take_over(account, after)

    def lost(self, account: Account, spot: Spot, *, clean: bool) -> None:
        """A poll ended with its process: it may be done again."""
        account.pending, account.spent, account.answer = False, None, None
        if spot.held_by == account.id and not clean:
            spot.held_until = spot.held_before  # nobody could know of it after a kill

    def outage_noticed(self, kind: str) -> None:
        """What failed of its kind since the last good answer is owed to the sources (O2)."""
        at = self._clock.monotonic()
        since = max(min(at - WINDOW_SECONDS, self._machine.good_at), at - 2 * WINDOW_SECONDS)
        for failed_at, source_id, failed_as, before in self._counted:
            if failed_as == kind:
                surely = failed_at > since + _BLUR_SECONDS
                owed = self._owed if surely or source_id in self._owed else self._perhaps
                owed.setdefault(source_id, []).append(before)
        for source_id in self._owed:
            self._owed[source_id] += self._perhaps.pop(source_id, [])
        self._counted.clear()

    def forget_failures(self) -> None:
        """A new process does not know what the one before it counted."""
        self._counted.clear()
        self._owed.clear()
        self._perhaps.clear()

    def look_around(self) -> None:
        """Nothing may be owed for long."""
        for source_id in list(self._owed):
            account = self._accounts[source_id]
            self._wrong("O2", account, "the failures of an outage were not given back")

    def _check_success(self, account: Account, after: Source) -> None:
        if self._owed or self._perhaps:
            self._settle(account)
        if after.consecutive_failures != 0 or after.permanent_failures != 0:
            self._wrong("F2", account, f"stored {_counts(after)} after a success")
        if after.enabled != account.enabled or after.permanent_kind is not None:
            self._wrong("F2", account, f"stored {_counts(after)} after a success")

    def _check_failure(
        self, account: Account, truth: Truth, outage: str | None, before: Counts, stored: Counts
    ) -> None:
        counted = _failed(account, truth, before)
        explained = truth.local or (outage is not None and truth.kind == outage)
        if explained:
            self._check("F6", account, stored, before)
            return
        self._settle(account)
        if stored != before or truth.kind != self._machine.outage:  # not noticed by this very one
            self._check("F2", account, stored, counted)
            self._note(account, truth.kind, before)

    def _settle(self, account: Account) -> None:
        """Something else happened to a source: what it is owed is gone."""
        self._owed.pop(account.id, None)
        self._perhaps.pop(account.id, None)

    def _note(self, account: Account, kind: str, before: Counts) -> None:
        at = self._clock.monotonic()
        if kind == self._machine.outage:
            self._owed.setdefault(account.id, []).append(before)
            return
        self._counted.append((at, account.id, kind, before))
        while self._counted[0][0] <= at - 2 * WINDOW_SECONDS - _BLUR_SECONDS:
            self._counted.popleft()

    def _check(self, rule: str, account: Account, stored: Counts, wanted: Counts) -> None:
        if stored != wanted:
            self._wrong(rule, account, f"stored {stored}, which should be {wanted}")

    def _check_end(self, account: Account, after: Source, *, in_trouble: bool) -> None:
        reason = f"Auto-disabled after {after.permanent_failures} consecutive "
        reason += f"{after.permanent_kind} errors"
        if after.disabled_reason != reason:
            self._wrong("F3", account, f"disabled for {after.disabled_reason!r}")
        account.ended_in_trouble = in_trouble

    def _check_posts(self, account: Account, outcome: Outcome) -> None:
        for post in outcome.posts:
            if post.content_hash in account.posts:
                self._wrong("D1", account, "a post was stored twice")
            account.posts.add(post.content_hash)

    def _check_rewriting(self, account: Account, after: Source, why: str) -> None:
        now, last = self._clock.now(), account.last_polled
        if why == "first contact" and last is None and after.last_polled is not None:
            fits = timedelta() <= now - after.last_polled <= timedelta(minutes=account.interval)
        else:
            late = last is not None and last > now + FUTURE
            fits = why == "brought back" and late and after.last_polled == now
        if not fits:
            self._wrong("S7", account, f"lastPolled became {after.last_polled} ({why})")

    def _check_edit(self, account: Account, after: Source) -> None:
        owed = self._owed.pop(account.id, None) or self._perhaps.pop(account.id, [])
        counts = _counts(after)
        cleared = (counts.failures, counts.permanent) == (0, 0)
        if counts not in owed and not cleared and counts != _counts_of(account):
            self._wrong("F2", account, f"an edit left {counts}")

    def _take_over(self, account: Account, after: Source) -> None:
        account.last_polled, account.enabled = after.last_polled, after.enabled
        account.failures = after.consecutive_failures
        account.permanent, account.kind = after.permanent_failures, after.permanent_kind
        account.settle()

    def _wrong(self, rule: str, account: Account, what: str) -> None:
        self._broken(rule, account.lane, account.id, f"{account.id}: {what}")


def _counts(source: Source) -> Counts:
    return Counts(
        source.consecutive_failures,
        source.permanent_failures,
        source.permanent_kind,
        source.enabled,
    )


def _counts_of(account: Account) -> Counts:
    return Counts(account.failures, account.permanent, account.kind, account.enabled)


def _failed(account: Account, truth: Truth, before: Counts) -> Counts:
    """What a failure that counts must leave behind (F2, F3)."""
    if not truth.permanent:
        return Counts(before.failures + 1, 0, None, before.enabled)
    permanent = before.permanent + 1
    same = before.permanent == 0 or before.kind == truth.kind
    kind = truth.kind if same else "permanent"
    enabled = before.enabled and permanent < account.limit
    return Counts(before.failures + 1, permanent, kind, enabled)
