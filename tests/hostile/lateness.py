"""How late the service was for others meanwhile, and how late only its machine was (H2, H3)."""

import math
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tests.hostile.bystander import Round, Timed
from tests.hostile.memory import Look

_STALL_SECONDS = 0.25  # H2
_MOST_EXCUSED_SECONDS = 0.5  # of a stall, for what is known of the machine but not of the thread
_TURNS = 500  # a second, of a thread that waits for the interpreter: it looks ten times as often
_MOST_MISSED = 0.1  # of the polls that are wanted, one a second
_STALL = re.compile(
    r"^(\S+) warning \[Loop\] was held up ms=(\d+) worked_ms=(\d+) no_processor_ms=(\d+) "
    r"turns=(\d+)$",
    re.MULTILINE,
)
_LAG = re.compile(r'^headwater_loop_lag_seconds_bucket\{le="([^"]+)"\} (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Stall:
    """A time when the event loop did not get to its timers, as the service itself tells it."""

    ended: float  # on the monotonic clock
    seconds: float
    worked: float  # seconds that its thread had a processor
    no_processor: float  # seconds that its thread waited for one
    turns: int  # how often it got one

    def unexcused(self, looks: Sequence[Look]) -> float:
        """Seconds that cannot be put down to the machine.

        Beside what the loop's thread itself waited for a processor that is what no thread is told
        of. And where it waited for the interpreter, it is also what other threads waited for a
        processor: they may have had it meanwhile. What the thread worked is its own doing, always.
        """
        began = self.ended - self.seconds
        held = self.seconds - self.no_processor
        perhaps = kept = stolen(looks, began, self.ended)
        if self.turns > _TURNS * held:
            perhaps = no_processor(looks, began, self.ended) - self.no_processor
        excused = min(max(perhaps, 0.0), _MOST_EXCUSED_SECONDS)
        return max(held - excused, self.worked - kept)


def stalls(log: str) -> list[Stall]:
    """All that a log tells of: ten of every minute, and those that are longer."""
    to_monotonic = time.monotonic() - time.time()
    found = []
    for at, *rest in _STALL.findall(log):
        ms, worked_ms, no_processor_ms, turns = map(int, rest)
        ended = datetime.fromisoformat(at).timestamp() + to_monotonic
        found.append(Stall(ended, ms / 1000, worked_ms / 1000, no_processor_ms / 1000, turns))
    return found


def stall_faults(log: str, looks: Sequence[Look]) -> list[str]:
    """Stalls that are too long, in words."""
    found = ((stall, stall.unexcused(looks)) for stall in stalls(log))
    return [f"{u:.3f} s of {stall}" for stall, u in found if u > _STALL_SECONDS]


def lags(metrics: str) -> dict[str, int]:
    """The histogram of the loop's lag: how many were up to each bound."""
    return {bound: int(count) for bound, count in _LAG.findall(metrics)}


def bystander_faults(rounds: Sequence[Round], looks: Sequence[Look]) -> list[str]:
    """What the bystander noticed of the hostile ones, in words; its quiet rounds are the measure.

    Times are without what was waited for processors, where that is up to a half of them.
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
    """What so many of the values are not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _poll(one: Round) -> Timed:
    return one.poll


def _api(one: Round) -> Timed:
    return one.api


def served_seconds(asked: Timed, looks: Sequence[Look]) -> float:
    """How long an answer took where nobody waits for a processor; not less than half of it."""
    waited = asked.waited + no_processor(looks, asked.began, asked.began + asked.seconds)
    return max(asked.seconds - waited, asked.seconds / 2)


def starved_seconds(looks: Sequence[Look]) -> float:
    """Seconds that the service or one of its parsers stood still for want of a processor.

    From one look to the next that is never more than has passed: where many wait at once, it
    counts once.
    """
    found = 0.0
    for before, look in pairwise(looks):
        waited = look.waited + look.parser_waited + look.stolen - before.stolen
        found += min(waited, look.at - before.at)
    return found


def no_processor(looks: Sequence[Look], began: float, ended: float) -> float:
    """Seconds that the service may have stood still for want of a processor."""
    waited = sum(look.waited for look in _between(looks, began, ended)[1:])
    return min(waited + stolen(looks, began, ended), ended - began)


def stolen(looks: Sequence[Look], began: float, ended: float) -> float:
    """Seconds that processors were with other machines."""
    seen = [look.stolen for look in _between(looks, began, ended)]
    return seen[-1] - seen[0] if seen else 0.0


def _between(looks: Sequence[Look], began: float, ended: float) -> Sequence[Look]:
    """The last look before, those meanwhile, and the first one after: who looks stalls as well."""
    first = bisect_right(looks, began, key=_moment)
    last = bisect_left(looks, ended, key=_moment)
    return looks[max(first - 1, 0) : last + 1]


def _moment(look: Look) -> float:
    return look.at
