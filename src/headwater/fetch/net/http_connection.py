"""One connection: a request at a time, and its response within the limits (N7, N9, N10, N11)."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple, cast

from headwater.errors import FetchError, LeaseLost, TooLarge
from headwater.fetch.net.http_response_parser import ConnectionLost, NotHttp, ResponseParser
from headwater.fetch.net.limits import Limits
from headwater.fetch.net.tls import TlsChannel, TlsError

_BATCH_BYTES = 65_536  # parsed without a pause, even if they are thousands of chunks (H2)
_SMALL_BATCH_BYTES = 4096  # the same where they are
_LARGE_CHUNKS = 0.875  # share of body bytes that shows that chunks are large
_DROPPED_BODY_SECONDS = 5.0

Check = Callable[[], None] | None  # raises LeaseLost if nothing more may be requested (K8)


class ReadStalled(TimeoutError):
    """No data arrived for too long."""


class Deadlines(NamedTuple):
    """Deadlines of one request, by the event loop's clock."""

    connected_by: float
    over_at: float


class ResponseTimer:
    """Calls a function after the earlier of two deadlines, which may change meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.quiet_by = inf  # the deadline for the next bytes, by the loop's clock
        self.over_at = inf  # the deadline for the whole response
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def start(self, on_timeout: Callable[[], None]) -> None:
        """Start, or start again because a deadline is now earlier."""
        self.cancel()
        self._handle = self._loop.call_at(self._deadline(), self._check, on_timeout)

    def end_by(self, moment: float, on_timeout: Callable[[], None]) -> None:
        """Bring the deadline for the whole response forward, also while the timer runs."""
        self.over_at = min(self.over_at, moment)
        if self._handle is not None and self.over_at < self._handle.when():
            self.start(on_timeout)

    def cancel(self) -> None:
        """Stop; a cancelled timer refers to no function."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _deadline(self) -> float:
        return min(self.quiet_by, self.over_at)

    def _check(self, on_timeout: Callable[[], None]) -> None:
        if self._loop.time() < self._deadline():
            self.start(on_timeout)
        else:
            on_timeout()


