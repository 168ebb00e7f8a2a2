"""One connection to a simulated host: requests one after another, kept alive."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Protocol, cast

from headwater.demo.exchange import Head, Reply, read_head, write_reply

MAX_HEAD_BYTES = 65536
_END_OF_HEAD = b"\r\n\r\n"


class Answerer(Protocol):
    """What a connection needs of its host."""

    async def answer(self, head: Head) -> Reply | None:
        """Answer one request; None hangs up."""
        ...

    def now(self) -> datetime:
        """The moment that replies are dated with."""
        ...


class Connection(asyncio.Protocol):
    """Reads requests and writes replies; a client that goes away ends what it waited for."""

    def __init__(self, host: Answerer, gone: Callable[["Connection"], None]) -> None:
        self._host = host
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._job: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # every event loop has its own kind

    def data_received(self, data: bytes) -> None:
        """Begin to answer once a request is whole."""
        self._received += data
        self._begin()

    def connection_lost(self, _: Exception | None) -> None:
        """Stop working for nobody."""
        self._transport = None
        if self._job is not None:
            self._job.cancel()
        self._gone(self)

    async def close(self) -> None:
        """Cut the connection and wait until the work for it has ended."""
        if self._transport is not None:
            self._transport.abort()
        if self._job is not None:
            self._job.cancel()
            with suppress(asyncio.CancelledError):
                await self._job

    def _begin(self) -> None:
        if self._job is not None or self._transport is None:
            return
        try:
            head = self._take_head()
        except ValueError:
            self._transport.abort()
            return
        if head is not None:
            self._job = asyncio.get_running_loop().create_task(self._serve(head))

    def _take_head(self) -> Head | None:
        """The next request, if it is there with all of its body, which nobody reads."""
        end = self._received.find(_END_OF_HEAD)
        if end < 0:
            if len(self._received) > MAX_HEAD_BYTES:
                raise ValueError("no end of the head in sight")
            return None
        head = read_head(bytes(self._received[:end]))
        length = end + len(_END_OF_HEAD) + int(head.headers.get("content-length", "0"))
        if len(self._received) < length:
            return None
        del self._received[:length]
        return head

    async def _serve(self, head: Head) -> None:
        reply = await self._host.answer(head)
        self._job = None
        if self._transport is None:
            return
        if reply is None:
            self._transport.abort()
            return
        with_body = head.method != "HEAD"
        payload = write_reply(
            reply, now=self._host.now(), keep_alive=head.keep_alive, with_body=with_body
        )
        self._transport.write(payload)
        if not head.keep_alive:
            self._transport.close()
        self._begin()
