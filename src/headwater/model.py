"""The nouns of Headwater: frozen values without behaviour of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar, dataclass_transform

Noun = TypeVar("Noun")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SourceType(StrEnum):
    """What a source is, and so which fetcher visits it."""

    RSS = "rss"
    WEBSITE = "website"
    TWITTER = "twitter"


class FailureType(StrEnum):
    """Whether a failure may pass by itself (F1)."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"


class OutcomeKind(StrEnum):
    """What a poll came to, in one word."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class Health(StrEnum):
    """The state of a source at a glance."""

    NEW = "new"
    OK = "ok"
    FAILING = "failing"
    DISABLED = "disabled"


class SkipReason(StrEnum):
    """Why an entry did not become a post, in the order in which reasons are tried."""

    ALREADY_SEEN = "alreadySeen"
    DUPLICATE = "duplicate"
    TOO_OLD = "tooOld"
    BEFORE_CREATION = "beforeCreation"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who owns podcasts and API keys."""

    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Podcast:
    """What sources are gathered for."""

    id: str
    user_id: str
    name: str
    created_at: datetime
    max_article_age_days: int | None = None
    dedupe_across_sources: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """Lets its bearer in as a user, or as an administrator if it is nobody's in particular."""

    id: str
    user_id: str | None
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """An API key as it is stored: encrypted, with the name of the key that opens it (U5)."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class Validators:
    """`ETag` and `Last-Modified` of the last whole answer, sent back to ask for changes only."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A time before which a host, or one source, must not be asked (P9)."""

    until: datetime
    set_at: datetime
    reason: str


@dataclass(frozen=True)  # no slots: every poll makes some of these (decision 17)
class Source:
    """What is watched: a person's settings first, then the state that polls keep."""

    id: str
    podcast_id: str
    type: SourceType
    url: str
    created_at: datetime
    label: str | None = None
    enabled: bool = True
    poll_interval_minutes: int = 30
    poll_delay_seconds: int | None = None
    max_failures: int | None = None
    max_backoff_hours: int | None = None
    late_entry_hours: int | None = None
    aggregate: bool | None = None
    include_history: bool = False

    last_polled: datetime | None = None
    last_success_at: datetime | None = None
    last_seen_id: str | None = None
    consecutive_failures: int = 0
    last_failure_type: FailureType | None = None
    failing_since: datetime | None = None
    last_error: str | None = None
    disabled_reason: str | None = None

    # private state of the rules
    host: str | None = None  # of the URL, normalised (P1)
    first_poll_done: bool = False  # P7: a poll has succeeded; last_polled cannot tell
    requested_at: datetime | None = None  # S9
    permanent_failures: int = 0  # F3: the permanent ones in a row
    permanent_kind: str | None = None  # `404`, `DNS`, or `permanent` once they differ
    validators: Validators = Validators()
    body_hash: str | None = None
    seen_keys: tuple[str, ...] = ()  # R2: keys of the entries dated exactly last_seen_id
    late_keys_kept: bool = False  # R8: the keys of this source's entries are remembered
    hold: Hold | None = None  # P9 with hold-scope `source`
    generation: int = 0  # D4: moves with every poll and every edit that makes a poll stale


@dataclass(frozen=True)  # no slots: every poll makes one of these (decision 17)
class Subject:
    """A source with what a poll must know of its podcast."""

    source: Source
    user_id: str
    max_article_age_days: int | None = None  # the podcast's own, if set
    dedupe_across_sources: bool = False


@dataclass_transform(frozen_default=True)
def light(kind: type[Noun]) -> type[Noun]:
    """Make a noun of which a poll has many: frozen, but only for the type checker (decision 17)."""
    return dataclass(slots=True, unsafe_hash=True)(kind)


@light
class Entry:
    """One item as fetched, already plain text."""

    id: str | None
    title: str
    url: str | None
    published_at: datetime | None
    author: str | None
    body: str
    plain_body: str | None = None  # the body without the title that R5 put in front of it
    has_link: bool = True  # False: the url is the source's, for want of one (R5)


