"""The domain model: frozen values without behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from headwater.content import AlsoFrom as AlsoFrom
from headwater.content import Article as Article
from headwater.content import ArticleSource as ArticleSource
from headwater.content import Completeness as Completeness
from headwater.content import Enclosure as Enclosure
from headwater.content import Entry as Entry
from headwater.content import FilteredBy as FilteredBy
from headwater.content import Post as Post
from headwater.content import TextFrom as TextFrom
from headwater.content import light as light
from headwater.podcast_settings import PODCAST_SETTINGS as PODCAST_SETTINGS
from headwater.podcast_settings import Podcast as Podcast
from headwater.source_settings import SourceSettings
from headwater.source_settings import SourceType as SourceType
from headwater.suggestion import Redirect as Redirect
from headwater.suggestion import Suggestion as Suggestion
from headwater.suggestion import SuggestionKind as SuggestionKind

Model = TypeVar("Model")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FailureType(StrEnum):
    """Whether a failure may end without intervention (F1)."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"


class OutcomeKind(StrEnum):
    """The result of a poll in one word."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class Health(StrEnum):
    """The state of a source in one word."""

    NEW = "new"
    OK = "ok"
    FAILING = "failing"
    DISABLED = "disabled"


class SkipReason(StrEnum):
    """Why an entry did not become a post, in the order of the checks."""

    ALREADY_SEEN = "alreadySeen"
    DUPLICATE = "duplicate"
    TOO_OLD = "tooOld"
    BEFORE_CREATION = "beforeCreation"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class User:
    """An owner of podcasts and API keys."""

    id: str
    name: str
    created_at: datetime


class TokenScope(StrEnum):
    """What a token permits (U1)."""

    ADMIN = "admin"
    USER = "user"
    READ = "read"  # nothing but reading
    METRICS = "metrics"  # nothing but `/metrics`


@dataclass(frozen=True, slots=True)
class Token:
    """Access to the data of a user, or of all users if `user_id` is None."""

    id: str
    user_id: str | None
    name: str
    created_at: datetime
    scope: TokenScope
    expires_at: datetime | None = None
    last_used_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """An encrypted API key, with the id of the master key that decrypts it (U5)."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class Validators:
    """`ETag` and `Last-Modified` of the last complete answer, for conditional requests."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A time before which a host, or one source, must not be visited (P9)."""

    until: datetime
    set_at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)  # no slots: every poll makes some of these (decision 17)
class Source(SourceSettings):
    """A watched source: its settings, then the state that polls change."""

    id: str
    podcast_id: str
    created_at: datetime

    title: str | None = None  # the name that the feed or page gives itself (T5)
    last_polled: datetime | None = None
    last_success_at: datetime | None = None
    last_seen_id: str | None = None
    consecutive_failures: int = 0
    last_failure_type: FailureType | None = None
    failing_since: datetime | None = None
    last_error: str | None = None
    disabled_reason: str | None = None

    host: str | None = None  # of the URL, normalised (P1); from here on private state of the rules
    first_poll_done: bool = False  # P7: a poll has succeeded; last_polled may be jitter
    requested_at: datetime | None = None  # S9
    permanent_failures: int = 0  # F3: consecutive permanent failures
    permanent_kind: str | None = None  # `404`, `DNS`, or `permanent` once they differ
    validators: Validators = Validators()
    body_hash: str | None = None
    seen_keys: tuple[str, ...] = ()  # R2: keys of the entries dated exactly last_seen_id
    late_keys_kept: bool = False  # R8: the keys of this source's entries are stored
    hold: Hold | None = None  # P9 with hold-scope `source`
    redirect: Redirect | None = None  # Y4
    disabled_at: datetime | None = None  # Y9: when failures disabled it
    in_storm: bool = False  # Y6: it failed in a storm of its host and has not succeeded since
    generation: int = 0  # D4: incremented by every poll and by edits that invalidate a poll


@dataclass(frozen=True)  # no slots: every poll makes one of these (decision 17)
class Subject:
    """A source with the settings of its podcast that a poll needs."""

    source: Source
    user_id: str
    max_article_age_days: int | None = None  # the podcast's own, if set
    dedupe_across_sources: bool = False
    keep: str | None = None  # the podcast's (B2)
    block: str | None = None


class MemoryPermit(Protocol):
    """Permission to hold much memory at once; only a few exist (H1)."""

    def release(self) -> None:
        """Return the permit; a second call has no effect."""


@dataclass(frozen=True)  # no slots: every poll makes one of these (decision 17)
class Answer:
    """The result of a fetch."""

    status: int | None
    entries: tuple[Entry, ...] = ()
    unchanged: bool = False  # 304, or the same bytes (P8)
    complete: bool = True  # False: the document ended before its root closed (R1)
    validators: Validators = Validators()
    body_hash: str | None = None
    last_seen_id: str | None = None  # X decides it itself (X2); feeds leave it to R3
    size: int = 0  # bytes on the wire
    redirected_to: str | None = None
    moved_to: str | None = None  # the same with credentials, if all redirects are permanent (Y4)
    title: str | None = None  # of the feed or page
    permit: MemoryPermit | None = None  # for many or large entries, held until they are stored


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a poll failed."""

    type: FailureType
    kind: str  # `404`, `DNS`, `timeout`, ...
    message: str
    status: int | None = None  # of the answer, if there was one
    size: int = 0  # of that answer, in bytes
    local: bool = False  # caused by this machine (O1); counts nowhere (F6)
    is_page: bool = False  # a page was found instead of a feed (Y5)
    by_host: bool = False  # a storm of its host (Y6); does not change the permanent count
    hold_seconds: float | None = None  # how long the host must not be visited (P9)
    hold_host: str | None = None  # the host that answered, if not the source's own


@dataclass(frozen=True, slots=True)
class LateKeys:
    """The change to the stored keys of R8: add these, or delete all."""

    remember: tuple[str, ...] = ()
    forget_all: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit to a lane: when the next one is allowed, and whether it succeeded."""

    lane: str
    ended_at: datetime
    next_allowed_at: datetime | None = None  # P3; None: no delay
    succeeded: bool = False  # O3
    resolved: bool = False  # O2: its name was resolved
    is_last: bool = True  # no other process can have visited the lane since


