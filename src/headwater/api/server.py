"""Listens for requests; starting, signals and logs are the program's, not the library's."""

import asyncio
import ipaddress
import os
import socket  # noqa: TID251 - listens, and never visits anybody (N1)
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwater.api.connections import ConnectionLimits, Deadline, Doorkeeper, no_room, not_http
from headwater.api.event_stream import ABORT
from headwater.errors import ConfigError

_BACKLOG = 512
_GOODBYE_SECONDS = 3  # how long a request under way may take once we stop


class Connection(H11Protocol):
    """A connection that an answer can cut off, and that ends if nobody uses it."""

    def __init__(self, *arguments: Any, doorkeeper: Doorkeeper, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._doorkeeper = doorkeeper
        self._address: str | None = None  # None: nobody was let in
        self._head = Deadline(self.loop, doorkeeper.limits.head_seconds)
        self._answer = Deadline(self.loop, doorkeeper.limits.stuck_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and tell every request of this connection how to end it at once."""
        address = str((transport.get_extra_info("peername") or [""])[0])
        if not self._doorkeeper.enter(address, self.loop.time()):
            transport.write(no_room())
            transport.close()
            return
        self._address = address
        super().connection_made(transport)
        serve = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            # closing would wait for a client that is stuck
            scope.setdefault("extensions", {})[ABORT] = transport.abort
            await serve(scope, receive, send)

        self.app = with_abort
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for others."""
        if self._address is None:
            return
        self._doorkeeper.leave(self._address)
        self._head.cancel()
        self._answer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that comes in small pieces has no more time than another."""
        super().data_received(data)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        """Wait for another request."""
        super().on_response_complete()
        self._wait_for_head()

    def pause_writing(self) -> None:
        """Wait for a client that takes no more, but not for ever."""
        super().pause_writing()
        self._answer.start(self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client took something."""
        self._answer.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - we have words of our own
        """Answer what is no HTTP request, or has an address with raw characters in it."""
        self.transport.write(not_http())
        self.transport.close()

    def _wait_for_head(self) -> None:
        """See to it that there is a deadline just when a request is what we wait for."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._head.cancel()
        else:  # one that closes may wait for a client that does not take the rest
            self._head.start(self.transport.abort)


class Server(uvicorn.Server):
    """A web server that leaves signals alone."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what is under way; event streams would go on for ever."""
        self._end_streams()
        await super().shutdown(sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Install nothing: `serve` has handlers of its own (K4)."""
        return nullcontext()


def web_server(api: FastAPI, limits: ConnectionLimits | None = None) -> Server:
    """A server for the API; its lines go our way, none of them per request (U6)."""
    doorkeeper = Doorkeeper(limits or ConnectionLimits())
    config = uvicorn.Config(
        api,
        http=partial(Connection, doorkeeper=doorkeeper),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    return Server(config, api.state.event_streams.close)


def listen(host: str, port: int) -> socket.socket:
    """Take the address to listen on, or say in one line why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number is not None and number > 0 else str(error)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason}; app.server.port takes another one",
            field="app.server.port",
        ) from error
    # connections inherit it; asyncio sets it on sockets of another making only, and an answer of
    # two pieces would wait for the client's word on the first one
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
