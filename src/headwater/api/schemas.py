"""The shapes of what is served: camelCase names, moments in UTC with milliseconds."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from headwater.model import (
    Article,
    FailureType,
    Health,
    OutcomeKind,
    Podcast,
    PollRecord,
    Post,
    SkipReason,
    SourceType,
    Token,
    User,
)
from headwater.operations.articles import Marking
from headwater.operations.overview import SourceView
from headwater.operations.polling import PollReport
from headwater.operations.preview import Preview
from headwater.operations.subscriptions import Imported, ImportOutcome
from headwater.rules.admission import timestamp
from headwater.rules.explanation import Explanation
from headwater.store.articles import Aggregation
from headwater.store.sources import Tally

Moment = Annotated[
    datetime,
    PlainSerializer(timestamp, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]


class Shape(BaseModel):
    """Something that is served."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, from_attributes=True, frozen=True
    )

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", by_alias=True)


class SourceOut(Shape):
    """A source with what follows from it."""

    id: str
    podcast_id: str
    type: SourceType
    url: str
    label: str | None
    enabled: bool
    poll_interval_minutes: int
    poll_delay_seconds: int | None
    max_failures: int | None
    max_backoff_hours: int | None
    late_entry_hours: int | None
    aggregate: bool | None
    include_history: bool
    created_at: Moment
    last_polled: Moment | None
    last_success_at: Moment | None
    last_seen_id: str | None
    consecutive_failures: int
    last_failure_type: FailureType | None
    failing_since: Moment | None
    last_error: str | None
    disabled_reason: str | None
    health: Health
    host: str | None
    next_poll_at: Moment | None
    effective_delay_seconds: int | float
    effective_interval_minutes: int
    post_count: int
    article_count: int

    @classmethod
    def of(cls, view: SourceView) -> "SourceOut":
        """A source as it is served."""
        own = {n: getattr(view.source, n) for n in cls.model_fields if hasattr(view.source, n)}
        delay = view.delay_seconds
        derived = {
            "health": view.health,
            "host": view.host,
            "next_poll_at": view.next_poll_at,
            "effective_delay_seconds": int(delay) if delay.is_integer() else delay,
            "effective_interval_minutes": view.interval_minutes,
            "post_count": view.post_count,
            "article_count": view.article_count,
        }
        return cls.model_validate(own | derived)


class BatchOut(Shape):
    """What came of an action for many sources."""

    matched: int
    changed: int
    requested: int  # for how many of them a poll is wanted now

    @classmethod
    def of(cls, tally: Tally) -> "BatchOut":
        """The counts as they are served."""
        return cls.model_validate(tally)


class PollOut(Shape):
    """What came of a poll that somebody asked for."""

    outcome: OutcomeKind
    new_posts: int
    skipped: dict[SkipReason, int]
    status: int | None
    failure_type: FailureType | None
    failure_kind: str | None
    error: str | None
    duration_ms: int

    @classmethod
    def of(cls, report: PollReport) -> "PollOut":
        """A poll's outcome as it is served."""
        own = {name: getattr(report, name) for name in cls.model_fields}
        return cls.model_validate(own | {"skipped": all_reasons(report.skipped)})


class PollRecordOut(PollOut):
    """A poll of the history."""

    started_at: Moment
    bytes: int
    redirected_to: str | None

    @classmethod
    def of(cls, report: PollReport | PollRecord) -> "PollRecordOut":
        """A poll of the history as it is served."""
        assert isinstance(report, PollRecord)
        own = {n: getattr(report, n) for n in cls.model_fields if n != "bytes"}
        skipped = all_reasons(report.skipped)
        return cls.model_validate(own | {"skipped": skipped, "bytes": report.size})


class PostOut(Shape):
    """A post."""

    id: str
    source_id: str
    title: str
    body: str
    url: str
    published_at: Moment | None
    author: str | None
    content_hash: str
    created_at: Moment

    @classmethod
    def of(cls, post: Post | Article) -> "PostOut":
        """A post or article as it is served."""
        return cls.model_validate(post)


class ArticleOut(PostOut):
    """An article."""

    is_processed: bool
    post_ids: tuple[str, ...]

    @classmethod
    def of(cls, post: Post | Article) -> "ArticleOut":
        """An article as it is served."""
        return cls.model_validate(post)


class AggregationOut(Shape):
    """What an aggregation made."""

    created: int
    linked_posts: int
    items: tuple[ArticleOut, ...]

    @classmethod
    def of(cls, made: Aggregation, articles: Iterable[Article]) -> "AggregationOut":
        """An aggregation as it is served, with the articles that it made."""
        items = tuple(ArticleOut.of(article) for article in articles)
        return cls(created=len(made.created), linked_posts=made.linked_posts, items=items)


