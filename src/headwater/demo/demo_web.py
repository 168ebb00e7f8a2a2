"""The simulated web: many hosts on loopback addresses, all on one port.

It has the part of HTTP/1.1 that its hosts need.
"""

import asyncio
import errno
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.model import SourceType

MAX_HEAD_BYTES = 65536
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_HOSTS_PER_BLOCK = 250
_ATTEMPTS = 20  # a port may be free on one address and taken on another


@dataclass(slots=True, kw_only=True)
class Request:
    """A request to a simulated host; `ended` and `status` are set by the reply."""

    host: str
    address: str
    base_url: str  # of the requested host: http://127.80.0.1:8000
    clock: Clock
    locate: Callable[[str, str], str]  # host name and path -> URL, anywhere in this web
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    keep_alive: bool
    started: float  # monotonic seconds
    ended: float | None = None
    status: int | None = None  # None: there was no reply


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a simulated host."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


# None: the host closes the connection without a reply.
Site = Callable[[Request], Awaitable[Reply | None]]


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
    """A simulated host: its name, a description, its behaviour and its sources."""

    name: str
    about: str
    site: Site
    sources: tuple[DemoSource, ...] = ()


class DemoConnection(asyncio.Protocol):
    """Parses requests and sends replies; a client that disconnects cancels its reply."""

    def __init__(self, web: "DemoWeb", host: DemoHost) -> None:
        self._web = web
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._reply_task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._web.connections.add(self)
        self._transport = cast(asyncio.Transport, transport)  # every event loop has its own class

    def data_received(self, data: bytes) -> None:
        """Start a reply once a request is complete."""
        self._received += data
        self._start_reply()

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the reply."""
        self._transport = None
        if self._reply_task is not None:
            self._reply_task.cancel()
        self._web.connections.discard(self)

    async def close(self) -> None:
        """Close the connection and wait until its reply has ended."""
        if self._transport is not None:
            self._transport.abort()
        if self._reply_task is not None:
            self._reply_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._reply_task

    def _start_reply(self) -> None:
        if self._reply_task is not None or self._transport is None:
            return
        try:
            request = self._take_request()
        except ValueError:
            self._transport.abort()
            return
        if request is not None:
            self._reply_task = asyncio.create_task(self._reply(request))

    def _take_request(self) -> Request | None:
        """The next complete request; its body is ignored."""
        head, end, rest = bytes(self._received).partition(b"\r\n\r\n")
        if not end:
            if len(head) > MAX_HEAD_BYTES:
                raise ValueError("the head is too long")
            return None
        request = self._web.parse_request(self._host, head)
        length = int(request.headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._received[:] = rest[length:]
        return request

    async def _reply(self, request: Request) -> None:
        reply = await self._web.respond(self._host, request)
        self._reply_task = None
        if self._transport is None:
            return
        if reply is None:
            self._transport.abort()
            return
        self._transport.write(_encoded(reply, request))
        if not request.keep_alive:
            self._transport.close()
        self._start_reply()


class DemoWeb:
    """Serves simulated hosts, each on an address of its own, and records every visit."""

    def __init__(self, hosts: Sequence[DemoHost], *, clock: Clock, port: int = 0) -> None:
        self.hosts = tuple(hosts)
        self.port = port
        self.visits: list[Request] = []
        self._clock = clock
        self._addresses = {host.name: _address(n) for n, host in enumerate(self.hosts)}
        if len(self._addresses) < len(self.hosts):
            raise ValueError("two simulated hosts have the same name")
        self._servers: list[asyncio.Server] = []
        self.connections: set[DemoConnection] = set()

    async def __aenter__(self) -> Self:
        """Listen on all addresses; another port is tried if one is taken."""
        wanted = self.port
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._listen_on(wanted)
                break
            except OSError as error:
                await self.__aexit__()
                taken = error.errno == errno.EADDRINUSE
                if not taken or wanted or attempt == _ATTEMPTS:
                    raise HeadwaterError(
                        f"the simulated web cannot listen on port {self.port} of 127.80.0.0/16: "
                        f"{error.strerror}"
                    ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and close every connection."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            await connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def address(self, host: str) -> str:
        """The loopback address of a host."""
        return self._addresses[host]

    def url(self, host: str, path: str = "/feed.xml") -> str:
        """The URL of a path on a host."""
        return f"http://{self._addresses[host]}:{self.port}{path}"

    def source_url(self, host: DemoHost, source: DemoSource) -> str:
        """The `url` of a source of this host; for an X timeline the user name."""
        return (
            source.path if source.type is SourceType.TWITTER else self.url(host.name, source.path)
        )

    def visits_to(self, host: str) -> list[Request]:
        """The visits to one host, in order of their start."""
        return [visit for visit in self.visits if visit.host == host]

    async def _listen_on(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        for host in self.hosts:
            address = self._addresses[host.name]
            connected = partial(DemoConnection, self, host)
            server = await loop.create_server(connected, address, port, backlog=512)
            self._servers.append(server)
            port = self.port = server.sockets[0].getsockname()[1]

    def parse_request(self, host: DemoHost, head: bytes) -> Request:
        """Parse the head of a request to a host; raises ValueError if it is invalid."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        pairs = (line.split(":", 1) for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        url = urlsplit(target)
        closes = headers.get("connection", "").lower() == "close"
        return Request(
            host=host.name,
            address=self.address(host.name),
            base_url=self.url(host.name, ""),
            clock=self._clock,
            locate=self.url,
            method=method,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query)),
            headers=headers,
            keep_alive=version == "HTTP/1.1" and not closes,
            started=self._clock.monotonic(),
        )

    async def respond(self, host: DemoHost, request: Request) -> Reply | None:
        """Record a visit and return the reply of its host; None closes the connection."""
        self.visits.append(request)
        try:
            reply = await host.site(request)
        except Exception as error:  # noqa: BLE001 - a script may raise any error
            reply = Reply(status=500, body=f"{type(error).__name__}: {error}".encode())
        finally:
            request.ended = self._clock.monotonic()
        request.status = None if reply is None else reply.status
        return reply