@light
class Post:
    """An entry that was admitted."""

    id: str
    source_id: str
    title: str
    body: str
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Article:
    """What a script is written from: one post, or the digest of several."""

    id: str
    source_id: str
    title: str
    body: str
    url: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    is_processed: bool = False
    post_ids: tuple[str, ...] = ()


class Leave(Protocol):
    """Leave to take more memory than others, of which there is little (H1)."""

    def let_go(self) -> None:
        """Give it back; more than once does no harm."""
        ...


@dataclass(frozen=True)  # no slots: every poll makes one of these (decision 17)
class Answer:
    """What a fetch brought."""

    status: int | None
    entries: tuple[Entry, ...] = ()
    unchanged: bool = False  # 304, or the very same bytes (P8)
    complete: bool = True  # False: the document ended before its root closed (R1)
    validators: Validators = Validators()
    body_hash: str | None = None
    last_seen_id: str | None = None  # X decides it itself (X2); feeds leave it to R3
    size: int = 0  # bytes on the wire
    redirected_to: str | None = None
    title: str | None = None  # of a feed, as it calls itself
    leave: Leave | None = None  # to be large, until it is stored


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a poll failed."""

    type: FailureType
    kind: str  # `404`, `DNS`, `timeout`, ...
    message: str
    status: int | None = None  # of the answer, where there was one
    size: int = 0  # of that answer, in bytes
    local: bool = False  # our side could not ask (O1); moves no counter (F6)
    hold_seconds: float | None = None  # how long the answering host wants to be left alone (P9)
    hold_host: str | None = None  # the host that answered, if not the source's own


@dataclass(frozen=True, slots=True)
class LateKeys:
    """What R8 remembers after a poll: these keys, or no more keys at all."""

    remember: tuple[str, ...] = ()
    forget_all: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    """What a poll leaves behind at a lane: when it may be visited again, and that it is good."""

    lane: str
    ended_at: datetime
    next_allowed_at: datetime | None = None  # P3; None: there is no delay
    succeeded: bool = False  # O3
    resolved: bool = False  # O2: its name had an address
    is_last: bool = True  # nobody else can have been there since


@dataclass(frozen=True, slots=True)
class Fence:
    """Which opening of a shard a poll belongs to; a later opening makes its result void (K8)."""

    shard: int
    epoch: int


@dataclass(frozen=True)  # no slots: every poll makes some of these (decision 17)
class Outcome:
    """What a poll decided: the source as it shall be, the posts, and the story for the history."""

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
    hold: Hold | None = None  # for the lane of the host that answered (P9)
    hold_lane: str | None = None
    visits: tuple[Visit, ...] = ()
    dedupe_in_podcast: bool = False  # D5
    fence: Fence | None = None  # K8
    recorded: bool = True  # False: nothing was stored (on hold, discarded, preview)

    @property
    def disabled(self) -> bool:
        """Whether this poll switched its source off (F3)."""
        return self.before.enabled and not self.source.enabled

    @property
    def recovered(self) -> bool:
        """Whether this poll ended a run of failures."""
        return self.failure is None and self.before.consecutive_failures > 0


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll as the history keeps it."""

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
class HostState:
    """What is remembered of a lane between polls and over restarts (P3, P9)."""

    lane: str
    next_allowed_at: datetime | None = None
    next_allowed_set_at: datetime | None = None
    hold: Hold | None = None
    last_success_at: datetime | None = None
    resolved_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DueSource:
    """A source that waits for its turn: all that a lane needs to know of it."""

    id: str
    lane: str | None  # None: the null lane (P4)
    overdue_since: datetime
    delay_seconds: float
    requested: bool = False


def made(kind: type[Noun], fields: dict[str, Any]) -> Noun:
    """A noun that keeps these fields, past `__init__`, whose bookkeeping every poll would pay for.

    For nouns without slots; what is left out has its default.
    """
    noun = object.__new__(kind)
    object.__setattr__(noun, "__dict__", fields)
    return noun


def changed(noun: Noun, changes: dict[str, Any]) -> Noun:
    """`dataclasses.replace` in a fraction of the time, for what every poll changes."""
    return made(type(noun), vars(noun) | changes)
