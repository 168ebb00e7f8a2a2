"""Listens for requests; starting, signals and logs are the program's, not the library's."""

import ipaddress
import os
import socket  # noqa: TID251 - listens, and never visits anybody (N1)
from contextlib import AbstractContextManager, nullcontext

import uvicorn
from fastapi import FastAPI

from headwater.errors import ConfigError

_BACKLOG = 512
_GOODBYE_SECONDS = 3  # how long a request under way may take once we stop


class Server(uvicorn.Server):
    """A web server that leaves signals alone."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Install nothing: `serve` has handlers of its own (K4)."""
        return nullcontext()


def web_server(api: FastAPI) -> Server:
    """A server for the API; its lines go our way, none of them per request (U6)."""
    config = uvicorn.Config(
        api,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    return Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Take the address to listen on, or say in one line why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number is not None and number > 0 else str(error)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason}; app.server.port takes another one",
            field="app.server.port",
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
