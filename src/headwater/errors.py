"""Every error we raise.

HeadwaterError
├── UsageError                    invalid input of a person (exit 2, HTTP 422)
│   ├── BadUrl
│   ├── QueryError                an invalid query, with the position (B1)
│   ├── SearchTooSlow             a search or preview that was cancelled (B2, B3)
│   ├── ConfigError
│   ├── NotFound                  no such user, podcast, source … (HTTP 404)
│   ├── AlreadyExists             a name in use, an object that exists already (HTTP 409)
│   │   └── DuplicateUrl          the podcast has a source with this URL (J3)
│   ├── WouldDelete               deletes something at once unless confirmed (HTTP 409)
│   ├── RequestRepeated           another request with the same idempotency key runs (HTTP 409)
│   ├── Outdated                  changed since the client read it (HTTP 412)
│   ├── Forbidden                 authenticated, but not permitted (HTTP 403)
│   ├── TooMuch                   beyond a limit on size or number (HTTP 413)
│   └── TooMany                   over a rate limit; a retry may succeed (HTTP 429)
├── StoreError                    the database cannot do this
│   ├── DatabaseCorrupt
│   ├── DuplicateKey              another process stored the same at the same time (HTTP 409)
│   ├── DatabaseUnavailable       locked, full, restarted, disconnected: retry (K5)
│   │   └── DatabaseReplaced      the file was deleted or replaced while it was open
│   ├── SchemaTooNew
│   ├── SchemaTooOld              `migrate`, `serve` and `worker` upgrade it
│   ├── AlreadyPolling            another process polls this database (S10)
│   ├── LeaseLost                 a worker lost the lease of what it polls (K8)
│   └── MustRestart               a worker cannot continue; its supervisor starts a new one (K8)
├── CallFailed                    a tool of the MCP server cannot do this (V5)
├── NotSent                       a message was not accepted; it is sent again (Y3)
├── Stopping                      the service is shutting down (HTTP 503)
├── SecretError                   a stored secret cannot be decrypted with our keys
│   └── KeyRetired                encrypted with a retired master key
└── FetchError                    a fetch failed
    ├── BadStatus                 an HTTP status other than success
    ├── BadRedirect
    ├── NameNotFound              the name does not exist
    ├── LocalFault                caused by this machine (O1)
    │   └── NameUnresolved        the resolver gave no answer
    ├── AddressRefused            not a public address (N3)
    ├── ConnectFailed             refused, reset, broken
    ├── TimedOut                  connect, read or total
    ├── TlsFailed
    ├── TooLarge                  over a limit on bytes, headers or inflating
    ├── BrokenBody                cut short or contradictory (N10)
    ├── HostBusy                  a host was not free in time (P3)
    ├── OnHold                    the host must not be visited yet (P9)
    ├── KeyMissing                the owner has no API key (X1)
    ├── NotAFeed
    │   └── PageNotFeed           an HTML page instead of a feed (Y5)
    ├── NoContent                 a page without text (W3)
    │   └── SelectorUnmatched     no element matches `include` (W7)
    ├── LoginPage                 a page that only asks for a login (J2)
    ├── FeedNotFound              a known site that does not name the feed (J1)
    └── TooExpensive              parsing went over its budget (H2)
        └── ManyEntries           more entries than requested (M8)
"""

from datetime import datetime


class HeadwaterError(Exception):
    """The root of all our errors; the message is one line for people."""


