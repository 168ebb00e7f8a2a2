"""An event stream as a client reads it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from headwater.api.events.event_log import EventLog
from tests.api.conftest import Served

PATIENCE = aiohttp.ClientTimeout(total=None, sock_read=60)


@dataclass(frozen=True)
class ReceivedEvent:
    """One received event."""

    id: str
    kind: str
    data: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.id.partition("-")[2])


class Stream:
    """Reads block after block."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.last_id = ""
        self.comments: list[str] = []

    async def begin(self) -> None:
        """Read the first line of the stream; no later event can be missed."""
        opening = [(await self.answer.content.readline()).decode() for _ in range(4)]
        assert opening[0] == ": headwater\n"
        assert opening[1].startswith("retry: ")
        self.last_id = opening[2].removeprefix("id: ").strip()
        assert opening[3] == "\n"

    async def next(self) -> ReceivedEvent | None:
        """The next event; None if the stream has ended."""
        fields: dict[str, str] = {}
        while line := await self.answer.content.readline():
            text = line.decode().removesuffix("\n")
            if not text and "data" in fields:
                return ReceivedEvent(fields["id"], fields["event"], json.loads(fields["data"]))
            name, _, value = text.partition(": ")
            if not text:
                fields = {}
            elif not name:
                self.comments.append(value)
            else:
                assert name not in fields, f"two lines {name} in one event"
                fields[name] = value
            self.last_id = fields.get("id", self.last_id)
        return None

    async def take(self, count: int) -> list[ReceivedEvent]:
        """The next `count` events."""
        found = [await self.next() for _ in range(count)]
        assert None not in found, "the stream ended early"
        return [event for event in found if event is not None]

    async def until(self, kind: str) -> list[ReceivedEvent]:
        """Events up to and including the first of a kind."""
        found: list[ReceivedEvent] = []
        while not found or found[-1].kind != kind:
            found += await self.take(1)
        return found

    async def rest(self) -> list[ReceivedEvent]:
        """All events until the stream ends."""
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@asynccontextmanager
async def event_stream(
    served: Served, query: str = "", *, token: str | None = None, last_id: str | None = None
) -> AsyncIterator[Stream]:
    """An open stream whose first line was read."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    url = f"{served.url}/api/events{query}"
    async with served.session.get(url, headers=headers, timeout=PATIENCE) as answer:
        assert answer.status == 200, await answer.text()
        stream = Stream(answer)
        await stream.begin()
        yield stream


def streams_of(served: Served) -> Counter[str | None]:
    """The number of open streams by user."""
    found = served.api.state.event_log
    assert isinstance(found, EventLog)
    return found.open_streams


async def no_stream_is_open(served: Served) -> None:
    """Wait until the last stream is closed."""
    async with asyncio.timeout(60):
        while streams_of(served):
            await asyncio.sleep(0.01)
