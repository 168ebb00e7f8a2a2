"""Parses one HTTP response from received bytes, within the limits (N7, N9, N10). No I/O."""

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from headwater.errors import BrokenBody, FetchError, TooLarge
from headwater.fetch.net.limits import (
    MAX_ERROR_BODY,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_INFORMATIONAL,
    Limits,
)

SMALL_BODY = 1 << 19  # bytes; larger bodies need a permit (H1)
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_BODY = frozenset({101, 204, 205, 304, *REDIRECTS})
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})


class ConnectionLost(ConnectionError):
    """The connection ended before the response; on an idle one the request is retried (N11)."""


class NotHttp(ConnectionError):
    """The peer sent something that is not HTTP."""


class _ExtraResponse(Exception):
    """A second response follows a complete one."""


class ResponseParser:
    """One response as far as it was received. The `on_` methods are called by httptools."""

    def __init__(self, limits: Limits) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.size = 0  # bytes of the body before decompression
        self.content_length = 0  # bytes of the body, as the head states
        self.received_bytes = 0  # head and body, after TLS
        self.has_head = False  # the final head; informational ones do not count
        self.is_complete = False  # head and body
        self.head_only = False  # the response ends for us with its head
        self.drops_body = False  # a body is read, but only its start is kept
        self.keeps_alive = False  # the connection may be used again
        self.is_abandoned = False  # nothing that follows can be parsed, or matters
        self._limits = limits
        self._head_bytes = 0
        self._header_count = 0
        self._informational = 0
        self._speaks_http = False
        self._has_length = False
        self._parser = HttpResponseParser(self)
        # deviations that many servers have and that cannot hide a second message
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def needs_body(self) -> bool:
        """Whether the whole body is needed: of a success, unless it is dropped (N9)."""
        return self.is_success and not self.drops_body

    @property
    def is_sufficient(self) -> bool:
        """Whether no more bytes are needed: it is complete, or the rest does not matter."""
        if self.is_complete or self.is_abandoned:
            return True
        if not self.has_head:
            return False
        if self.head_only or self.status in _NO_BODY:
            return True
        return not self.needs_body and len(self.body) >= MAX_ERROR_BODY

    @property
    def is_large(self) -> bool:
        """Whether the body needs a permit: by its size so far, or as its head states (H1)."""
        return len(self.body) > SMALL_BODY or self.content_length > SMALL_BODY

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more bytes; raises FetchError, or NotHttp if this is not HTTP."""
        self.received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.is_abandoned = True  # another protocol, which was not requested
        except HttpParserCallbackError as error:
            if isinstance(error.__context__, FetchError):
                raise error.__context__ from None
            self._reject(error)
        except HttpParserError as error:
            self._reject(error)
        if not self.has_head and self.received_bytes > MAX_HEADER_BYTES:
            raise TooLarge(f"the headers are larger than {MAX_HEADER_BYTES} bytes")

    def end(self, error: Exception | None, *, is_clean: bool) -> None:
        """Handle the end of the stream: raises OSError without a head, BrokenBody within a body.

        A body without a length is complete only if the connection was closed cleanly (N10).
        """
        if not self.has_head:
            closed = ConnectionLost("closed before the response")
            raise error if isinstance(error, OSError) else closed
        if not self.needs_body:
            return
        if error is not None:
            raise BrokenBody("the connection was reset within the body")
        if self._has_length or not is_clean:
            raise BrokenBody("the body was cut short")
        self.is_complete = True

    def close(self) -> None:
        """Drop the parser: it refers to this object, a cycle for the garbage collector."""
        del self._parser

    def first_headers(self) -> dict[str, str]:
        """The first value of each header by its name in lower case."""
        return {_text(name).lower(): _text(value) for name, value in reversed(self.headers)}

    def header_values(self, name: str) -> list[str]:
        """All values of a header, given in lower case; it may occur several times."""
        return [_text(value) for given, value in self.headers if _text(given).lower() == name]

    def take_body(self) -> bytes:
        """Return the body and keep no copy: an idle connection holds no body (H1)."""
        body, self.body = self.body, bytearray()
        return bytes(body)

    def on_message_begin(self) -> None:
        """Refuse a second response."""
        if self.is_complete:
            raise _ExtraResponse

    def on_status(self, status: bytes) -> None:
        """Count the reason phrase as a header (N7)."""
        self._speaks_http = True
        self._head_bytes += len(status)
        if self._head_bytes > MAX_HEADER_BYTES:
            raise TooLarge("the headers are too large or too many")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, within the limits."""
        self._speaks_http = True
        self._header_count += 1
        self._head_bytes += len(name) + len(value) + 4
        if self._header_count > MAX_HEADERS or self._head_bytes > MAX_HEADER_BYTES:
            raise TooLarge("the headers are too large or too many")
        if not self.has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Keep the final head; informational ones are only counted."""
        status = self._parser.get_status_code()
        self._speaks_http = True
        if 100 <= status < 200 and status != 101:
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                raise TooLarge(f"more than {MAX_INFORMATIONAL} informational responses")
            self.headers = []
            return
        self.status = status
        self.has_head = True
        if self.needs_body:
            self._check_length()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body; of one that is not needed only the start."""
        self.size += len(body)
        if self.needs_body:
            if self.size > self._limits.max_body_bytes:
                raise TooLarge(f"the body is larger than {self._limits.max_body_bytes} bytes")
            self.body += body
        elif len(self.body) < MAX_ERROR_BODY:
            self.body += body[: MAX_ERROR_BODY - len(self.body)]

    def on_message_complete(self) -> None:
        """Note that the response is complete."""
        self.is_complete = self.has_head and self.status != 101
        self.keeps_alive = self._parser.should_keep_alive()

    def _check_length(self) -> None:
        """Refuse a body that is too large by its Content-Length (N7)."""
        limit = self._limits.max_body_bytes
        for name, value in self.headers:
            key = name.strip().lower()
            if key not in _LENGTHS or value.strip().lower() == b"identity":
                continue
            if len(key) < len(name):  # llhttp did not recognise the padded name
                raise BrokenBody("the response is not valid HTTP")
            self._has_length = True
            if key == b"content-length" and value.isdigit():
                self.content_length = int(value[:20])
            if self.content_length > limit:
                raise TooLarge(f"the body is announced with more than {limit} bytes")

    def _reject(self, error: HttpParserError) -> None:
        """Raise for bytes that violate HTTP, unless they follow a response (N10).

        A complete response is valid, and so is one whose body does not matter.
        """
        if self.is_complete or (self.has_head and (self.status in _NO_BODY or not self.needs_body)):
            self.keeps_alive = False  # so that the connection is not used again
            self.is_abandoned = True
        elif self.has_head:
            raise BrokenBody("the body contradicts its head") from error
        elif self._speaks_http:
            raise BrokenBody("the response is not valid HTTP") from error
        else:
            raise NotHttp(str(error)) from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