class MarkingOut(Shape):
    """How many articles were marked as processed."""

    marked: int
    already: int  # were processed before
    missing: tuple[str, ...]  # are not there, where those are skipped

    @classmethod
    def of(cls, marking: Marking) -> "MarkingOut":
        """A marking as it is served."""
        return cls.model_validate(marking)


class UserOut(Shape):
    """A user."""

    id: str
    name: str
    created_at: Moment

    @classmethod
    def of(cls, user: User) -> "UserOut":
        """A user as they are served."""
        return cls.model_validate(user)


class TokenOut(Shape):
    """An access token; its secret is not known any more."""

    id: str
    name: str
    user_id: str | None  # None: an administrator's
    created_at: Moment

    @classmethod
    def of(cls, token: Token) -> "TokenOut":
        """A token as it is shown."""
        return cls.model_validate(token)


class KeyOut(Shape):
    """That a user has a key at a provider; the key itself is never shown."""

    provider: str
    sources_requested: int | None = None  # when it was stored just now: how many waited for it


class PodcastOut(Shape):
    """A podcast."""

    id: str
    user_id: str
    name: str
    max_article_age_days: int | None
    dedupe_across_sources: bool
    created_at: Moment

    @classmethod
    def of(cls, podcast: Podcast) -> "PodcastOut":
        """A podcast as it is served."""
        return cls.model_validate(podcast)


class ImportedOut(Shape):
    """One feed of a subscription list."""

    url: str
    outcome: ImportOutcome
    source_id: str | None
    error: str | None

    @classmethod
    def of(cls, line: Imported) -> "ImportedOut":
        """A line as it is served."""
        return cls.model_validate(line)


class ImportOut(Shape):
    """What became of a subscription list, feed by feed."""

    items: tuple[ImportedOut, ...]


class StepOut(Shape):
    """One reason on the way to the next poll."""

    what: str
    detail: str
    at: Moment | None


class ExplanationOut(Shape):
    """When a source is polled next, and why."""

    next_poll_at: Moment | None
    steps: tuple[StepOut, ...]

    @classmethod
    def of(cls, explanation: Explanation) -> "ExplanationOut":
        """An explanation as it is served."""
        return cls.model_validate(explanation)


class PreviewEntryOut(Shape):
    """An entry and whether it would be stored."""

    title: str
    url: str | None
    published_at: Moment | None
    author: str | None
    body: str
    stored: bool
    reason: SkipReason | None  # why not


class FeedLinkOut(Shape):
    """A feed that a page names."""

    url: str
    title: str
    type: str = Field(description="What the page says it is, such as `application/rss+xml`.")


class PreviewOut(Shape):
    """What a first poll of a URL would bring."""

    type: SourceType
    url: str
    status: int | None
    redirected_to: str | None
    complete: bool
    would_store: int
    skipped: dict[SkipReason, int]
    entry_count: int = Field(description="How many entries there are, shown here or not.")
    entries: tuple[PreviewEntryOut, ...]
    feeds: tuple[FeedLinkOut, ...] = Field(description="The feeds that a page names.")
    error: str | None = Field(description="What a poll would fail with, though feeds were found.")

    @classmethod
    def of(
        cls, preview: Preview, *, most: int | None = None, longest: int | None = None
    ) -> "PreviewOut":
        """A preview as it is served: at most so many entries, bodies at most so long."""
        reasons = [reason for _, reason in preview.verdicts if reason is not None]
        return cls(
            type=preview.source.type,
            url=preview.source.url,
            status=preview.status,
            redirected_to=preview.redirected_to,
            complete=preview.complete,
            would_store=len(preview.admitted),
            skipped=all_reasons({reason: reasons.count(reason) for reason in SkipReason}),
            entry_count=len(preview.verdicts),
            feeds=tuple(FeedLinkOut.model_validate(feed) for feed in preview.feeds),
            error=preview.error,
            entries=tuple(
                PreviewEntryOut(
                    title=entry.title,
                    url=entry.url,
                    published_at=entry.published_at,
                    author=entry.author,
                    body=entry.body[:longest],
                    stored=reason is None,
                    reason=reason,
                )
                for entry, reason in preview.verdicts[:most]
            ),
        )


def all_reasons(skipped: Mapping[SkipReason, int]) -> dict[SkipReason, int]:
    """Every reason with its count, those that did not occur too."""
    return {reason: skipped.get(reason, 0) for reason in SkipReason}
