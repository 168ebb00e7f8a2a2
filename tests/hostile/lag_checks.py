"""Checks of event-loop stalls and of the healthy client's delays, less machine load (H2, H3)."""

import math
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tests.hostile.healthy_client import ClientRound, TimedRequest
from tests.hostile.memory_probe import Sample

_STALL_SECONDS = 0.25  # H2
_MOST_EXCUSED_SECONDS = 0.5  # of a stall, for delays known of the machine but not of the thread
_TURNS = 500  # per second, of a thread that waits for the interpreter lock
_MOST_MISSED = 0.1  # of the scheduled polls, one a second
_STALL = re.compile(
    r"^(\S+) warning \[Loop\] was held up ms=(\d+) worked_ms=(\d+) no_processor_ms=(\d+) "
    r"turns=(\d+)$",
    re.MULTILINE,
)
_LAG = re.compile(r'^headwater_loop_lag_seconds_bucket\{le="([^"]+)"\} (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Stall:
    """A period in which the event loop did not run its timers, as logged by the service."""

    ended: float  # on the monotonic clock
    seconds: float
    worked: float  # seconds that its thread ran
    no_processor: float  # seconds that its thread waited for a processor
    turns: int  # how often it was scheduled

    def unexcused(self, looks: Sequence[Sample]) -> float:
        """Seconds that cannot be attributed to the machine.

        Excused are the time that the loop's thread waited for a processor and the time that other
        machines used. If the thread waited for the interpreter lock, the processor waits of other
        threads are excused too: they may have held the lock. Time in which the thread ran never is.
        """
        began = self.ended - self.seconds
        held = self.seconds - self.no_processor
        perhaps = kept = stolen(looks, began, self.ended)
        if self.turns > _TURNS * held:
            perhaps = no_processor(looks, began, self.ended) - self.no_processor
        excused = min(max(perhaps, 0.0), _MOST_EXCUSED_SECONDS)
        return max(held - excused, self.worked - kept)


def stalls(log: str) -> list[Stall]:
    """All stalls in a log: ten of every minute, and longer ones."""
    to_monotonic = time.monotonic() - time.time()
    found = []
    for at, *rest in _STALL.findall(log):
        ms, worked_ms, no_processor_ms, turns = map(int, rest)
        ended = datetime.fromisoformat(at).timestamp() + to_monotonic
        found.append(Stall(ended, ms / 1000, worked_ms / 1000, no_processor_ms / 1000, turns))
    return found


def stall_faults(log: str, looks: Sequence[Sample]) -> list[str]:
    """Descriptions of stalls that are too long."""
    found = ((stall, stall.unexcused(looks)) for stall in stalls(log))
    return [f"{u:.3f} s of {stall}" for stall, u in found if u > _STALL_SECONDS]


def lags(metrics: str) -> dict[str, int]:
    """The histogram of the loop's lag: how many were up to each bound."""
    return {bound: int(count) for bound, count in _LAG.findall(metrics)}


def healthy_client_faults(rounds: Sequence[ClientRound], looks: Sequence[Sample]) -> list[str]:
    """Describe how hostile hosts slowed the healthy client down, against its baseline.

    Times exclude waiting for a processor, up to half of each.
    """
    quiet = [one for one in rounds if one.slot < 0]
    busy = [one for one in rounds if one.slot >= 0]
    found = [f"not stored: {one.outcome}" for one in rounds if one.outcome.get("newPosts") != 1]
    missed = sum(max(served_seconds(one.poll, looks) - 1, 0) for one in busy)
    if missed > _MOST_MISSED * (busy[-1].slot + 1):
        found.append(f"{missed:.1f} of {busy[-1].slot + 1} polls were left out")
    for what, of in (("polls", _poll), ("API answers", _api)):
        then, now = (
            [of(one).seconds for one in quiet],
            [served_seconds(of(one), looks) for one in busy],
        )
        for share, least, times in ((0.5, 0.1, 5), (0.95, 0.5, 20)):
            took, most = at_share(now, share), least + times * at_share(then, share)
            if took > most:
                found.append(f"{share:.0%} of {what} took {took:.3f} s and not {most:.3f} s")
    return found


def at_share(values: Sequence[float], share: float) -> float:
    """The quantile at this share."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _poll(one: ClientRound) -> TimedRequest:
    return one.poll


def _api(one: ClientRound) -> TimedRequest:
    return one.api


def served_seconds(asked: TimedRequest, looks: Sequence[Sample]) -> float:
    """The duration of a response without processor waits; at least half of it."""
    waited = asked.waited + no_processor(looks, asked.began, asked.began + asked.seconds)
    return max(asked.seconds - waited, asked.seconds / 2)


def starved_seconds(looks: Sequence[Sample]) -> float:
    """Seconds that the service or a parser waited for a processor.

    Between two samples never more than their distance: concurrent waits count once.
    """
    found = 0.0
    for before, look in pairwise(looks):
        waited = look.waited + look.parser_waited + look.stolen - before.stolen
        found += min(waited, look.at - before.at)
    return found


def no_processor(looks: Sequence[Sample], began: float, ended: float) -> float:
    """Seconds that the service may have waited for a processor."""
    waited = sum(look.waited for look in _between(looks, began, ended)[1:])
    return min(waited + stolen(looks, began, ended), ended - began)


def stolen(looks: Sequence[Sample], began: float, ended: float) -> float:
    """Seconds that processors were used by other machines."""
    seen = [look.stolen for look in _between(looks, began, ended)]
    return seen[-1] - seen[0] if seen else 0.0


def _between(looks: Sequence[Sample], began: float, ended: float) -> Sequence[Sample]:
    """The last sample before, those during, and the first one after: the sampler stalls as well."""
    first = bisect_right(looks, began, key=_moment)
    last = bisect_left(looks, ended, key=_moment)
    return looks[max(first - 1, 0) : last + 1]


def _moment(look: Sample) -> float:
    return look.at
