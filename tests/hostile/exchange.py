"""One connection to a hostile host, byte by byte."""

import asyncio
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

PATIENCE = 45.0  # longer than any timeout of the service, but bounded


@dataclass
class Observation:
    """What the hosts of one row recorded."""

    requests: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    connections: int = 0
    sent: int = 0
    busy: int = 0  # open connections


@dataclass
class Exchange:
    """A request and the means to respond to it in every wrong way."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: Observation
    origin: str  # of the row's host
    other: str  # of its second host
    refused: str  # an address the service may not visit, with the port of a witness
    is_elsewhere: bool = False
    request: str = ""
    pem: str = ""  # key and certificate of a row that handles TLS itself

    @property
    def target(self) -> str:
        """Path and query of the request."""
        return self.request.split(" ")[1]

    @property
    def number(self) -> int:
        """Which request to the row's own host this is, from 1."""
        return len(self.seen.requests)

    def header(self, name: str) -> str | None:
        """A header of the request."""
        for line in self.request.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    async def send(self, *pieces: bytes) -> None:
        """Send, and wait until the client reads more."""
        for piece in pieces:
            if self.writer.is_closing():  # with TLS, no other layer raises this
                raise ConnectionResetError
            self.writer.write(piece)
            self.seen.sent += len(piece)
            await self.writer.drain()

    async def drip(self, pieces: Iterable[bytes], seconds: float) -> None:
        """Send piece by piece with a pause before each."""
        for piece in pieces:
            await asyncio.sleep(seconds)
            await self.send(piece)

    async def silence(self) -> None:
        """Send nothing until the client gives up."""
        async with asyncio.timeout(PATIENCE):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """End the connection with a reset instead of a close."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def head(*headers: str, status: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """The head of a response, with nothing added."""
    lines = "\r\n".join([f"{version} {status}", *headers, "", ""])
    return lines.encode("utf-8", "surrogateescape")


def answer(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """A complete response with its true length."""
    return head(f"Content-Length: {len(body)}", *headers, status=status) + body


def redirect(location: str, status: str = "302 Found", *headers: str) -> bytes:
    """A redirect without a body."""
    return answer(b"", f"Location: {location}", *headers, status=status)


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end
