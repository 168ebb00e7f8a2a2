"""Opens connections to permitted addresses, and keeps a few idle ones (N3, N4, N11)."""

import asyncio
import base64
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from ssl import SSLContext

from aiohappyeyeballs import AddrInfoType, start_connection

from headwater import logs
from headwater.errors import AddressRefused
from headwater.fetch.net.dns import NameResolver
from headwater.fetch.net.http_connection import Check, Deadlines, HttpConnection
from headwater.fetch.net.limits import Limits
from headwater.fetch.net.tls import TlsChannel, TlsContext
from headwater.rules.addresses import Allowed, refusal, refusal_text
from headwater.rules.urls import WebUrl

log = logs.get_logger()
_KEEP_ALIVE_SECONDS = 5.0  # for the next source of the same lane
_MAX_ADDRESSES = 4  # of each family, that are tried
_STAGGER_SECONDS = 0.25  # until the next of several addresses is tried as well

Origin = tuple[str, str, int]


class Refused(PermissionError):
    """The address guard refused to create a socket."""


class ProxyFault(Exception):
    """The proxy cannot be reached, or opens no tunnel; with the status of its response."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Connector:
    """Opens guarded connections and keeps a few of them idle for reuse."""

    def __init__(
        self,
        limits: Limits,
        *,
        names: NameResolver,
        proxy: WebUrl | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._names = names
        self._proxy = proxy
        # with a proxy it alone is connected to, wherever the operator put it
        self._allowed: Allowed = limits.allow_private_networks if proxy is None else True
        self._tls = tls
        self._tls_lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self.tls_context: TlsContext | None = None  # None: not loaded yet
        # with the time it expires, in the loop's clock; the last used one last
        self.idle: dict[HttpConnection, tuple[Origin, float]] = {}
        self._expiring = False  # a timer closes idle connections
        self.busy: set[HttpConnection] = set()

    def take_idle(self, url: WebUrl) -> HttpConnection | None:
        """An idle connection to this origin that is still open, if there is one."""
        origin = url.origin
        for connection in [each for each in reversed(self.idle) if self.idle[each][0] == origin]:
            del self.idle[connection]
            if connection.is_reusable:
                self.busy.add(connection)
                return connection
        return None

    async def open(self, url: WebUrl, until: Deadlines, check: Check = None) -> HttpConnection:
        """A new connection to a permitted address (N4).

        `check` is called before a proxy is asked to connect (K8).
        """
        if self._proxy is not None:
            return await self._open_by_proxy(url, self._proxy, until, check)
        connection = await self._connect(url)
        self.busy.add(connection)
        return connection

    def release(self, connection: HttpConnection, origin: Origin) -> None:
        """Keep a connection idle for a while, or close it."""
        self.busy.discard(connection)
        if len(self.idle) >= self._limits.max_idle_connections or not connection.is_reusable:
            connection.abort()
            return
        self.idle[connection] = origin, self._loop.time() + _KEEP_ALIVE_SECONDS
        if not self._expiring:
            self._expiring = True
            self._loop.call_later(_KEEP_ALIVE_SECONDS, self._close_expired)

    def discard(self, connection: HttpConnection) -> None:
        """Close a connection after an error."""
        self.busy.discard(connection)
        connection.abort()

    def close(self) -> None:
        """Close all connections, also those in use."""
        for connection in (*self.busy, *self.idle):
            connection.abort()
        self.idle.clear()

    def _close_expired(self) -> None:
        """Close connections that were idle for too long; one timer for all of them."""
        now = self._loop.time()
        for connection, (_, expires_at) in list(self.idle.items()):
            if expires_at > now:
                self._loop.call_at(expires_at, self._close_expired)
                return
            del self.idle[connection]
            connection.abort()
        self._expiring = False

    async def _connect(self, url: WebUrl) -> HttpConnection:
        found = await self._names.addresses(url.host)
        check_addresses(url.host, found, self._allowed)
        tls = await self._tls_channel(url) if url.scheme == "https" else None
        factory = partial(HttpConnection, self._limits, tls)
        if len(found) == 1:  # checked just now, and connected to as it is written (N4)
            _, connection = await self._loop.create_connection(factory, found[0], url.port)
            return connection
        sock = await start_connection(
            _address_infos(found, url.port),
            happy_eyeballs_delay=_STAGGER_SECONDS,
            loop=self._loop,
            socket_factory=guarded_socket(self._allowed),
        )
        try:
            _, connection = await self._loop.create_connection(factory, sock=sock)
        except BaseException:
            sock.close()
            raise
        return connection

    async def _tls_channel(self, url: WebUrl) -> TlsChannel:
        if self.tls_context is None:
            async with self._tls_lock:  # loading all authorities takes a while: once, in a thread
                if self.tls_context is None:
                    self.tls_context = await asyncio.to_thread(TlsContext, self._tls)
        return self.tls_context.channel(url.host, url.port)

    async def _open_by_proxy(
        self, url: WebUrl, proxy: WebUrl, until: Deadlines, check: Check
    ) -> HttpConnection:
        try:
            connection = await self._connect(proxy)
        except OSError as error:
            raise ProxyFault(str(error)) from error
        self.busy.add(connection)
        if url.scheme == "http":
            return connection
        target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy_authorization(proxy)}\r\n"
        try:
            until = Deadlines(until.connected_by, until.connected_by)
            response = await connection.send(
                head.encode("ascii"), until, head_only=True, check=check
            )
            if not response.is_success:
                raise ProxyFault("it opens no tunnel", response.status)
            connection.start_tls(await self._tls_channel(url))
        except BaseException:
            self.discard(connection)
            raise
        return connection


def basic_authorization(url: WebUrl) -> str | None:
    """The credentials of a URL as the value of an Authorization header."""
    if url.username is None:
        return None
    credentials = f"{url.username}:{url.password or ''}".encode()
    return f"Basic {base64.b64encode(credentials).decode('ascii')}"


def proxy_authorization(proxy: WebUrl) -> str:
    """The header line with the proxy's credentials, or nothing if it has none."""
    value = basic_authorization(proxy)
    return "" if value is None else f"Proxy-Authorization: {value}\r\n"


def check_addresses(host: str, addresses: Sequence[str], allowed: Allowed) -> None:
    """Raise AddressRefused if any of a host's addresses may not be visited."""
    for address in addresses:
        reason = refusal(address, allowed)
        if reason is not None:
            log.info("[Fetch] address refused", host=host, address=address, reason=reason)
            raise AddressRefused(refusal_text(host, reason))


def guarded_socket(allowed: Allowed) -> Callable[[AddrInfoType], socket.socket]:
    """A socket factory that checks the very address that is connected to (N4)."""

    def open_socket(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        reason = refusal(str(address[0]), allowed)
        if reason is not None:
            raise Refused(errno.EACCES, refusal_text(str(address[0]), reason))
        sock = socket.socket(family=family, type=kind, proto=protocol)
        sock.setblocking(False)
        return sock

    return open_socket


def _address_infos(addresses: Sequence[str], port: int) -> list[AddrInfoType]:
    """The first addresses of each family: a long list must not become a long row of attempts."""
    ipv4 = [address for address in addresses if ":" not in address][:_MAX_ADDRESSES]
    ipv6 = [address for address in addresses if ":" in address][:_MAX_ADDRESSES]
    kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
    return [
        *((socket.AF_INET, kind, protocol, "", (address, port)) for address in ipv4),
        *((socket.AF_INET6, kind, protocol, "", (address, port, 0, 0)) for address in ipv6),
    ]
