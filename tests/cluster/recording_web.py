"""A web of many hosts that records every request with its host, time and duration."""

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

_AGENT = re.compile(rb"(?i)user-agent: ([^\r\n]*)")
UNCHANGED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request, by the web's own clock."""

    path: str
    by: bytes  # contact address in the User-Agent
    began: float
    ended: float


@dataclass
class RecordingWeb:
    """Serves all hosts and records their requests."""

    port: int = 0
    answer_seconds: float = 0.02
    slow: dict[str, float] = field(default_factory=dict)  # hosts that respond more slowly
    redirects: dict[str, str] = field(default_factory=dict)  # from a host, or its path, to a URL
    recorded: defaultdict[str, list[RecordedRequest]] = field(
        default_factory=lambda: defaultdict(list)
    )
    open_now: Counter[str] = field(default_factory=Counter)
    overlaps: list[str] = field(default_factory=list)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    responding: asyncio.Event = field(default_factory=asyncio.Event)
    connections: dict[asyncio.StreamWriter, "asyncio.Task[None] | None"] = field(
        default_factory=dict
    )

    def requests(self) -> int:
        """The number of requests, including those in flight."""
        return sum(map(len, self.recorded.values())) + sum(self.open_now.values())

    def request_counts(self) -> Counter[str]:
        """How often each URL was requested."""
        return Counter(f"{host}{one.path}" for host, all_ in self.recorded.items() for one in all_)

    def pauses(self, host: str, leave_out: Collection[RecordedRequest] = ()) -> list[float]:
        """The times between the end of a request to a host and the next one."""
        asked = sorted(
            (one for one in self.recorded[host] if one not in leave_out), key=lambda one: one.began
        )
        return [after.began - before.ended for before, after in pairwise(asked)]

    def shortest_pause(self) -> float:
        """The shortest pause at any host."""
        return min((pause for host in self.recorded for pause in self.pauses(host)), default=inf)

    def __post_init__(self) -> None:
        self.responding.set()

    def hold(self) -> None:
        """Respond to no request until `answering` is set again, so that requests stay open."""
        self.responding.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        self.connections[writer] = asyncio.current_task()
        host = writer.get_extra_info("sockname")[0]
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    agent = _AGENT.search(head)
                    by = b"" if agent is None else agent[1]
                    await self._respond(host, head.split()[1].decode(), by, writer)
        finally:
            writer.close()
            del self.connections[writer]

    async def hang_up(self) -> None:
        """Close every connection."""
        self.closing.set()
        self.responding.set()
        tasks = [task for task in self.connections.values() if task is not None]
        for writer in self.connections:
            writer.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next iteration

    async def _respond(self, host: str, path: str, by: bytes, writer: asyncio.StreamWriter) -> None:
        if self.open_now[host]:
            self.overlaps.append(f"{host}{path}")
        self.open_now[host] += 1
        began = time.monotonic()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self.closing.wait(), self.slow.get(host, self.answer_seconds)
                )
            await self.responding.wait()
        finally:
            self.open_now[host] -= 1
            self.recorded[host].append(RecordedRequest(path, by, began, time.monotonic()))
        target = self.redirects.get(f"{host}{path}") or self.redirects.get(host)
        if target is not None:
            found = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
            writer.write(found.encode())
        else:
            writer.write(UNCHANGED)
        await writer.drain()


@asynccontextmanager
async def a_web(hosts: Sequence[str]) -> AsyncIterator[RecordingWeb]:
    """Serve all of these loopback addresses on one free port."""
    web = RecordingWeb()
    first = await asyncio.start_server(web.serve, hosts[0], 0)
    web.port = first.sockets[0].getsockname()[1]
    rest = [await asyncio.start_server(web.serve, host, web.port) for host in hosts[1:]]
    try:
        yield web
    finally:
        for server in (first, *rest):
            server.close()
        await web.hang_up()
