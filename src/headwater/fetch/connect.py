"""Connections: who may be connected to, and the few that are kept for a moment (N3, N4, N11)."""

import asyncio
import base64
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from ssl import SSLContext
from typing import NamedTuple

from aiohappyeyeballs import AddrInfoType, start_connection

from headwater.errors import AddressRefused
from headwater.fetch.address import Allowed, refusal
from headwater.fetch.names import Names
from headwater.fetch.reading import Bounds
from headwater.fetch.tls import Secured, Trust
from headwater.fetch.wire import Check, Wire
from headwater.rules.urls import WebUrl

_KEEP_ALIVE_SECONDS = 5.0  # for the next source of the same lane
_MAX_IDLE = 64  # kept connections in all: a thousand hosts a second must not use up descriptors
_MAX_ADDRESSES = 4  # of each family, that are tried
_STAGGER_SECONDS = 0.25  # until the next of several addresses is tried as well

Origin = tuple[str, str, int]


class Refused(PermissionError):
    """The address guard let no socket be made."""


class ProxyFault(Exception):
    """The proxy cannot be reached, or opens no tunnel; with the status of its answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Deadlines(NamedTuple):
    """Until when, by the event loop's clock."""

    connected_by: float
    over_at: float


@dataclass(frozen=True, slots=True)
class Proxy:
    """Who connects in our place."""

    url: WebUrl
    authorization: str = field(repr=False)  # a line to send, or none

    @classmethod
    def at(cls, url: WebUrl) -> "Proxy":
        """The proxy of a setting, with the password that it wants."""
        if url.username is None:
            return cls(url, "")
        credentials = f"{url.username}:{url.password or ''}".encode()
        code = base64.b64encode(credentials).decode("ascii")
        return cls(url, f"Proxy-Authorization: Basic {code}\r\n")


