"""Connections to a service, kept alive between requests: blocking ones, and those of asyncio."""

import asyncio
import selectors
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

import h11

from headwater.client.errors import HeadwaterTimeout, HeadwaterUnreachable
from headwater.client.http_exchange import (
    Address,
    Exchanges,
    IncomingResponse,
    OutgoingRequest,
    Steps,
    tls_context,
)

T = TypeVar("T")
_READ_BYTES = 65_536
_MAX_IDLE = 10
# the service refuses a long request before it has read all of it: read its response
_CLOSED = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@contextmanager
def _named_errors(address: Address, seconds: float) -> Iterator[None]:
    """Raise errors of the network as ours."""
    try:
        yield
    except TimeoutError as error:
        text = f"{address} did not respond within {seconds:g} s"
        raise HeadwaterTimeout(text) from error
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate of {address} is not valid: {error.verify_message}"
        raise HeadwaterUnreachable(text) from error
    except OSError as error:
        reason = error.strerror or error
        raise HeadwaterUnreachable(f"no connection to {address}: {reason}") from error
    except h11.RemoteProtocolError as error:
        text = f"{address} ended the connection before the response was complete: {error}"
        raise HeadwaterUnreachable(text) from error


class _Connection:
    """A blocking connection."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, seconds: float) -> None:
        self.exchanges = Exchanges(address)
        plain = socket.create_connection((address.host, address.port), timeout=seconds)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            name = address.host
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def run(self, steps: Steps[T]) -> T:
        received = b""
        try:
            wanted = next(steps)
            while True:
                if wanted is None:
                    received = self._socket.recv(_READ_BYTES)
                else:
                    with suppress(*_CLOSED):
                        self._socket.sendall(wanted)
                wanted = steps.send(received)
        except StopIteration as end:
            result: T = end.value
            return result

    def is_open(self) -> bool:
        """Whether the service has not closed the connection while it was idle."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        self._socket.close()


class Connections:
    """Blocking connections to one service. Threads can share them."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, seconds: float) -> None:
        self._address = address
        self._tls = tls_context(address, tls)
        self._seconds = seconds
        self._idle: list[_Connection] = []

    def exchange(self, outgoing: OutgoingRequest) -> IncomingResponse:
        """Send a request and read the response."""
        with _named_errors(self._address, self._seconds):
            connection = self._idle_one()
            if connection is not None:
                with suppress(h11.RemoteProtocolError, *_CLOSED):
                    return self._exchange(connection, outgoing)
                if not outgoing.is_repeatable:
                    raise h11.RemoteProtocolError("it is not known whether the request was handled")
            return self._exchange(self._open(self._seconds), outgoing)

    @contextmanager
    def stream(self, outgoing: OutgoingRequest, seconds: float) -> Iterator["Stream"]:
        """Send a request and read the response as it arrives, on a connection of its own."""
        with _named_errors(self._address, seconds):
            connection = self._open(seconds)
        try:
            with _named_errors(self._address, seconds):
                head = connection.run(connection.exchanges.start(outgoing))
            yield Stream(self._address, seconds, connection, head)
        finally:
            connection.close()

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _exchange(self, connection: _Connection, outgoing: OutgoingRequest) -> IncomingResponse:
        try:
            incoming = connection.run(connection.exchanges.whole(outgoing))
        except BaseException:
            connection.close()
            raise
        if connection.exchanges.can_continue and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return incoming

    def _open(self, seconds: float) -> _Connection:
        return _Connection(self._address, self._tls, seconds)

    def _idle_one(self) -> _Connection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_open():
                return connection
            connection.close()


class Stream:
    """A response that is read as it arrives."""

    def __init__(
        self, address: Address, seconds: float, connection: _Connection, head: IncomingResponse
    ) -> None:
        self._address = address
        self._seconds = seconds
        self._connection = connection
        self.head = head

    def parts(self) -> Iterator[bytes]:
        """The parts of the body."""
        while True:
            with _named_errors(self._address, self._seconds):
                part = self._connection.run(self._connection.exchanges.next_part())
            if part is None:
                return
            yield part


class _AsyncConnection:
    """A connection of an event loop."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.exchanges = Exchanges(address)
        self._reader = reader
        self._writer = writer

    async def run(self, steps: Steps[T], seconds: float) -> T:
        received = b""
        try:
            wanted = next(steps)
            while True:
                async with asyncio.timeout(seconds):
                    if wanted is None:
                        received = await self._reader.read(_READ_BYTES)
                    else:
                        with suppress(*_CLOSED):
                            self._writer.write(wanted)
                            await self._writer.drain()
                wanted = steps.send(received)
        except StopIteration as end:
            result: T = end.value
            return result

    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        # an aborted connection needs no further turn of the loop
        self._writer.transport.abort()


class AsyncConnections:
    """Connections to one service, for one event loop at a time."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, seconds: float) -> None:
        self._address = address
        self._tls = tls_context(address, tls)
        self._seconds = seconds
        self._idle: list[_AsyncConnection] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def exchange(self, outgoing: OutgoingRequest) -> IncomingResponse:
        """Send a request and read the response; cancelling it closes the connection."""
        with _named_errors(self._address, self._seconds):
            connection = self._idle_one()
            if connection is not None:
                with suppress(h11.RemoteProtocolError, *_CLOSED):
                    return await self._exchange(connection, outgoing)
                if not outgoing.is_repeatable:
                    raise h11.RemoteProtocolError("it is not known whether the request was handled")
            return await self._exchange(await self._open(self._seconds), outgoing)

    @asynccontextmanager
    async def stream(
        self, outgoing: OutgoingRequest, seconds: float
    ) -> AsyncIterator["AsyncStream"]:
        """Send a request and read the response as it arrives, on a connection of its own."""
        with _named_errors(self._address, seconds):
            connection = await self._open(seconds)
        try:
            with _named_errors(self._address, seconds):
                head = await connection.run(connection.exchanges.start(outgoing), seconds)
            yield AsyncStream(self._address, seconds, connection, head)
        finally:
            connection.close()

    async def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # the loop closes the sockets

    async def _exchange(
        self, connection: _AsyncConnection, outgoing: OutgoingRequest
    ) -> IncomingResponse:
        try:
            incoming = await connection.run(connection.exchanges.whole(outgoing), self._seconds)
        except BaseException:
            connection.close()
            raise
        if connection.exchanges.can_continue and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return incoming

    async def _open(self, seconds: float) -> _AsyncConnection:
        address, tls = self._address, self._tls
        name = None if tls is None else address.host
        async with asyncio.timeout(seconds):
            opened = asyncio.open_connection(
                address.host, address.port, ssl=tls, server_hostname=name
            )
            return _AsyncConnection(address, *await opened)

    def _idle_one(self) -> _AsyncConnection | None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # those of a loop that has ended cannot be used
            self._loop, self._idle = loop, []
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open():
                return connection
            connection.close()
        return None


class AsyncStream:
    """A response that is read as it arrives."""

    def __init__(
        self, address: Address, seconds: float, connection: _AsyncConnection, head: IncomingResponse
    ) -> None:
        self._address = address
        self._seconds = seconds
        self._connection = connection
        self.head = head

    async def parts(self) -> AsyncIterator[bytes]:
        """The parts of the body."""
        while True:
            with _named_errors(self._address, self._seconds):
                steps = self._connection.exchanges.next_part()
                part = await self._connection.run(steps, self._seconds)
            if part is None:
                return
            yield part