@dataclass(frozen=True, slots=True)
class Fence:
    """The lease of a shard that a poll belongs to; a later epoch invalidates its result (K8)."""

    shard: int
    epoch: int


@dataclass(frozen=True)  # no slots: every poll makes some of these (decision 17)
class Outcome:
    """The decision of a poll: the new state of the source, its posts, and the history record."""

    before: Source
    source: Source
    kind: OutcomeKind
    started_at: datetime
    posts: tuple[Post, ...] = ()
    skipped: Mapping[SkipReason, int] = field(default_factory=dict)
    failure: Failure | None = None
    status: int | None = None
    size: int = 0
    duration_ms: int = 0
    redirected_to: str | None = None
    late_keys: LateKeys | None = None
    # by kind: replaces the open suggestion; None: it does not apply any more
    suggestions: Mapping[SuggestionKind, Suggestion | None] = field(default_factory=dict)
    hold: Hold | None = None  # for the lane of the host that answered (P9)
    hold_lane: str | None = None
    visits: tuple[Visit, ...] = ()
    dedupe_in_podcast: bool = False  # D5
    article_age: timedelta | None = None  # the age limit of its posts, where it has any (D2)
    fence: Fence | None = None  # K8
    recorded: bool = True  # False: nothing was stored (hold, conflict, preview)
    shared: bool = False  # decided from the response to another source's request (Y7)

    @property
    def disabled(self) -> bool:
        """Whether this poll disabled its source (F3)."""
        return self.before.enabled and not self.source.enabled

    @property
    def recovered(self) -> bool:
        """Whether this poll succeeded after failures."""
        return self.failure is None and self.before.consecutive_failures > 0


@dataclass(frozen=True, slots=True)
class FilterMatches:
    """The stored posts that one filter hides (B2)."""

    matched: int = 0
    last_title: str | None = None  # of the newest one
    last_at: datetime | None = None  # when that was stored


@dataclass(frozen=True, slots=True)
class FilterStats:
    """What the filters of a source or a podcast hide; None: there is no such filter."""

    keep: FilterMatches | None = None
    block: FilterMatches | None = None


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll in the history."""

    id: int
    source_id: str
    started_at: datetime
    duration_ms: int
    outcome: OutcomeKind
    status: int | None
    size: int
    new_posts: int
    skipped: Mapping[SkipReason, int]
    failure_type: FailureType | None
    failure_kind: str | None
    error: str | None
    redirected_to: str | None


@dataclass(frozen=True, slots=True)
class PollDay:
    """Counts of the polls of a source that began on one day (UTC)."""

    source_id: str
    day: date
    stored: int
    unchanged: int
    failed: int
    new_posts: int
    size: int  # bytes received
    duration_ms: int  # of all polls together
    failures: Mapping[str, int]  # failed polls by kind
    first_at: datetime  # when the first and the last poll began
    last_at: datetime

    def __add__(self, other: "PollDay") -> "PollDay":
        """The polls of both, of the same source and day."""
        kinds = self.failures.keys() | other.failures.keys()
        return PollDay(
            self.source_id,
            self.day,
            self.stored + other.stored,
            self.unchanged + other.unchanged,
            self.failed + other.failed,
            self.new_posts + other.new_posts,
            self.size + other.size,
            self.duration_ms + other.duration_ms,
            {kind: self.failures.get(kind, 0) + other.failures.get(kind, 0) for kind in kinds},
            min(self.first_at, other.first_at),
            max(self.last_at, other.last_at),
        )


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of a lane, which survives restarts (P3, P9)."""

    lane: str
    next_allowed_at: datetime | None = None
    next_allowed_set_at: datetime | None = None
    hold: Hold | None = None
    last_success_at: datetime | None = None
    resolved_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DueSource:
    """A due source, or a page to visit (T4), with the fields that a lane needs."""

    id: str  # of the source, or of the post whose page is visited
    lane: str | None  # None: the null lane (P4)
    overdue_since: datetime
    delay_seconds: float
    requested: bool = False
    is_page: bool = False
    is_search: bool = False  # the page is visited in search of a lost feed (Y5)
    request_key: int | None = None  # equal for sources that may share a request (Y7)


def made(kind: type[Model], fields: dict[str, Any]) -> Model:
    """An instance of a class without slots, faster than by `__init__` (decision 17)."""
    instance = object.__new__(kind)
    object.__setattr__(instance, "__dict__", fields)
    return instance


def changed(instance: Model, changes: dict[str, Any]) -> Model:
    """A faster `dataclasses.replace` for classes without slots (decision 17)."""
    return made(type(instance), vars(instance) | changes)
