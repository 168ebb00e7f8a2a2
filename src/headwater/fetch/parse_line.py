"""Small documents in line for one worker, whose thread takes handful after handful by itself."""

import asyncio
from collections import deque
from collections.abc import Sequence

from headwater.fetch.feed import Feed
from headwater.fetch.parse_process import MAX_HANDFUL_BYTES, Job, ParseProcess

_HANDFUL_BYTES = MAX_HANDFUL_BYTES // 2  # the last document of a handful may go beyond it
_HEAD_BYTES = 300  # of what goes with a document, but for its address and type
_LETTER_BYTES = 6  # that a character takes at most, as JSON spells it
_MOST_HANDFULS = 20  # in a row: whoever else needs a worker shall have one too

Waiting = tuple[Job, asyncio.Future[Feed]]


class ParseLine:
    """Who waits, and for which document.

    The thread does not wait for the event loop between two handfuls, and gives the worker the next
    one before it reads the answers to the last: neither is kept waiting by the other.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self.handfuls = 0  # that were taken so far

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @staticmethod
    def has_room_for(job: Job) -> bool:
        """Whether a document is so small that it can be the last one of any handful."""
        return _size(job) <= MAX_HANDFUL_BYTES - _HANDFUL_BYTES

    def join(self, job: Job) -> asyncio.Future[Feed]:
        """Stand in line; the answer brings what was parsed."""
        future: asyncio.Future[Feed] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        return future

    def take(self) -> list[Waiting]:
        """The next handful: one at least, unless nobody waits."""
        handful: list[Waiting] = []
        size = 0
        while self._waiting and (not handful or size < _HANDFUL_BYTES):
            handful.append(self._waiting.popleft())
            size += _size(handful[-1][0])
        self.handfuls += bool(handful)
        return handful

    def work_off(self, worker: ParseProcess, loop: asyncio.AbstractEventLoop) -> Sequence[Waiting]:
        """Have a worker parse what is in line, which blocks; answer what it may have died of.

        That is the rest of the handful that it had begun. What it had not even seen is back in
        line, and is parsed in handfuls again.
        """
        under_way: deque[list[Waiting]] = deque()  # handed over, and not all answered
        most, left = 2 if worker.takes_ahead else 1, _MOST_HANDFULS
        try:
            while True:
                while len(under_way) < most and left and (handful := self.take()):
                    left -= 1
                    under_way.append(handful)
                    worker.hand_over([job for job, _ in handful])
                if not under_way:
                    break
                handful = under_way[0]
                results = worker.answers([job for job, _ in handful])
                loop.call_soon_threadsafe(settle, handful, results)
                if len(results) < len(handful):
                    under_way[0] = handful[len(results) :]
                    break
                under_way.popleft()
        except Exception:  # noqa: BLE001 - whatever it was: it is seen who is to blame
            worker.kill()
        suspects = under_way.popleft() if under_way else []
        if worker.has_said_goodbye:  # after the one that was too much for it, if any was
            under_way.appendleft(suspects[1:])
            suspects = suspects[:1]
        self._waiting.extendleft(reversed([each for handful in under_way for each in handful]))
        return suspects


def _size(job: Job) -> int:
    """How many bytes a document and what goes with it take on their way, or somewhat more."""
    letters = len(job.url) + len(job.content_type or "")
    return len(job.document) + _LETTER_BYTES * letters + _HEAD_BYTES


def settle(waiting: Sequence[Waiting], results: Sequence[Feed | Exception]) -> None:
    """Give those who wait what came of their documents, as far as there are results."""
    for (_, future), result in zip(waiting, results, strict=False):
        if future.done():  # the caller was cancelled meanwhile
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