def _address(number: int) -> str:
    """The address of a host, apart from 127.0.0.1, where other servers listen."""
    block, place = divmod(number, _HOSTS_PER_BLOCK)
    return f"127.80.{block}.{place + 1}"


def _encoded(reply: Reply, request: Request) -> bytes:
    """The bytes of a reply."""
    has_body = reply.status != HTTPStatus.NOT_MODIFIED
    headers = {
        "Date": http_date(request.clock.now()),
        "Connection": "keep-alive" if request.keep_alive else "close",
    }
    if has_body:
        headers |= {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
    headers |= reply.headers
    lines = [f"HTTP/1.1 {reply.status} {_PHRASES.get(reply.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + reply.body if has_body and request.method != "HEAD" else head


def conditional(request: Request, reply: Reply, *, modified_at: datetime) -> Reply:
    """Add validators to a reply, or make it a 304 if the client has it already (P8)."""
    etag = f'"{hashlib.sha256(reply.body).hexdigest()[:20]}"'
    validators = {"ETag": etag, "Last-Modified": http_date(modified_at)}
    if _is_known(request, etag, modified_at):
        return Reply(status=304, headers={**reply.headers, **validators})
    return replace(reply, headers={**reply.headers, **validators})


def http_date(moment: datetime) -> str:
    """A time in the format of HTTP, in whole seconds."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def _is_known(request: Request, etag: str, modified_at: datetime) -> bool:
    known = request.headers.get("if-none-match")
    if known is not None:  # takes precedence over the date (RFC 9110)
        return etag in (tag.strip().removeprefix("W/") for tag in known.split(","))
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return modified_at.replace(microsecond=0) <= parsedate_to_datetime(since)
    except (TypeError, ValueError):
        return False
