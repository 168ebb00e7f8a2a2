"""Every error we raise.

HeadwaterError
├── UsageError                    a person gave us something we cannot work with (exit 2, HTTP 422)
│   ├── BadUrl
│   ├── ConfigError
│   ├── NotFound                  no such user, podcast, source … (HTTP 404)
│   ├── Forbidden                 known, and still not allowed to (HTTP 403)
│   ├── TooMuch                   beyond a limit on size or number (HTTP 413)
│   └── TooMany                   too much at once: later it may be fine (HTTP 429)
├── StoreError                    the database cannot do what we ask
│   ├── DatabaseCorrupt
│   ├── DatabaseUnavailable       locked, full, restarted, cut off: worth another try (K5)
│   ├── SchemaTooNew
│   └── AlreadyPolling            another process polls this database (S10)
├── Stopping                      the service ends and starts nothing more (HTTP 503)
├── SecretError                   a stored secret cannot be read with the key we have
│   └── KeyRetired                sealed with a master key that was rotated out meanwhile
└── FetchError                    whatever a source does to us
    ├── BadStatus                 an HTTP status that is no success
    ├── BadRedirect
    ├── NameNotFound              the name does not exist
    ├── LocalFault                our side could not ask (O1)
    │   └── NameUnresolved        the resolver gave no answer
    ├── AddressRefused            not a public address (N3)
    ├── ConnectFailed             refused, reset, broken
    ├── TimedOut                  connect, read or total
    ├── TlsFailed
    ├── TooLarge                  over a limit on bytes, headers or inflating
    ├── BrokenBody                cut short or contradictory (N10)
    ├── HostBusy                  a host had no turn for us in time (P3)
    ├── OnHold                    the host asked to be left alone (P9)
    ├── KeyMissing                the owner has no API key (X1)
    ├── NotAFeed
    ├── NoContent                 a page without text (W3)
    └── TooExpensive              parsing went over its budget (H2)
        └── ManyEntries           more entries than anybody takes (M8)
"""

from datetime import datetime


class HeadwaterError(Exception):
    """The root of all our errors; its text is one line for a person."""


class UsageError(HeadwaterError):
    """Input we cannot work with; `field` names the part that is wrong."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class BadUrl(UsageError):
    """A URL that we will not visit."""


class ConfigError(UsageError):
    """A setting that is unknown, of the wrong type or out of range."""


class NotFound(UsageError):
    """An id or name nobody has."""


class Forbidden(UsageError):
    """Something the caller, though known, may not do."""


class TooMuch(UsageError):
    """More than a limit allows (U8)."""


class TooMany(UsageError):
    """More at once than a limit allows; later it may be fine (U8)."""


class StoreError(HeadwaterError):
    """The database cannot do what we ask."""


class DatabaseCorrupt(StoreError):
    """The database file is damaged; it is left as it is (K6)."""


class DatabaseUnavailable(StoreError):
    """The database did not take this now; the same may work later (K5)."""


class SchemaTooNew(StoreError):
    """A newer program has upgraded this database (K7)."""


class AlreadyPolling(StoreError):
    """Another process polls this database (S10)."""


class Overtaken(StoreError):
    """A worker cannot know whether what it polls is still its own (K8)."""


class Stopping(HeadwaterError):
    """The service ends and starts nothing more (S8)."""


class SecretError(HeadwaterError):
    """A stored secret cannot be read with the key we have (U5)."""


class KeyRetired(SecretError):
    """Sealed with a master key that was rotated out: nobody could open it for long (U5)."""


class FetchError(HeadwaterError):
    """Whatever a source does to us.

    `status` and `size` are those of its answer, where one was read to its end.
    """

    status: int | None = None
    size: int = 0


class BadStatus(FetchError):
    """An HTTP status that is no success.

    `hold_seconds`: for how long the answer asks to be left alone; None: it does not say.
    `host`: the host that answered, which a redirect can make another than the source's.
    """

    status: int

    def __init__(
        self,
        status: int,
        message: str,
        *,
        host: str | None = None,
        hold_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.host = host
        self.hold_seconds = hold_seconds


class BadRedirect(FetchError):
    """A redirect without end, or to nowhere."""


class NameNotFound(FetchError):
    """The name does not exist, or has no address; `name` tells which, after redirects."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class LocalFault(FetchError):
    """Our side could not ask: no route, out of descriptors or memory (O1)."""


class NameUnresolved(LocalFault):
    """The resolver gave no answer: unreachable, failing or too slow (O1)."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AddressRefused(FetchError):
    """The address is not one we may visit (N3)."""


class ConnectFailed(FetchError):
    """The connection was refused, reset or broke."""


class TimedOut(FetchError):
    """Connecting, reading, or the whole visit took too long (N7)."""


class TlsFailed(FetchError):
    """The certificate is not valid, or the handshake failed (N14)."""


class TooLarge(FetchError):
    """The answer goes over a limit on bytes, headers or inflating (N7, N8)."""


class BrokenBody(FetchError):
    """The body is cut short or contradicts its headers (N10)."""


class HostBusy(FetchError):
    """A host had no turn for a redirect or a preview in time (P3)."""


class OnHold(FetchError):
    """The host asked to be left alone until a moment that is yet to come (P9)."""

    def __init__(self, until: datetime, reason: str) -> None:
        super().__init__(f"on hold until {until:%Y-%m-%dT%H:%M:%SZ}: {reason}")
        self.until = until


class KeyMissing(FetchError):
    """The owner of the podcast has no API key for this type of source (X1)."""


class NotAFeed(FetchError):
    """The document yields neither a feed nor entries (R1)."""


class NoContent(FetchError):
    """The page has no text (W3)."""


class TooExpensive(FetchError):
    """Parsing went over its budget of time or memory (H2)."""


class ManyEntries(TooExpensive):
    """A feed has more entries than were asked for (H1, M8)."""
