"""The hostile web: one process, a separate loopback host for every row of the table.

`python -m tests.hostile.hostile_web FOLDER` prints its port when all hosts listen, reports at
CONTROL what they recorded, and ends with its standard input. FOLDER/ca.pem has the trusted CA.
"""

import asyncio
import contextlib
import gzip
import inspect
import json
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.hostile.certificates import Authority
from tests.hostile.exchange import Exchange, Observation, answer
from tests.hostile.rows import (
    CONTROL,
    FLOOD,
    FLOOD_ROWS,
    ROWS,
    WITNESSES,
    address,
    second_address,
)
from tests.hostile.table import Misbehaviour

_BACKLOG = 256
_NOBODY: Any = None  # heavy documents are shared by all connections
Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HostileWeb:
    """All hosts, and what they recorded."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.seen = [Observation() for _ in ROWS]
        self.witnessed = 0
        self._authority = Authority(folder)
        self._owned = contextlib.AsyncExitStack()

    async def __aenter__(self) -> "HostileWeb":
        for index, misbehaviour in enumerate(ROWS):
            await self._open(index, misbehaviour)
        for host in WITNESSES:
            await self._listen(host, self._witness)
        await self._listen(CONTROL, self._report)
        for number, host in enumerate(FLOOD):
            document = _flood_document(FLOOD_ROWS[number].name, packed=number % 2 == 1)
            await self._listen(host, partial(_flood, document))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._owned.aclose()

    async def _open(self, index: int, misbehaviour: Misbehaviour) -> None:
        host, how = address(index), misbehaviour.listens
        if how == "full":
            self._owned.enter_context(_full_queue(host, self.port))
        elif how != "closed":
            tls = self._authority.context(how, host) if how.startswith("tls") else None
            await self._listen(host, partial(self._converse, index, False), tls)
        if misbehaviour.elsewhere:
            await self._listen(second_address(index), partial(self._converse, index, True))

    async def _listen(
        self, host: str, connected: Connected, tls: ssl.SSLContext | None = None
    ) -> None:
        server = await asyncio.start_server(
            connected, host, self.port, ssl=tls, limit=1 << 20, backlog=_BACKLOG
        )
        self._owned.callback(server.close)

    async def _converse(
        self,
        index: int,
        is_elsewhere: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        misbehaviour, seen = ROWS[index], self.seen[index]
        seen.connections += 1
        exchange = Exchange(
            reader,
            writer,
            seen,
            origin=f"http://{address(index)}:{self.port}",
            other=f"http://{second_address(index)}:{self.port}",
            refused=f"{WITNESSES[0]}:{self.port}",
            is_elsewhere=is_elsewhere,
        )
        if misbehaviour.listens == "bare":
            host = address(index)
            exchange.pem = str(self._authority.written(self._authority.vouched(host), host))
        try:
            while await self._exchanged(misbehaviour, exchange):
                pass
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client has disconnected
        finally:
            writer.close()

    async def _exchanged(self, misbehaviour: Misbehaviour, exchange: Exchange) -> bool:
        """Respond to one request; return whether the connection is kept alive."""
        if not misbehaviour.at_accept:
            raw = await exchange.reader.readuntil(b"\r\n\r\n")
            exchange.request = raw.decode("latin-1")
            visits = exchange.seen.elsewhere if exchange.is_elsewhere else exchange.seen.requests
            visits.append(exchange.request)
        talk = misbehaviour.talk
        reply = talk if isinstance(talk, bytes) else talk(exchange)
        if inspect.isawaitable(reply):
            exchange.seen.busy += 1
            try:
                await reply
            finally:
                exchange.seen.busy -= 1
            return False
        await exchange.send(reply)
        head = reply.partition(b"\r\n\r\n")[0].lower()
        return b"\r\ncontent-length:" in head and b"connection: close" not in head

    async def _witness(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.witnessed += 1
        writer.close()

    async def _report(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reported = {"witnessed": self.witnessed, "seen": [asdict(seen) for seen in self.seen]}
        writer.write(answer(json.dumps(reported).encode(), "Connection: close"))
        await writer.drain()
        writer.close()


@cache
def _flood_document(name: str, *, packed: bool) -> bytes:
    """The document of a heavy row, plain or compressed."""
    talk: Any = next(row.talk for row in FLOOD_ROWS if row.name == name)
    document = bytes(talk(_NOBODY))
    if not packed:
        return document
    body = document.partition(b"\r\n\r\n")[2]
    return answer(gzip.compress(body, 1), "Content-Encoding: gzip")


async def _flood(
    document: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send as many bytes as a client accepts."""
    with contextlib.suppress(OSError, EOFError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(document)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def _full_queue(host: str, port: int):
    """A host whose connection backlog is full and stays so."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(8):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _make_documents() -> None:
    """Create slow documents before they are requested."""
    for misbehaviour in ROWS:
        talk = misbehaviour.talk
        if misbehaviour.heavy and callable(talk) and not inspect.iscoroutinefunction(talk):
            talk(_NOBODY)


async def main() -> None:
    """Serve until standard input is closed."""
    _make_documents()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # clients disconnect in every possible way
    async with HostileWeb(_free_port(), Path(sys.argv[1])) as web:
        print(web.port, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(main())
