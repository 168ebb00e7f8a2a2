"""One connection: a question at a time, and its answer within the limits (N7, N9, N10, N11)."""

import asyncio
from collections.abc import Callable
from typing import cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade

from headwater.errors import BrokenBody, FetchError, Overtaken, TooLarge
from headwater.fetch.reading import MAX_ERROR_BODY, MAX_HEADER_BYTES, Bounds, Reading, parser_for
from headwater.fetch.tls import Insecure, Secured
from headwater.fetch.wire_errors import Lost, NoHttp, Slow, Stalled

REDIRECTS = frozenset({301, 302, 303, 307, 308})
SMALL_BODY = 1_048_576  # larger ones need leave to grow (H1)
_BITE_BYTES = 65_536  # that are read in one go, be they thousands of chunks (H2)
_SMALL_BITE_BYTES = 4096  # the same where they are
_LARGE_PIECES = 0.875  # of what is read is body, where its pieces are large
_NO_BODY = frozenset({101, 204, 205, 304, *REDIRECTS})


Check = Callable[[], None] | None  # raises Overtaken if nothing more may be asked (K8)


class Wire(Reading, asyncio.Protocol):
    """A connection to one host, over which questions are asked."""

    def __init__(self, bounds: Bounds, secured: Secured | None) -> None:
        super().__init__(bounds)
        self._secured = secured
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._bite_bytes = _BITE_BYTES
        self._unread = memoryview(b"")  # what came, and waits for its turn
        self.questions = 0
        self.is_idle = True

    def _clear(self) -> None:
        """Forget the last answer."""
        super()._clear()
        self.is_waiting = False  # for leave to grow large
        self._may_grow = False
        self._head_only = False
        self._wire_bytes = 0  # as they came, sealed or not
        self._said_bytes = 0  # what they say
        self._question = b""
        self._check: Check = None

    @property
    def is_silent(self) -> bool:
        """Whether not one byte came in answer."""
        return self._said_bytes == 0

    @property
    def is_reusable(self) -> bool:
        """Whether another question may be asked after this one."""
        return (
            self.is_complete
            and self._transport is not None
            and not self._transport.is_closing()
            and self._keeps
        )

    async def ask(
        self,
        question: bytes,
        *,
        shaken_by: float,
        over_at: float,
        head_only: bool = False,
        check: Check = None,
    ) -> None:
        """Send a question and wait until there is as much of the answer as is wanted.

        With `is_waiting` set, that is the start of a large body: `grow` reads on. `check` is
        looked at when the question is sent: hands are shaken for a while.
        """
        if self.questions:
            self._clear()
        self.questions += 1
        self.is_idle = False
        self._head_only = head_only
        self._over_at = over_at
        self._check = check
        if self._secured is None or self._secured.is_ready:
            self._send(question)
        else:
            self._question = question
            self._quiet_by = shaken_by
            self._write(self._secured.greet())
        await self._wait()

    async def grow(self) -> None:
        """Read the rest of a large body."""
        self._may_grow, self.is_waiting = True, False
        if self._transport is not None and not self._unread:
            self._transport.resume_reading()
        self._quiet_by = self._loop.time() + self._bounds.read_seconds
        await self._wait()

    def postpone(self, seconds: float) -> None:
        """Give an answer that had to wait for us so much longer."""
        self._over_at += seconds

    def secure(self, secured: Secured) -> None:
        """Speak TLS from now on, through the tunnel that a proxy has opened."""
        self._secured = secured
        self._parser = parser_for(self)
        self.questions = 0
        self._clear()

    def abort(self) -> None:
        """Close at once: nobody is kept waiting for by a peer that does not say goodbye."""
        self.body = bytearray()  # whoever holds on to this connection holds on to nothing more (H1)
        self._end_secured()
        self._fail(Lost("closed by ourselves"))  # a part is never taken for the whole (N10)

    async def _wait(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        if self._transport is None:
            self._fail(Lost("closed before the answer"))
        self._timer = self._loop.call_at(min(self._quiet_by, self._over_at), self._look_at_time)
        try:
            await waiter
        finally:
            self._waiter = None
            self._timer.cancel()
            del waiter  # its error would keep this frame, and the frame its error

    def _look_at_time(self) -> None:
        """Give up what has been quiet for too long, or look again when it might be."""
        now, due = self._loop.time(), min(self._quiet_by, self._over_at)
        if now < due:
            self._timer = self._loop.call_at(due, self._look_at_time)
        elif self.is_answered and not 200 <= self.status < 300:
            self._enough()  # an error with a body that does not end is still that error (N9)
        elif self._question:
            self._fail(Slow("the handshake took too long"))
        else:
            self._fail(Stalled("nothing came for too long"))

    def _send(self, question: bytes) -> None:
        self._question = b""
        check, self._check = self._check, None  # a kept connection keeps nobody's visit
        if check is not None:
            check()
        self._quiet_by = self._loop.time() + self._bounds.read_seconds
        self._write(question if self._secured is None else self._secured.seal(question))

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _enough(self) -> None:
        self.is_idle = not self.is_waiting
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self.is_idle = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what came over the wire, unless nobody asked for it (N11)."""
        self._wire_bytes += len(data)
        if self._secured is not None:
            self._open(data, self._secured)
        elif self.is_idle:
            self.abort()
        else:
            self._read(data)

    def _open(self, data: bytes, secured: Secured) -> None:
        """Take sealed bytes; after its goodbye the other side has nothing more to say."""
        try:
            said = secured.receive(data)
            self._write(secured.outgoing())
            if self._question and secured.is_ready:
                self._send(self._question)
        except (Insecure, Overtaken) as error:
            self._fail(error)
            return
        if said and self.is_idle:
            self.abort()
        elif said:
            self._read(said)
        elif self._wire_bytes > self._bounds.max_wire_bytes:
            self._fail(TooLarge("the answer has far more bytes than its body"))
        if not self._unread:
            self._look_for_goodbye(secured)

    def _look_for_goodbye(self, secured: Secured) -> None:
        if secured.is_over and self._transport is not None:
            self._transport.abort()
            self._ended(None, is_whole=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that the connection is gone."""
        self._transport = None
        data, self._unread = self._unread, memoryview(b"")
        while data and not self.is_idle:
            self._read(data[: self._bite_bytes], more=len(data) > self._bite_bytes)
            data = data[self._bite_bytes :]
        self._ended(exc, is_whole=self._secured is None or self._secured.is_over)
        self._end_secured()
        del self._parser  # which knows us too: no circle for the garbage collector to find

    def _end_secured(self) -> None:
        secured, self._secured = self._secured, None
        if secured is not None:
            secured.end()

    def _ended(self, exc: Exception | None, *, is_whole: bool) -> None:
        """Take a body that ends with its connection for whole only if that was closed (N10).

        Over TLS that takes a goodbye: anybody on the way can close a connection.
        """
        if not self.is_answered:
            during = "during the TLS handshake" if self._question else "before the answer"
            self._fail(exc if isinstance(exc, OSError) else Lost(f"closed {during}"))
        elif not 200 <= self.status < 300:
            self._enough()
        elif exc is not None:
            self._fail(BrokenBody("the connection was reset within the body"))
        elif self._has_length or not is_whole:
            self._fail(BrokenBody("the body was cut short"))
        else:
            self.is_complete = True
            self._enough()

    def _read(self, data: bytes | memoryview, *, more: bool = False) -> None:
        """Read what came; with `more`, the rest of it follows at once."""
        if len(data) > self._bite_bytes:
            self._read_in_bites(memoryview(data))
            return
        self._said_bytes += len(data)
        self._quiet_by = self._loop.time() + self._bounds.read_seconds
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            more = False  # who switches without being asked has answered, and goes
        except HttpParserCallbackError as error:
            cause = error.__context__
            if isinstance(cause, FetchError):
                self._fail(cause)
            else:
                self._misread(error)
            return
        except HttpParserError as error:
            self._misread(error)
            return
        if not more:
            self._weigh()

    def _read_in_bites(self, data: memoryview) -> None:
        """Read on as long as a body comes in large pieces; else give others their turn (H2)."""
        while data and not self.is_idle:
            before, bite = self.size, data[: self._bite_bytes]
            data = data[self._bite_bytes :]
            self._read(bite, more=bool(data))
            if data and self.size - before < len(bite) * _LARGE_PIECES and not self.is_idle:
                self._unread, self._bite_bytes = data, _SMALL_BITE_BYTES
                if self._transport is not None:
                    self._transport.pause_reading()
                self._loop.call_soon(self._read_on)
                return

    def _read_on(self) -> None:
        data, self._unread = self._unread, memoryview(b"")
        if self._transport is None or not data:
            return
        self._read_in_bites(data)
        if self._unread:
            return
        if not self.is_waiting and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._secured is not None:
            self._look_for_goodbye(self._secured)

    def _misread(self, error: HttpParserError) -> None:
        """Tell an answer that is wrong from what follows one, and from no answer at all."""
        if self.is_answered and (self.status in _NO_BODY or not 200 <= self.status < 300):
            self.is_complete = False  # so it is not asked again
            self._enough()
        elif self.is_answered:
            self._fail(BrokenBody("the body contradicts its head"))
        elif self._speaks_http:
            self._fail(BrokenBody("the answer is not valid HTTP"))
        else:
            self._fail(NoHttp(str(error)))

    def _weigh(self) -> None:
        """See whether this is enough, or too much."""
        if self.is_complete:
            self._enough()
        elif self._wire_bytes > self._bounds.max_wire_bytes:
            self._fail(TooLarge("the answer has far more bytes than its body"))
        elif not self.is_answered:
            if self._said_bytes > MAX_HEADER_BYTES:
                self._fail(TooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes"))
        elif self._head_only or self.status in _NO_BODY:
            self._enough()
        elif not 200 <= self.status < 300:
            if len(self.body) >= MAX_ERROR_BODY:
                self._enough()
        elif self._is_large() and not self._may_grow and not self.is_waiting:
            self.is_waiting = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._enough()

    def _is_large(self) -> bool:
        """Whether a body is, or says that it will be, too large to be read without leave (H1)."""
        return len(self.body) > SMALL_BODY or self.announced > SMALL_BODY
