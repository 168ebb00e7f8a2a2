"""One HTTP/1.1 request and its response, without I/O.

The functions are generators: they yield bytes to send, or None to ask for received bytes. Both
kinds of connections run them.
"""

import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import h11

from headwater import __version__

T = TypeVar("T")
Steps = Generator[bytes | None, bytes, T]
_MAX_HEADERS = 64 * 1024


@dataclass(frozen=True)
class Address:
    """Where a service is."""

    scheme: str
    host: str
    port: int
    prefix: str  # of all paths, behind a proxy that serves other things too

    @classmethod
    def of(cls, url: str) -> "Address":
        """The address in a URL such as `https://headwater.example.org/`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a service, such as http://localhost:8080")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the URL of a service has no user name, query or fragment")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


@dataclass(frozen=True)
class OutgoingRequest:
    """A request as it is sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice has the same effect as sending it once."""
        return self.method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in self.headers


@dataclass(frozen=True)
class IncomingResponse:
    """The status and headers of a response, and its body once it is read."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


class Exchanges:
    """The exchanges on one connection, one after another."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADERS)

    @property
    def can_continue(self) -> bool:
        """Whether the connection can be used for another request."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def whole(self, outgoing: OutgoingRequest) -> Steps[IncomingResponse]:
        """Send a request and read the whole response."""
        head = yield from self.start(outgoing)
        parts: list[bytes] = []
        while (part := (yield from self.next_part())) is not None:
            parts.append(part)
        return IncomingResponse(head.status, head.headers, b"".join(parts))

    def start(self, outgoing: OutgoingRequest) -> Steps[IncomingResponse]:
        """Send a request and read the headers of the response."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        address = self._address
        default = 443 if address.scheme == "https" else 80
        name = f"[{address.host}]" if ":" in address.host else address.host
        headers = {
            "Host": name if address.port == default else f"{name}:{address.port}",
            "User-Agent": f"headwater-client/{__version__}",
            **outgoing.headers,
        }
        if outgoing.body or outgoing.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(len(outgoing.body))
        request = h11.Request(
            method=outgoing.method,
            target=address.prefix + outgoing.target,
            headers=[*headers.items()],
        )
        sent = [self._http.send(request)]
        if outgoing.body:
            sent.append(self._http.send(h11.Data(data=outgoing.body)))
        sent.append(self._http.send(h11.EndOfMessage()))
        yield b"".join(part for part in sent if part)
        while True:
            event = yield from self._next_event()
            if isinstance(event, h11.Response):
                named = {name.decode("latin-1"): value for name, value in event.headers}
                texts = {name: value.decode("latin-1") for name, value in named.items()}
                return IncomingResponse(event.status_code, texts)

    def next_part(self) -> Steps[bytes | None]:
        """The next part of the body; None after the last one."""
        event = yield from self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def _next_event(self) -> Steps[h11.Event]:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data((yield None))
            elif isinstance(event, h11.Event):
                return event
            else:
                raise h11.RemoteProtocolError("the connection was closed")


def tls_context(address: Address, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """What verifies the service; None without TLS."""
    if address.scheme == "http":
        return None
    return ssl.create_default_context() if given is None else given