class Connector:
    """Opens guarded connections and keeps a few of them for a moment."""

    def __init__(
        self,
        *,
        names: Names,
        allowed: Allowed,
        bounds: Bounds,
        proxy: Proxy | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self._names = names
        self._allowed = allowed
        self._bounds = bounds
        self._proxy = proxy
        self._tls = tls
        self._trust: Trust | None = None
        self._gathering = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self.idle: dict[Origin, list[Wire]] = {}
        self.idle_count = 0
        self.busy: set[Wire] = set()

    def kept(self, url: WebUrl) -> Wire | None:
        """A connection to this origin that is still open, if there is one."""
        wires = self.idle.get(url.origin)
        while wires:
            wire = self._take(url.origin, wires)
            if wire.is_reusable:
                self.busy.add(wire)
                return wire
        return None

    async def open(self, url: WebUrl, until: Deadlines, check: Check = None) -> Wire:
        """A new connection; who is connected to was judged (N4).

        `check` is looked at before a proxy is asked to connect (K8).
        """
        if self._proxy is not None:
            return await self._open_by_proxy(url, self._proxy, until, check)
        wire = await self._connect(url)
        self.busy.add(wire)
        return wire

    def release(self, wire: Wire, origin: Origin) -> None:
        """Keep a connection for a moment, or close it."""
        self.busy.discard(wire)
        if self.idle_count >= _MAX_IDLE or not wire.is_reusable:
            wire.abort()
            return
        self.idle.setdefault(origin, []).append(wire)
        self.idle_count += 1
        self._loop.call_later(_KEEP_ALIVE_SECONDS, self._drop, origin, wire, wire.questions)

    def discard(self, wire: Wire) -> None:
        """Close a connection over which something went wrong."""
        self.busy.discard(wire)
        wire.abort()

    def close(self) -> None:
        """Close all connections, those in use too."""
        for wire in [*self.busy, *(wire for wires in self.idle.values() for wire in wires)]:
            wire.abort()
        self.idle.clear()
        self.idle_count = 0

    def _take(self, origin: Origin, wires: list[Wire]) -> Wire:
        wire = wires.pop()
        self.idle_count -= 1
        if not wires:
            del self.idle[origin]
        return wire

    def _drop(self, origin: Origin, wire: Wire, questions: int) -> None:
        """Close a connection that nobody has used since."""
        wires = self.idle.get(origin, [])
        if wire in wires and wire.questions == questions:
            wires.remove(wire)
            self.idle_count -= 1
            if not wires:
                del self.idle[origin]
            wire.abort()

    async def _connect(self, url: WebUrl) -> Wire:
        found = await self._names.addresses(url.host)
        judge(url.host, found, self._allowed)
        secured = await self._secure(url) if url.scheme == "https" else None
        wire_for = partial(Wire, self._bounds, secured)
        if len(found) == 1:  # judged just now, and connected to as it is written (N4)
            _, wire = await self._loop.create_connection(wire_for, found[0], url.port)
            return wire
        infos = [_info(address, url.port) for address in _few_of_each_family(found)]
        sock = await start_connection(
            infos,
            happy_eyeballs_delay=_STAGGER_SECONDS,
            loop=self._loop,
            socket_factory=guarded_socket(self._allowed),
        )
        try:
            _, wire = await self._loop.create_connection(wire_for, sock=sock)
        except BaseException:
            sock.close()
            raise
        return wire

    async def _secure(self, url: WebUrl) -> Secured:
        trust = self._trust or await self._gather_trust()
        return trust.secure(url.host, url.port)

    async def _gather_trust(self) -> Trust:
        """Read the certificates of all authorities, once, and beside the event loop (H2)."""
        async with self._gathering:
            if self._trust is None:
                self._trust = await asyncio.to_thread(Trust, self._tls)
            return self._trust

    async def _open_by_proxy(
        self, url: WebUrl, proxy: Proxy, until: Deadlines, check: Check
    ) -> Wire:
        try:
            wire = await self._connect(proxy.url)
        except OSError as error:
            raise ProxyFault(str(error)) from error
        self.busy.add(wire)
        if url.scheme == "http":
            return wire
        target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        question = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy.authorization}\r\n"
        try:
            await wire.ask(
                question.encode("ascii"),
                shaken_by=until.connected_by,
                over_at=until.connected_by,
                head_only=True,
                check=check,
            )
            if not 200 <= wire.status < 300:
                raise ProxyFault("it opens no tunnel", wire.status)
            wire.secure(await self._secure(url))
        except BaseException:
            self.discard(wire)
            raise
        return wire


def judge(host: str, addresses: Sequence[str], allowed: Allowed) -> None:
    """Raise AddressRefused if any of a host's addresses may not be visited."""
    for address in addresses:
        why = refusal(address, allowed)
        if why is not None:
            where = host if host == address else f"{host} leads to {address}, which"
            raise AddressRefused(_refused(where, why))


def guarded_socket(allowed: Allowed) -> Callable[[AddrInfoType], socket.socket]:
    """Make sockets for allowed addresses only: judged is the very address connected to (N4)."""

    def open_socket(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        why = refusal(str(address[0]), allowed)
        if why is not None:
            raise Refused(errno.EACCES, _refused(str(address[0]), why))
        sock = socket.socket(family=family, type=kind, proto=protocol)
        sock.setblocking(False)
        return sock

    return open_socket


def _info(address: str, port: int) -> AddrInfoType:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def _refused(where: str, why: str) -> str:
    return f"{where} is not a public address ({why}); app.fetch.allow-private-networks can allow it"


def _few_of_each_family(addresses: Sequence[str]) -> list[str]:
    """Some of many addresses: a stranger's list must not become a row of attempts."""
    ipv4 = islice((a for a in addresses if ":" not in a), _MAX_ADDRESSES)
    ipv6 = islice((a for a in addresses if ":" in a), _MAX_ADDRESSES)
    return [*ipv4, *ipv6]
