"""The web server: uvicorn with connection limits, and without its signals and logs."""

import asyncio
import os
import socket  # noqa: TID251 - listens, and never connects (N1)
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwater.api.connection_limits import (
    NOT_HTTP,
    TOO_MANY_CONNECTIONS,
    ConnectionCounter,
    ConnectionLimits,
    DisconnectTimer,
)
from headwater.api.events.event_stream import ABORT
from headwater.errors import ConfigError

_BACKLOG = 512
_SHUTDOWN_SECONDS = 3  # for requests in progress


class ServerConnection(H11Protocol):
    """A connection with timeouts, which a response can abort."""

    def __init__(self, *arguments: Any, counter: ConnectionCounter, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._counter = counter
        self._address: str | None = None  # None: refused
        self._head_timer = DisconnectTimer(self.loop, counter.limits.head_seconds)
        self._write_timer = DisconnectTimer(self.loop, counter.limits.stuck_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start, and give every request of the connection a way to abort it."""
        address = str((transport.get_extra_info("peername") or [""])[0])
        if not self._counter.open(address, self.loop.time()):
            transport.write(TOO_MANY_CONNECTIONS)
            transport.close()
            return
        self._address = address
        super().connection_made(transport)
        serve = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            # closing would wait for a client that does not read
            scope.setdefault("extensions", {})[ABORT] = transport.abort
            await serve(scope, receive, send)

        self.app = with_abort
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Discount the connection and stop its timers."""
        if self._address is None:
            return
        self._counter.close(self._address)
        self._head_timer.cancel()
        self._write_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; headers that arrive in small chunks have no more time than others."""
        super().data_received(data)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        """Start the timer for the next request."""
        super().on_response_complete()
        self._wait_for_head()

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read."""
        super().pause_writing()
        self._write_timer.start(self.transport.abort)

    def resume_writing(self) -> None:
        """Continue: the client has read data."""
        self._write_timer.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - we send a problem document
        """Respond to an invalid HTTP request, such as one with raw characters in its URL."""
        self.transport.write(NOT_HTTP)
        self.transport.close()

    def _wait_for_head(self) -> None:
        """Run the timer for request headers unless a request is in progress."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_timer.cancel()
        else:  # also while closing: the client may not read the rest
            self._head_timer.start(self.transport.abort)


class Server(uvicorn.Server):
    """A web server that installs no signal handlers."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish requests in progress; event streams have no end and are closed."""
        self._end_streams()
        await super().shutdown(sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Install nothing: `serve` has its own handlers (K4)."""
        return nullcontext()


def web_server(
    api: ASGIApp,
    limits: ConnectionLimits | None = None,
    *,
    end_streams: Callable[[], None] = lambda: None,
) -> Server:
    """A server for the API, with our logging and without a line per request (U6).

    `end_streams` closes open event streams when the server stops.
    """
    counter = ConnectionCounter(limits or ConnectionLimits())
    config = uvicorn.Config(
        api,
        http=partial(ServerConnection, counter=counter),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return Server(config, end_streams)


@asynccontextmanager
async def serving(
    create_server: Callable[[], Server], host: str, port: int, setting: str = "app.server.port"
) -> AsyncIterator[tuple[str, Server, asyncio.Task[None]]]:
    """Listen and serve; yield the URL, the server, and the task that serves."""
    with listen(host, port, setting) as listener:
        server = await asyncio.to_thread(create_server)  # its imports block longer than H2 allows
        number = listener.getsockname()[1]
        url = f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield url, server, task
        finally:
            server.should_exit = True
            await task


def listen(host: str, port: int, setting: str = "app.server.port") -> socket.socket:
    """A socket that listens on the address; ConfigError if it is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number is not None and number > 0 else str(error)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason}; {setting} takes another one",
            field=setting,
        ) from error
    # connections inherit it; without it, the second packet of a response waits for an ACK.
    # asyncio sets it only on sockets that it creates
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
