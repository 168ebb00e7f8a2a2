"""VirtualWeb: the network half of a poll, answered from a model of hosts, without a network."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from random import Random
from typing import Protocol

from headwater.engine.turns import VisitTurns
from headwater.errors import HostBusy, OnHold
from headwater.model import Answer, Entry, Source, Subject, Validators
from headwater.rules.politeness import host_of
from headwater.simulation.hosts import TRUTHS, Truth, VirtualHost, error_of
from headwater.simulation.loop import VirtualClock

_SHOWN = 3  # entries of a feed
_QUICK_SECONDS = 0.3
_PUBLISHED_DAYS = (1, 3, 7, 14, 30, 60)  # between two entries of a source
_UNEXPECTED, _CUT_OFF = TRUTHS["unexpected"], TRUTHS["timeout"]


class Trouble(StrEnum):
    """What can be wrong with the network as a whole, on our side of it."""

    SILENCE = "silence"  # no name server answers
    DENIAL = "denial"  # every name is said not to exist
    PORTAL = "portal"  # somebody else answers in everybody's name: 404


class Visits(Protocol):
    """Whoever watches the web."""

    def began(self, host: str, source_id: str, *, passing: bool) -> None:
        """A host is being asked; `passing`: on behalf of another one that sent us on."""
        ...

    def ended(self, host: str, source_id: str, truth: Truth, *, passing: bool) -> None:
        """The host is done with it."""
        ...

    def answered(self, host: str, source_id: str, truth: Truth) -> None:
        """The whole visit of a source is over: what came of it."""
        ...


class VirtualWeb:
    """Answers polls; `trouble` is the network's, `hosts` have their own."""

    def __init__(
        self, hosts: Mapping[str, VirtualHost], visits: Visits, clock: VirtualClock, rng: Random
    ) -> None:
        self._hosts = dict(hosts)
        self._visits = visits
        self._clock = clock
        self._rng = rng
        self._periods: dict[str, tuple[float, float]] = {}
        self._unchanged: dict[str, Answer] = {}
        self.trouble: Trouble | None = None

    async def __call__(
        self,
        subject: Subject,
        key: str | None,  # noqa: ARG002 - as `Fetch` has it
        *,
        turns: VisitTurns,
        now: datetime,  # noqa: ARG002
    ) -> Answer:
        """Visit a source as a fetcher would."""
        source = subject.source
        lane = turns.lane
        host, passed_on_to = self._host(lane), None
        truth = _UNEXPECTED
        try:
            truth = await self._visit(lane, host, source.id, passing=False)
            target = host.moved_to(self._clock.monotonic()) if host.goes_to else None
            if target is not None and truth.kind == "ok":
                passed_on_to = target
                truth = await self._passed_on(target, source.id, turns)
        except (HostBusy, OnHold) as error:
            truth = TRUTHS["busy" if isinstance(error, HostBusy) else "hold"]
            raise
        finally:
            self._visits.answered(lane, source.id, truth)
        if truth.kind != "ok":
            raise error_of(truth, passed_on_to or host_of(source) or "")
        return self._answer(source)

    async def _visit(self, lane: str, host: VirtualHost, source_id: str, *, passing: bool) -> Truth:
        self._visits.began(lane, source_id, passing=passing)
        truth = _CUT_OFF  # should it be
        try:
            seconds, truth = self._reply(host)
            await self._clock.after(seconds)
        finally:
            self._visits.ended(lane, source_id, truth, passing=passing)
        return truth

    async def _passed_on(self, target: str, source_id: str, turns: VisitTurns) -> Truth:
        async with turns.at(target):
            return await self._visit(target, self._host(target), source_id, passing=True)

    def _reply(self, host: VirtualHost) -> tuple[float, Truth]:
        if self.trouble is None:
            return host.visit(self._clock.monotonic(), self._rng)
        match self.trouble:
            case Trouble.SILENCE:
                return 5.0, TRUTHS["unresolved"]
            case Trouble.DENIAL:
                return 0.05, TRUTHS["DNS"]
            case Trouble.PORTAL:
                return 0.1, TRUTHS["404"]

    def _host(self, lane: str) -> VirtualHost:
        found = self._hosts.get(lane)
        if found is None:
            found = self._hosts[lane] = VirtualHost(lane, _QUICK_SECONDS)
        return found

    def _answer(self, source: Source) -> Answer:
        """The feed as it is now; unchanged if the newest entry is the one that was seen last."""
        period, phase = self._periods.get(source.id) or self._new_period(source.id)
        newest = int((self._clock.monotonic() + phase) / period)
        etag = f'"{newest}"'
        if source.validators.etag == etag:
            return self._same_as_before(etag)
        first = max(newest - _SHOWN + 1, 0)
        entries = tuple(_entry(source, number) for number in range(first, newest + 1))
        return Answer(200, entries, validators=Validators(etag), size=20_000, body_hash=etag)

    def _same_as_before(self, etag: str) -> Answer:
        known = self._unchanged.get(etag)
        if known is None:
            known = Answer(304, unchanged=True, validators=Validators(etag))
            self._unchanged[etag] = known
        return known

    def _new_period(self, source_id: str) -> tuple[float, float]:
        """How often a source has something new, and since when it counts."""
        period = 86_400.0 * self._rng.choice(_PUBLISHED_DAYS)
        self._periods[source_id] = (period, self._rng.random() * period)
        return self._periods[source_id]


def _entry(source: Source, number: int) -> Entry:
    url = f"{source.url}/{number}"
    return Entry(str(number), f"Entry {number}", url, None, None, f"The text of entry {number}.")
