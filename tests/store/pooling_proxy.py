"""A small PostgreSQL proxy that shares a few server sessions between its clients."""

import asyncio
import itertools
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from psycopg.conninfo import conninfo_to_dict

_FIRST_PID = 1_000_000  # proxies report process numbers of their own


class PoolingProxy:
    """Lends a server session for a transaction, or for a whole connection (session mode)."""

    def __init__(self, socket: str, *, by_transaction: bool) -> None:
        self._socket = socket
        self._by_transaction = by_transaction
        self._idle: asyncio.Queue[tuple[StreamReader, StreamWriter]] = asyncio.Queue()
        self._writers: list[StreamWriter] = []
        self._greeting = b""
        self._opening = asyncio.Lock()
        self._pids = itertools.count(_FIRST_PID)

    async def open_sessions(self, startup: bytes, count: int) -> None:
        """Open sessions with the startup message of a client."""
        for _ in range(count):
            reader, writer = await asyncio.open_unix_connection(self._socket)
            writer.write(startup)
            self._greeting = await _until_ready(reader)
            self._writers.append(writer)
            self._idle.put_nowait((reader, writer))

    async def serve(self, client: StreamReader, answers: StreamWriter, sessions: int) -> None:
        """Relay the messages of one client until it leaves."""
        session = None
        with suppress(asyncio.IncompleteReadError):  # it has left
            length = await client.readexactly(4)
            startup = length + await client.readexactly(int.from_bytes(length) - 4)
            async with self._opening:
                if not self._writers:
                    await self.open_sessions(startup, sessions)
            answers.write(_with_pid(self._greeting, next(self._pids)))
            while request := await _request(client):
                session = session or await self._idle.get()
                session[1].write(request)
                answer = await _until_ready(session[0])
                answers.write(answer)
                if self._by_transaction and answer.endswith(b"I"):  # in no transaction
                    self._idle.put_nowait(session)
                    session = None
        if session is not None:
            self._idle.put_nowait(session)
        answers.close()

    def close(self) -> None:
        """Close all server sessions."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def pooling_proxy(url: str, *, by_transaction: bool, sessions: int) -> AsyncIterator[str]:
    """Run a proxy for a database with a Unix socket; yields its URL."""
    target = conninfo_to_dict(url)
    socket = f"{target['host']}/.s.PGSQL.{target.get('port', 5432)}"
    proxy = PoolingProxy(socket, by_transaction=by_transaction)
    server = await asyncio.start_server(lambda r, w: proxy.serve(r, w, sessions), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = f"{target['user']}@127.0.0.1:{port}/{target['dbname']}"
    async with server:
        yield f"postgresql://{address}?sslmode=disable&gssencmode=disable"
    proxy.close()


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


async def _request(client: StreamReader) -> bytes:
    """All messages up to a Query or Sync; nothing if the client leaves."""
    messages = [await _message(client)]
    while messages[-1][:1] not in (b"Q", b"S", b"X"):
        messages.append(await _message(client))
    return b"" if messages[-1][:1] == b"X" else b"".join(messages)


async def _until_ready(server: StreamReader) -> bytes:
    """All messages up to ReadyForQuery, which ends with the state of the transaction."""
    messages = [await _message(server)]
    while messages[-1][:1] != b"Z":
        messages.append(await _message(server))
    return b"".join(messages)


def _with_pid(greeting: bytes, pid: int) -> bytes:
    """The greeting of a session with another process number (BackendKeyData)."""
    at = greeting.index(b"K\0\0\0\x0c") + 5
    return greeting[:at] + pid.to_bytes(4) + greeting[at + 4 :]
