"""Answers that are kept: dear ones for longer, and nobody waits for what is nearly as good."""

import asyncio

from headwater.operations.standing import Kept
from tests.fakes import FakeClock, in_virtual_time


class Question:
    """Asked again and again; each answer takes so long and counts one up."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self.asked = 0

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self._clock.sleep(self.seconds)
        return number


def test_a_cheap_answer_is_fresh_and_a_dear_one_is_the_last_one_for_now():
    async def story() -> None:
        clock = FakeClock()
        ask = Question(clock, 0.01)
        kept = Kept(ask, clock, 0.5, least_seconds=0.5)
        assert await kept.at_hand() == 1
        assert await kept.at_hand() == 1  # kept for a while
        await clock.sleep(1)
        assert await kept.at_hand() == 2  # asked anew: that took a moment only
        ask.seconds = 2.0
        await clock.sleep(1)
        started = clock.monotonic()
        assert await kept.at_hand() == 2
        assert await kept.at_hand() == 2
        assert clock.monotonic() - started < 0.2  # nobody waits for the dear one
        await clock.sleep(2)
        assert await kept.at_hand() == 3
        assert ask.asked == 3  # two who wanted to know asked once

    in_virtual_time(story)


def test_an_answer_of_long_ago_is_not_told_any_more():
    async def story() -> None:
        clock = FakeClock()
        ask = Question(clock, 0.5)
        kept = Kept(ask, clock, 0.5, least_seconds=0.5)
        assert await kept.at_hand() == 1
        await clock.sleep(3600)
        first, second = await asyncio.gather(kept.at_hand(), kept.at_hand())
        assert (first, second) == (2, 2)

    in_virtual_time(story)