class UsageError(HeadwaterError):
    """Invalid input; `field` names the part that is wrong."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class BadUrl(UsageError):
    """A URL that cannot be a source."""


class QueryError(UsageError):
    """An invalid query: what was expected, at a position, 0 for the first character (B1)."""

    def __init__(self, expected: str, position: int, *, field: str | None = None) -> None:
        super().__init__(f"at character {position + 1}: {expected}", field=field)
        self.expected = expected
        self.position = position


class SearchTooSlow(UsageError):
    """A search or filter preview that was cancelled because it took too long (B2, B3)."""


class ConfigError(UsageError):
    """A setting that is unknown, of the wrong type or out of range."""


class NotFound(UsageError):
    """An unknown id or name."""


class AlreadyExists(UsageError):
    """A name that is in use, or an object that exists already."""


class WouldDelete(UsageError):
    """A change that deletes something at once, which has to be confirmed (E5)."""

    def __init__(self, articles: int, posts: int) -> None:
        super().__init__(
            f"this would delete {articles:,} unprocessed articles with their posts, and "
            f"{posts:,} posts that are in no article; confirm it",
            field="maxArticleAgeDays",
        )
        self.articles = articles
        self.posts = posts


class RequestRepeated(UsageError):
    """Another request with the same idempotency key is running."""


class Outdated(UsageError):
    """The object has changed since the client read it."""


class Forbidden(UsageError):
    """The caller is authenticated but not permitted to do this."""


class DuplicateUrl(AlreadyExists):
    """The podcast has a source with this URL, `source_id` (J3)."""

    def __init__(self, source_id: str) -> None:
        text = f"the podcast has a source with this address already: {source_id}"
        super().__init__(text, field="url")
        self.source_id = source_id


class TooMuch(UsageError):
    """Beyond a limit on size or number (U8)."""


class TooMany(UsageError):
    """Over a rate limit; a retry may succeed after `retry_seconds` (U8)."""

    def __init__(self, message: str, *, retry_seconds: int = 10) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class StoreError(HeadwaterError):
    """The database cannot do this."""


class DatabaseCorrupt(StoreError):
    """The database file is damaged; it stays unchanged (K6)."""


class DuplicateKey(StoreError):
    """A unique value exists already: another process has stored it since it was checked."""


class DatabaseUnavailable(StoreError):
    """The database cannot be used now; a retry may succeed (K5)."""


class DatabaseReplaced(DatabaseUnavailable):
    """The database file was deleted or replaced while it was open (K5)."""


class SchemaTooNew(StoreError):
    """A newer version of this program has upgraded this database (K7)."""


class SchemaTooOld(StoreError):
    """An older version of this program created this database, or it has no tables yet (K7)."""


class AlreadyPolling(StoreError):
    """Another process polls this database (S10)."""


class LeaseLost(StoreError):
    """A worker lost the lease of what it polls, or cannot verify it (K8)."""


class MustRestart(StoreError):
    """A worker cannot continue and exits, so that its supervisor starts a new one (K8)."""


class CallFailed(HeadwaterError):
    """A call of the API that a tool of the MCP server made was refused, or got no response (V5).

    `is_external`: the message quotes what a site responded.
    """

    def __init__(self, message: str, *, is_external: bool = False) -> None:
        super().__init__(message)
        self.is_external = is_external


class NotSent(HeadwaterError):
    """A message to a channel that was not accepted."""


class Stopping(HeadwaterError):
    """The service is shutting down and starts no more polls (S8)."""


class SecretError(HeadwaterError):
    """A stored secret cannot be decrypted with our keys (U5)."""


class KeyRetired(SecretError):
    """Encrypted with a retired master key, which will be deleted (U5)."""


class FetchError(HeadwaterError):
    """A fetch failed.

    `status` and `size` are those of the answer, if one was read completely.
    """

    status: int | None = None
    size: int = 0


class BadStatus(FetchError):
    """An HTTP status other than success.

    `hold_seconds`: the pause that the answer asks for, if any.
    `host`: the host that answered, which after a redirect may differ from the source's.
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
    """Too many redirects, or one without a valid target."""


class NameNotFound(FetchError):
    """A host name does not exist or has no address; `name` may be that of a redirect."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class LocalFault(FetchError):
    """Caused by this machine: no route, out of descriptors or memory (O1)."""


class NameUnresolved(LocalFault):
    """The resolver gave no answer: unreachable, failing or too slow (O1)."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AddressRefused(FetchError):
    """The address is not public, and private networks are not allowed (N3)."""


class ConnectFailed(FetchError):
    """The connection was refused, reset or broke."""


class TimedOut(FetchError):
    """Connecting, reading, or the whole fetch took too long (N7)."""


class TlsFailed(FetchError):
    """The certificate is not valid, or the handshake failed (N14)."""


class TooLarge(FetchError):
    """The answer goes over a limit on bytes, headers or inflating (N7, N8)."""


class BrokenBody(FetchError):
    """The body is cut short or contradicts its headers (N10)."""


class HostBusy(FetchError):
    """A host was not free in time for a redirect or a preview (P3)."""


class OnHold(FetchError):
    """The host must not be visited until a time in the future (P9)."""

    def __init__(self, until: datetime, reason: str) -> None:
        super().__init__(f"on hold until {until:%Y-%m-%dT%H:%M:%SZ}: {reason}")
        self.until = until


class KeyMissing(FetchError):
    """The owner of the podcast has no API key for this type of source (X1)."""


class NotAFeed(FetchError):
    """The document yields neither a feed nor entries (R1)."""


class PageNotFeed(NotAFeed):
    """The document is an HTML page instead of a feed (Y5)."""


class FeedBehindLogin(PageNotFeed):
    """The feed's address leads to a page that asks for a login."""


class NoContent(FetchError):
    """The page has no text (W3)."""


class SelectorUnmatched(NoContent):
    """No element of the page matches a selector of `include` (W7)."""


class LoginPage(FetchError):
    """The page only asks for a login; raised for a source to be added, not for polls (J2)."""


class FeedNotFound(FetchError):
    """The document of a known site does not name the feed (J1)."""


class TooExpensive(FetchError):
    """Parsing went over its budget of time or memory (H2)."""


class ManyEntries(TooExpensive):
    """A feed has more entries than were asked for (H1, M8)."""
