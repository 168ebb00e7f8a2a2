"""An answer as llhttp tells it, kept within the limits (N7, N9, N10)."""

import asyncio
from dataclasses import dataclass
from math import inf

from httptools import HttpResponseParser

from headwater.errors import BrokenBody, TooLarge
from headwater.fetch.headers import Headers

MAX_HEADER_BYTES = 65_536
MAX_HEADERS = 200
MAX_INFORMATIONAL = 10
MAX_ERROR_BODY = 4096  # bytes of an error that are worth reading (N9)
_ERROR_BODY_SECONDS = 5.0
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})


class _Surplus(Exception):
    """Something follows an answer that is whole."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an answer may cost."""

    read_seconds: float
    max_body_bytes: int
    max_wire_bytes: int


class Reading:
    """What is known of an answer so far. An error that a call raises comes back from the parser."""

    def __init__(self, bounds: Bounds) -> None:
        self._loop = asyncio.get_running_loop()
        self._bounds = bounds
        self._parser = parser_for(self)
        self._over_at = inf  # by the loop's clock
        self._clear()

    def _clear(self) -> None:
        """Forget the last answer."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.size = 0  # bytes of the body on the wire
        self.is_answered = False  # the final head is here
        self.is_complete = False  # and all of the body
        self.announced = 0  # bytes of the body, as its head says
        self._keeps = False  # the connection may be used again
        self._head_bytes = 0
        self._head_count = 0
        self._informational = 0
        self._speaks_http = False
        self._has_length = False

    def taken(self) -> Headers:
        """The headers that came."""
        return Headers(self.headers)

    def take_body(self) -> bytes:
        """Hand the body over: a kept connection keeps none (H1)."""
        body, self.body = self.body, bytearray()
        return bytes(body)

    def on_message_begin(self) -> None:
        """Let one answer begin, not two."""
        if self.is_complete:
            raise _Surplus

    def on_status(self, status: bytes) -> None:
        """Know that it is HTTP; its words count as a header's do (N7)."""
        self._speaks_http = True
        self._head_bytes += len(status)
        if self._head_bytes > MAX_HEADER_BYTES:
            raise TooLarge("the headers are too large or too many")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, within the limits."""
        self._speaks_http = True
        self._head_count += 1
        self._head_bytes += len(name) + len(value) + 4
        if self._head_count > MAX_HEADERS or self._head_bytes > MAX_HEADER_BYTES:
            raise TooLarge("the headers are too large or too many")
        if not self.is_answered:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the final head; informational ones are only counted."""
        status = self._parser.get_status_code()
        self._speaks_http = True
        if 100 <= status < 200 and status != 101:
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                raise TooLarge(f"more than {MAX_INFORMATIONAL} informational responses")
            self.headers = []
            return
        self.status = status
        self.is_answered = True
        if 200 <= status < 300:
            self._look_at_length()
        else:
            self._over_at = min(self._over_at, self._loop.time() + _ERROR_BODY_SECONDS)

    def _look_at_length(self) -> None:
        """End at the head where it announces too much (N7)."""
        limit = self._bounds.max_body_bytes
        for name, value in self.headers:
            key = name.strip().lower()
            if key not in _LENGTHS or value.strip().lower() == b"identity":
                continue
            if len(key) < len(name):  # the parser took it for another header
                raise BrokenBody("the answer is not valid HTTP")
            self._has_length = True
            if key == b"content-length" and value.isdigit():
                self.announced = int(value[:20])
            if self.announced > limit:
                raise TooLarge(f"the body is announced with more than {limit} bytes")

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body: of an error, only the start."""
        self.size += len(body)
        if 200 <= self.status < 300:
            if self.size > self._bounds.max_body_bytes:
                raise TooLarge(f"the body is larger than {self._bounds.max_body_bytes} bytes")
            self.body += body
        elif len(self.body) < MAX_ERROR_BODY:
            self.body += body[: MAX_ERROR_BODY - len(self.body)]

    def on_message_complete(self) -> None:
        """Have the whole answer."""
        self.is_complete = self.is_answered and self.status != 101
        self._keeps = self._parser.should_keep_alive()


def parser_for(reading: Reading) -> HttpResponseParser:
    """A parser that tells what it finds."""
    parser = HttpResponseParser(reading)
    # what many real servers do, and nobody can be deceived by
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser
