"""Connections: who may be connected to, and what may come back over the wire (N3, N4, N7, N11)."""

import errno
import functools
import socket  # noqa: TID251  the guard makes the sockets of the one client (N4)
from collections.abc import Callable, Sequence
from itertools import islice
from ssl import SSLContext
from typing import Any, cast

from aiohttp import (  # noqa: TID251  the inner half of headwater.fetch.http
    ClientConnectionError,
    ClientOSError,
    ClientPayloadError,
    ServerDisconnectedError,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: TID251
from aiohttp.client_proto import ResponseHandler  # noqa: TID251
from aiohttp.connector import AddrInfoType  # noqa: TID251
from aiohttp.http_exceptions import HttpProcessingError  # noqa: TID251
from aiohttp.streams import StreamReader  # noqa: TID251

from headwater.errors import AddressRefused, FetchError, TooLarge
from headwater.fetch.address import Allowed, refusal
from headwater.fetch.names import Names

MAX_HEADER_BYTES = 65_536
MAX_HEADERS = 200
MAX_INFORMATIONAL = 10
_HEAD_SLICE = 8_192  # bytes of a head that are read at a time, before the limits are looked at
_KEEP_ALIVE_SECONDS = 5.0  # for the next source of the same lane
_MAX_IDLE = 64  # kept connections in all: a thousand hosts a second must not use up descriptors
_MAX_ADDRESSES = 4  # of each family, that are tried


class Refused(PermissionError):
    """The address guard let no socket be made."""


class Unanswered(ClientConnectionError):
    """A new connection broke before the answer; only a kept one is worth another try (N11)."""


class Wire(ResponseHandler):
    """One connection, with the limits that the library does not have."""

    def __init__(self, *, max_wire_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self._max_wire_bytes = max_wire_bytes
        self._requests = 0
        self._wire_bytes = 0
        self._informational = 0
        self._is_answered = False  # the final head is here
        self._is_complete = False  # and all of the body
        self._body: StreamReader | None = None

    def set_response_params(self, **options: Any) -> None:
        """Begin to wait for an answer."""
        self._requests += 1
        self._wire_bytes = self._informational = 0
        self._is_answered = self._is_complete = False
        self._body = None
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Take what came over the wire, unless nobody asked for it (N11) or it is too much."""
        self._wire_bytes += len(data)
        if not self._is_answered:
            data = self._read_head(data)
            if not data:
                return
        if self._is_complete:
            if data:  # without any, it is only a reader that has caught up
                self._should_close = True
                self.abort()
            return
        super().data_received(data)
        self._note_completion()
        if self._wire_bytes > self._max_wire_bytes:
            self.fail(TooLarge("the answer has far more bytes than its body"))

    def _read_head(self, data: bytes) -> bytes:
        """Read heads one by one up to the final one, and return what follows it.

        So a flood of heads ends at its first few (H2), and what is wrong with a body is not
        blamed on its head.
        """
        at = 0
        while at < len(data) and not self._is_answered and self._exception is None:
            blank_line = data.find(b"\r\n\r\n", at, at + _HEAD_SLICE)
            end = at + _HEAD_SLICE if blank_line < 0 else blank_line + 4
            super().data_received(data[at:end])
            at = end
        self._note_completion()
        if not self._is_answered and self._wire_bytes > MAX_HEADER_BYTES:
            self.fail(TooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes"))
        return data[at:] if self._is_answered else b""

    def _note_completion(self) -> None:
        payload = self._payload
        self._is_complete = self._is_answered and (payload is None or payload.is_eof())

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a head that was read; informational ones are only counted."""
        message, payload = data
        if self._is_answered:
            self.set_exception(ClientPayloadError("more than one answer to one question"))
        elif 100 <= message.code < 200 and message.code != 101:
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                self.fail(TooLarge(f"more than {MAX_INFORMATIONAL} informational responses"))
        else:
            self._is_answered = True
            self._body = payload
            self._should_close |= message.code == 101  # who switches without being asked goes
            head = sum(len(name) + len(value) + 4 for name, value in message.raw_headers)
            if head > MAX_HEADER_BYTES:
                self.fail(TooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes"))
            else:
                super().feed_data(data, size)

    def fail(self, error: FetchError) -> None:
        """End the connection for a reason of ours."""
        if self._exception is None:
            self.set_exception(error)
        if self.transport is not None:
            self.transport.abort()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """Tell both who waits for the head and who waits for the body.

        A body with something behind it that does not belong there is broken too (N10).
        """
        if exc_cause is not None and type(exc_cause) is not BaseException:  # that means none
            exc.__cause__ = exc_cause
        if self._requests <= 1 and isinstance(exc, (ClientOSError, ServerDisconnectedError)):
            broken, exc = exc, Unanswered("closed before the answer")
            exc.__cause__ = broken
        super().set_exception(exc)
        if self._body is None:
            return
        if isinstance(exc, (HttpProcessingError, ClientPayloadError)):
            self._body.set_exception(ClientPayloadError("the body contradicts its head"), exc)
        elif not self._body.is_eof():
            self._body.set_exception(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take a body that ends with its connection for whole only if that was closed (N10)."""
        body = self._body
        if exc is not None and body is not None and not body.is_eof():
            body.set_exception(ClientPayloadError("the connection was reset within the body"), exc)
        super().connection_lost(exc)

    def close(self) -> None:
        """Close at once: nobody is kept waiting for by a peer that does not say goodbye."""
        self.abort()


class Connector(TCPConnector):
    """Opens guarded connections and keeps a few of them for a moment."""

    def __init__(
        self,
        *,
        names: Names,
        allowed: Allowed,
        max_wire_bytes: int,
        tls: SSLContext | None = None,
    ) -> None:
        super().__init__(
            resolver=_Resolver(names, allowed),
            socket_factory=guarded_socket(allowed),
            use_dns_cache=False,  # the resolver has its own, which knows how long answers live
            ssl=True if tls is None else tls,
            limit=0,  # the client counts, before any time limit runs
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )
        wire = functools.partial(Wire, max_wire_bytes=max_wire_bytes, loop=self._loop)
        self._factory = cast("functools.partial[ResponseHandler]", wire)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        is_full = len(self._conns) >= _MAX_IDLE
        super()._release(key, protocol, should_close=should_close or is_full)


class _Resolver(AbstractResolver):
    """Names for the connector; one refused address refuses the whole answer (N4)."""

    def __init__(self, names: Names, allowed: Allowed) -> None:
        self._names = names
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._names.addresses(host)
        judge(host, found, self._allowed)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in _few_of_each_family(found)
        ]

    async def close(self) -> None:
        """Leave the names to their owner."""


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
        return socket.socket(family=family, type=kind, proto=protocol)

    return open_socket


def _refused(where: str, why: str) -> str:
    return f"{where} is not a public address ({why}); app.fetch.allow-private-networks can allow it"


def _few_of_each_family(addresses: Sequence[str]) -> list[str]:
    """Some of many addresses: a stranger's list must not become a row of attempts."""
    ipv4 = islice((a for a in addresses if ":" not in a), _MAX_ADDRESSES)
    ipv6 = islice((a for a in addresses if ":" in a), _MAX_ADDRESSES)
    return [*ipv4, *ipv6]
