"""The simulated web itself: many hosts on loopback addresses, all on one port."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from inspect import isawaitable
from typing import Self

from headwater.clock import Clock
from headwater.demo.connection import Connection
from headwater.demo.exchange import Head, Reply, Request, Site
from headwater.errors import HeadwaterError
from headwater.model import SourceType

_HOSTS_PER_BLOCK = 250
_ATTEMPTS = 20  # a port that is free on one address may be taken on another


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A source worth creating for a simulated host."""

    path: str  # or the user name, for an X timeline
    label: str
    type: SourceType = SourceType.RSS
    poll_interval_minutes: int = 1
    poll_delay_seconds: int | None = None
    max_failures: int | None = None
    include_history: bool = False


@dataclass(frozen=True)
class DemoHost:
    """A simulated host: its name, a sentence about it for people, how it answers, its sources."""

    name: str
    about: str
    site: Site
    sources: tuple[DemoSource, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} — {self.about}"


class ScriptedHost(DemoHost):
    """A host that answers as a function says; None hangs up."""

    def __init__(
        self,
        script: Callable[[Request], Reply | Awaitable[Reply | None] | None],
        *,
        name: str = "scripted.demo",
        about: str = "answers as scripted",
        sources: tuple[DemoSource, ...] = (),
    ) -> None:
        async def site(request: Request) -> Reply | None:
            reply = script(request)
            return await reply if isawaitable(reply) else reply

        super().__init__(name, about, site, sources)


@dataclass(slots=True)
class Visit:
    """One request as the host saw it; `ended` and `status` are filled in when it is answered."""

    host: str
    address: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    started: float  # monotonic seconds
    ended: float | None = None
    status: int | None = None  # stays None where there was no answer


class DemoWeb:
    """Serves simulated hosts, each on an address of its own, and remembers every visit."""

    def __init__(self, hosts: Sequence[DemoHost], *, clock: Clock, port: int = 0) -> None:
        self.hosts = tuple(hosts)
        self.port = port
        self.visits: list[Visit] = []
        self._clock = clock
        self._addresses = {host.name: _address(n) for n, host in enumerate(self.hosts)}
        if len(self._addresses) < len(self.hosts):
            raise ValueError("two simulated hosts have the same name")
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and cut every connection."""
        await self._stop()

    def address(self, host: str) -> str:
        """The loopback address of a host."""
        return self._addresses[host]

    def url(self, host: str, path: str = "/feed.xml") -> str:
        """The URL of a path on a host."""
        return f"http://{self._addresses[host]}:{self.port}{path}"

    def source_url(self, host: DemoHost, source: DemoSource) -> str:
        """What a source of this host has as its `url`: an X timeline goes by its name."""
        return (
            source.path if source.type is SourceType.TWITTER else self.url(host.name, source.path)
        )

    def visits_to(self, host: str) -> list[Visit]:
        """The visits to one host, in the order in which they began."""
        return [visit for visit in self.visits if visit.host == host]

    async def _listen(self) -> None:
        wanted = self.port
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._listen_on(wanted)
            except OSError as error:
                await self._stop()
                taken = error.errno == errno.EADDRINUSE
                if not taken or wanted or attempt == _ATTEMPTS:
                    raise HeadwaterError(
                        f"the simulated web cannot listen on port {self.port} of 127.80.0.0/16: "
                        f"{error.strerror}"
                    ) from error
            else:
                return

    async def _listen_on(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        for host in self.hosts:
            address = self._addresses[host.name]
            served = _Served(self, host, self._clock)
            connected = partial(self._connected, served)
            server = await loop.create_server(connected, address, port, backlog=512)
            self._servers.append(server)
            port = self.port = server.sockets[0].getsockname()[1]

    def _connected(self, served: "_Served") -> Connection:
        connection = Connection(served, self._connections.discard)
        self._connections.add(connection)
        return connection

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            await connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()


class _Served:
    """A host with its place in the web; keeps the list of visits."""

    def __init__(self, web: DemoWeb, host: DemoHost, clock: Clock) -> None:
        self._web = web
        self._host = host
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def answer(self, head: Head) -> Reply | None:
        visit = Visit(
            host=self._host.name,
            address=self._web.address(self._host.name),
            method=head.method,
            path=head.path,
            query=dict(head.query),
            headers=dict(head.headers),
            started=self._clock.monotonic(),
        )
        self._web.visits.append(visit)
        try:
            reply = await self._reply(head)
            visit.status = None if reply is None else reply.status
        finally:
            visit.ended = self._clock.monotonic()
        return reply

    async def _reply(self, head: Head) -> Reply | None:
        request = Request(
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            base_url=self._web.url(self._host.name, ""),
            clock=self._clock,
            locate=self._web.url,
        )
        try:
            return await self._host.site(request)
        except Exception as error:  # noqa: BLE001 - a script may be wrong in any way
            return Reply(status=500, body=f"{type(error).__name__}: {error}".encode())


def _address(number: int) -> str:
    """An address of its own for each host, away from 127.0.0.1, where other things listen."""
    block, place = divmod(number, _HOSTS_PER_BLOCK)
    return f"127.80.{block}.{place + 1}"
