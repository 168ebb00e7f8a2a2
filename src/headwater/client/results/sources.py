"""Podcasts, sources, polls and previews, as the API returns them."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from headwater.client.results.choices import (
    AggregateBy,
    Completeness,
    Delivery,
    FailureType,
    FullText,
    Health,
    ImportOutcome,
    OutcomeKind,
    SkipReason,
    SourceType,
    SuggestionKind,
)
from headwater.client.results.content import Enclosure


@dataclass(frozen=True, kw_only=True)
class FilterMatches:
    """The stored posts that one filter hides."""

    matched: int
    last_title: str | None
    last_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class FilterStats:
    """What filters hide."""

    keep: FilterMatches | None
    block: FilterMatches | None


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """What is watched of a web page; a ValueError names what is wrong."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    ignore: tuple[str, ...]
    deliver: Delivery


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A change to the settings of a source that is proposed to its owner."""

    id: str
    kind: SuggestionKind
    created_at: datetime
    ignore: tuple[str, ...]
    url: str | None
    since: datetime | None
    polls: int | None
    title: str | None
    found_on: str | None
    duplicate_of: str | None


@dataclass(frozen=True, kw_only=True)
class MovedFrom:
    """The URL that a source had before a suggestion was accepted."""

    id: str
    url: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source with its state and what is derived from both."""

    id: str
    podcast_id: str
    type: SourceType
    url: str
    label: str | None
    folder: str | None
    enabled: bool
    poll_interval_minutes: int
    poll_delay_seconds: int | None
    max_failures: int | None
    max_backoff_hours: int | None
    late_entry_hours: int | None
    aggregate: bool | None
    aggregate_by: AggregateBy
    include_history: bool
    full_text: FullText
    keep: str | None
    block: str | None
    watch: WatchSettings | None
    title: str | None
    created_at: datetime
    last_polled: datetime | None
    last_success_at: datetime | None
    last_seen_id: str | None
    consecutive_failures: int
    last_failure_type: FailureType | None
    failing_since: datetime | None
    last_error: str | None
    disabled_reason: str | None
    health: Health
    host: str | None
    next_poll_at: datetime | None
    effective_delay_seconds: float
    effective_interval_minutes: int
    post_count: int
    article_count: int
    suggestions: tuple[Suggestion, ...]
    moved_to: str | None
    moved_from: MovedFrom | None
    filter_stats: FilterStats
    etag: str | None = None  # of the settings, for `if_match`; None in lists


@dataclass(frozen=True, kw_only=True)
class OwnedSource(Source):
    """A source in a list across users."""

    user_id: str
    user: str


@dataclass(frozen=True, kw_only=True)
class FeedLink:
    """A feed that a page links to."""

    url: str
    title: str
    type: str


@dataclass(frozen=True, kw_only=True)
class SourceCreated(Source):
    """A source that was added."""

    recognised_as: str | None
    duplicate_of: str | None
    feeds: tuple[FeedLink, ...]


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The result of a batch action on sources."""

    matched: int
    changed: int
    requested: int


@dataclass(frozen=True, kw_only=True)
class Poll:
    """The outcome of a poll."""

    outcome: OutcomeKind
    new_posts: int
    skipped: dict[str, int]
    status: int | None
    failure_type: FailureType | None
    failure_kind: str | None
    error: str | None
    duration_ms: int


@dataclass(frozen=True, kw_only=True)
class PollRequested:
    """A poll was requested; its outcome is not known yet."""

    outcome: None
    requested: Literal[True]


@dataclass(frozen=True, kw_only=True)
class PollRecord(Poll):
    """A poll of the history."""

    started_at: datetime
    bytes: int
    redirected_to: str | None


@dataclass(frozen=True, kw_only=True)
class PollDay:
    """The polls of a source on one day."""

    day: date
    stored: int
    unchanged: int
    failed: int
    new_posts: int
    bytes: int
    duration_ms: int
    failures: dict[str, int]
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of an explanation."""

    what: str
    detail: str
    at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """When a source is polled next, and why."""

    next_poll_at: datetime | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class PreviewEntry:
    """An entry, and whether a poll would store it."""

    enclosures: tuple[Enclosure, ...]
    categories: tuple[str, ...]
    language: str | None
    image_url: str | None
    completeness: Completeness | None
    title: str
    url: str | None
    published_at: datetime | None
    author: str | None
    body: str
    markdown: str | None
    stored: bool
    reason: SkipReason | None


@dataclass(frozen=True, kw_only=True)
class PageComparison:
    """An entry of a feed, compared with its page."""

    url: str
    feed_length: int
    page_length: int | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class FullTextAdvice:
    """Whether reading the pages of entries is worthwhile."""

    worthwhile: bool
    reason: str
    compared: tuple[PageComparison, ...]


@dataclass(frozen=True, kw_only=True)
class PageBlock:
    """A part of a page that can be watched or left out."""

    selector: str
    depth: int
    text: str
    length: int
    watched_length: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a first poll of a URL would store."""

    type: SourceType
    url: str
    recognised_as: str | None
    status: int | None
    redirected_to: str | None
    complete: bool
    would_store: int
    skipped: dict[str, int]
    entry_count: int
    entries: tuple[PreviewEntry, ...]
    feeds: tuple[FeedLink, ...]
    blocks: tuple[PageBlock, ...]
    error: str | None
    full_text_advice: FullTextAdvice | None


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result for one feed of an OPML file."""

    url: str
    outcome: ImportOutcome
    source_id: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Import:
    """The result of an import, feed by feed."""

    items: tuple[Imported, ...]


@dataclass(frozen=True, kw_only=True)
class Podcast:
    """A podcast."""

    id: str
    user_id: str
    name: str
    max_article_age_days: int | None
    dedupe_across_sources: bool
    stories: bool
    keep: str | None
    block: str | None
    filter_stats: FilterStats | None
    aggregate_automatically: bool
    pending_posts: int
    created_at: datetime
    etag: str | None = None  # of the settings, for `if_match`; None in lists