class HttpConnection(asyncio.Protocol):
    """A connection to one host: sends requests, decrypts, schedules parsing, keeps deadlines."""

    def __init__(self, limits: Limits, tls: TlsChannel | None) -> None:
        self._limits = limits
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._batch_bytes = _BATCH_BYTES
        self._pending_request = b""  # until the handshake is over
        self._check: Check = None
        self._wire_bytes = 0  # of this response, before decryption
        self._has_permit = False
        self.needs_permit = False  # reading is paused: the body is large (H1)
        self.unparsed = memoryview(b"")  # received, and parsed in a later loop iteration
        self.timer = ResponseTimer(self._loop)
        self.response = ResponseParser(limits)  # to the last request, as far as it was received
        self.request_count = 0
        self.is_idle = True

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow the last response."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self.response.is_complete and self.response.keeps_alive

    async def send(
        self,
        request: bytes,
        until: Deadlines,
        *,
        head_only: bool = False,
        drops_body: bool = False,
        check: Check = None,
    ) -> ResponseParser:
        """Send a request and wait until its response is sufficient.

        With `needs_permit` set, that is the start of a large body: `read_large_body` reads on.
        `check` is called right before the request is sent, since a handshake takes a while.
        """
        if self.request_count:
            self.response.close()
            self.response = ResponseParser(self._limits)
            self.needs_permit = self._has_permit = False
            self._wire_bytes = 0
        self.request_count += 1
        self.is_idle = False
        self.response.head_only, self.response.drops_body = head_only, drops_body
        self.timer.over_at = until.over_at
        self._check = check
        if self._tls is None or self._tls.is_established:
            self._send(request)
        else:
            self._pending_request = request
            self.timer.quiet_by = until.connected_by
            self._write(self._tls.start_handshake())
        await self._wait()
        return self.response

    async def read_large_body(self) -> None:
        """Read the rest of a large body; the caller holds a permit."""
        self._has_permit, self.needs_permit = True, False
        if self._transport is not None and not self.unparsed:
            self._transport.resume_reading()
        self.timer.quiet_by = self._loop.time() + self._limits.read_timeout_seconds
        await self._wait()

    def start_tls(self, tls: TlsChannel) -> None:
        """Use TLS from now on, through the tunnel that a proxy has opened."""
        if self._transport is None:
            raise ConnectionLost("the proxy closed its tunnel")
        self._tls = tls

    def abort(self) -> None:
        """Close at once, without waiting for the peer."""
        self.response.body = bytearray()  # a reference to this connection holds no body (H1)
        self._close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Decrypt and parse; unrequested bytes close the connection (N11)."""
        self._wire_bytes += len(data)
        if self._tls is not None:
            self._decrypt(data, self._tls)
        elif self.is_idle:
            self._close()
        else:
            self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Parse what was received, then fail or finish the response."""
        self._transport = None
        unparsed, self.unparsed = self.unparsed, memoryview(b"")
        if unparsed:
            self._read(unparsed, at_once=True)
        if exc is None and self._pending_request:
            exc = ConnectionLost("closed during the TLS handshake")
        self._end_response(exc, is_clean=self._tls is None or self._tls.is_closed_by_peer)
        self._close_tls()
        self.response.close()

    def _send(self, request: bytes) -> None:
        self._pending_request = b""
        check, self._check = self._check, None  # an idle connection holds no caller's callback
        if check is not None:
            check()
        self.timer.quiet_by = self._loop.time() + self._limits.read_timeout_seconds
        if self._waiter is not None:  # the handshake's deadline may be later
            self.timer.start(self._time_out)
        self._write(request if self._tls is None else self._tls.encrypt(request))

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    async def _wait(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        if self._transport is None:
            self._fail(ConnectionLost("closed before the response"))
        self.timer.start(self._time_out)
        try:
            await waiter
        finally:
            self._waiter = None
            self.timer.cancel()
            del waiter  # its exception refers to this frame: a cycle

    def _time_out(self) -> None:
        if self.response.has_head and not self.response.needs_body:
            self._finish()  # an error whose body does not end is still that error (N9)
        elif self._pending_request:
            self._fail(TimeoutError("the TLS handshake took too long"))
        else:
            self._fail(ReadStalled("no data for too long"))

    def _finish(self) -> None:
        self.is_idle = not self.needs_permit
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self.is_idle = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    def _decrypt(self, data: bytes, tls: TlsChannel) -> None:
        try:
            decrypted = tls.decrypt(data)
            self._write(tls.take_output())
            if self._pending_request and tls.is_established:
                self._send(self._pending_request)
        except (TlsError, LeaseLost) as error:
            self._fail(error)
            return
        if decrypted and self.is_idle:
            self._close()
        elif decrypted:
            self._read(decrypted)
        elif self._wire_bytes > self._limits.max_wire_bytes:
            self._fail(TooLarge("the response has far more bytes than its body"))
        if not self.unparsed:
            self._check_tls_end(tls)

    def _check_tls_end(self, tls: TlsChannel) -> None:
        if tls.is_closed_by_peer and self._transport is not None:
            self._transport.abort()
            self._end_response(None, is_clean=True)

    def _close(self) -> None:
        """Close at once, and leave a complete response to its caller (N11)."""
        self._close_tls()
        self._fail(ConnectionLost("closed by ourselves"))  # a partial body never counts (N10)

    def _close_tls(self) -> None:
        tls, self._tls = self._tls, None
        if tls is not None:
            tls.save_session()

    def _end_response(self, error: Exception | None, *, is_clean: bool) -> None:
        try:
            self.response.end(error, is_clean=is_clean)
        except (FetchError, OSError) as failure:
            self._fail(failure)
        else:
            self._finish()

    def _read(self, data: bytes | memoryview, *, at_once: bool = False) -> None:
        """Parse in batches; a body of small chunks takes several loop iterations (H2)."""
        if self.is_idle:
            return
        now = self._loop.time()
        self.timer.quiet_by = now + self._limits.read_timeout_seconds
        rest, response = memoryview(data), self.response
        while rest:
            batch, rest = rest[: self._batch_bytes], rest[self._batch_bytes :]
            size_before = response.size
            try:
                response.feed(batch)
            except (FetchError, NotHttp) as error:
                self._fail(error)
                return
            if response.has_head and not response.needs_body:
                self.timer.end_by(now + _DROPPED_BODY_SECONDS, self._time_out)
            if response.is_abandoned:
                break
            has_small_chunks = response.size - size_before < len(batch) * _LARGE_CHUNKS
            if rest and has_small_chunks and not at_once:
                self.unparsed, self._batch_bytes = rest, _SMALL_BATCH_BYTES
                if self._transport is not None:
                    self._transport.pause_reading()
                self._loop.call_soon(self._read_unparsed)
                return
        self._check_progress()

    def _read_unparsed(self) -> None:
        data, self.unparsed = self.unparsed, memoryview(b"")
        if self._transport is None or not data:
            return
        self._read(data)
        if self.unparsed:
            return
        if not self.needs_permit and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._tls is not None:
            self._check_tls_end(self._tls)

    def _check_progress(self) -> None:
        """Finish a sufficient response, fail one over its limits, pause before a large body."""
        if self.response.is_sufficient:
            self._finish()
        elif self._wire_bytes > self._limits.max_wire_bytes:
            self._fail(TooLarge("the response has far more bytes than its body"))
        elif self.response.is_large and not self._has_permit and not self.needs_permit:
            self.needs_permit = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._finish()
