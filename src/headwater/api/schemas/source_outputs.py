"""Response models of sources: their state, polls, explanations and previews."""

from datetime import date
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from headwater.api.schemas.outputs import (
    FeedUrl,
    MetadataOut,
    Model,
    Moment,
    PodcastKey,
    ResponseModel,
    SourceKey,
    Title,
    UserKey,
    with_fields,
)
from headwater.api.schemas.podcast_outputs import FilterStatsOut
from headwater.model import (
    FailureType,
    Health,
    OutcomeKind,
    SkipReason,
    SourceType,
    Suggestion,
    SuggestionKind,
)
from headwater.operations.preview import Preview
from headwater.operations.source_views import SourceView
from headwater.source_settings import SETTINGS

Skipped = Annotated[
    dict[SkipReason, int],
    BeforeValidator(lambda skipped: {reason: skipped.get(reason, 0) for reason in SkipReason}),
    Field(
        description="Number of entries not stored, by the first reason that applies.",
        examples=[dict.fromkeys(SkipReason, 0)],
    ),
]

RecognisedAs = Annotated[
    str | None,
    Field(
        description="The site whose rule resolved the given address; null: none did.",
        examples=["YouTube", None],
    ),
]


def _with_settings(model: type[Model]) -> type[Model]:
    """The model with a field for every setting of a source, whatever its value."""
    fields: dict[str, tuple[Any, Any]] = {}
    for name, setting in SETTINGS.items():
        kind: Any = setting.kind
        example = setting.to_json(setting.from_json(setting.example))  # with all its fields
        about = Field(description=setting.full_description, examples=[example])
        fields[name] = (kind | None if setting.nullable else kind, about)
    return with_fields(model, fields)


@_with_settings
class _SettingsOut(ResponseModel):
    """The settings of a source."""

    id: SourceKey = Field(description="The id.")
    podcast_id: PodcastKey = Field(description="The podcast it belongs to.")


class SuggestionOut(ResponseModel):
    """A change to the settings of a source that is proposed to its owner."""

    id: str = Field(description="The id, unique within the source.", examples=["3fa1c04be21d9a77"])
    kind: SuggestionKind = Field(description="What is proposed.")
    created_at: Moment = Field(description="When it was first found to apply.")
    ignore: tuple[str, ...] = Field(
        default=(),
        description="Of the kind `ignore`: the lines to add to `watch.ignore`.",
        examples=[["Updated # min ago"]],
    )
    url: str | None = Field(
        default=None,
        description="Of the kinds `move` and `feed`: the URL to use instead.",
        examples=["https://example.org/new.xml"],
    )
    since: Moment | None = Field(
        default=None,
        description="Of the kind `move`: the first poll that was redirected there permanently.",
    )
    polls: int | None = Field(
        default=None, description="Of the kind `move`: how many polls were.", examples=[12]
    )
    title: str | None = Field(
        default=None, description="Of the kind `feed`: its title.", examples=["River News"]
    )
    found_on: str | None = Field(
        default=None,
        description="Of the kind `feed`: the page that links to it.",
        examples=["https://example.org/"],
    )
    duplicate_of: str | None = Field(
        default=None,
        description="Another source of the podcast that has this URL.",
        examples=[None],
    )

    @classmethod
    def of(cls, value: Suggestion) -> Self:
        """The suggestion with the fields of its kind."""
        return cls.combined(value, **value.detail)


class MovedFromOut(ResponseModel):
    """The URL that a source had before a suggestion was accepted."""

    id: str = Field(
        description="The id of the suggestion, to undo it.", examples=["3fa1c04be21d9a77"]
    )
    url: str = Field(description="The URL.", examples=["https://example.org/old.xml"])
    at: Moment = Field(description="When the suggestion was accepted.")


class SourceOut(_SettingsOut):
    """A source with its state and what is derived from both."""

    title: str | None = Field(
        description="The name that the feed or page gives itself.", examples=["River News"]
    )
    created_at: Moment = Field(description="When it was added.")
    last_polled: Moment | None = Field(
        description="When it was last polled; before the first poll, a time drawn at random that "
        "spreads first polls."
    )
    last_success_at: Moment | None = Field(description="When a poll last succeeded.")
    last_seen_id: str | None = Field(
        description="How far the source has been read.", examples=["2026-02-16T08:00:00.000Z"]
    )
    consecutive_failures: int = Field(description="Failures in a row.", examples=[0])
    last_failure_type: FailureType | None = Field(
        description="Whether the last failure is transient or permanent.", examples=[None]
    )
    failing_since: Moment | None = Field(
        description="When the failures in a row began.", examples=[None]
    )
    last_error: str | None = Field(description="The last failure as text.", examples=[None])
    disabled_reason: str | None = Field(
        description="Why failures disabled the source.", examples=[None]
    )
    health: Health = Field(description="The state of the source in one word.", examples=["ok"])
    host: str | None = Field(
        description="The host in whose lane it is polled.", examples=["example.org"]
    )
    next_poll_at: Moment | None = Field(
        description="When the scheduler polls it next, given its interval and its host; null: "
        "never. A paused scheduler is not taken into account."
    )
    effective_delay_seconds: int | float = Field(
        description="The pause of its lane after a poll, from the source or the configuration."
    )
    effective_interval_minutes: int = Field(
        description="The interval between polls, including backoff after failures."
    )
    post_count: int = Field(description="Number of its posts.")
    article_count: int = Field(description="Number of its articles.")
    suggestions: tuple[SuggestionOut, ...] = Field(
        description="Changes to its settings that are proposed, and not yet accepted."
    )
    moved_to: str | None = Field(
        description="The URL that it has moved to, as its host says; a suggestion proposes it.",
        examples=[None],
    )
    moved_from: MovedFromOut | None = Field(
        description="Its previous URL, for 30 days after a suggestion changed it."
    )
    filter_stats: FilterStatsOut = Field(description="What its own filters hide.")

    @classmethod
    def of(cls, view: SourceView, *reports: object) -> Self:
        """The source of a view and what the view derives from it, with what reports add."""
        delay = view.delay_seconds
        return cls.combined(
            view,
            view.source,
            *reports,
            effective_delay_seconds=int(delay) if delay.is_integer() else delay,
            effective_interval_minutes=view.interval_minutes,
            suggestions=tuple(map(SuggestionOut.of, view.suggestions)),
        )


class FeedLinkOut(ResponseModel):
    """A feed that a page links to."""

    url: FeedUrl = Field(description="Its address.")
    title: str = Field(description="Its title on the page.", examples=["Example"])
    type: str = Field(description="Its media type on the page.", examples=["application/rss+xml"])


class OwnedSourceOut(SourceOut):
    """A source in a list across users."""

    user_id: UserKey = Field(description="The user it belongs to.")
    user: str = Field(description="The name of that user.", examples=["default"])


class SourceCreatedOut(SourceOut):
    """A source that was added."""

    recognised_as: RecognisedAs
    duplicate_of: str | None = Field(
        description="Another source of the podcast with the same address.", examples=[None]
    )
    feeds: tuple[FeedLinkOut, ...] = Field(description="The feeds that its page links to.")


class BatchOut(ResponseModel):
    """The result of a batch action on sources."""

    matched: int = Field(description="Number of sources selected.")
    changed: int = Field(description="Number of sources changed.")
    requested: int = Field(description="Number of sources for which a poll was requested.")


class PollOut(ResponseModel):
    """The outcome of a poll."""

    outcome: OutcomeKind = Field(description="The outcome in one word.")
    new_posts: int = Field(description="Number of posts stored.")
    skipped: Skipped
    status: int | None = Field(description="The HTTP status of the response.", examples=[200])
    failure_type: FailureType | None = Field(
        description="Whether the failure is transient or permanent.", examples=[None]
    )
    failure_kind: str | None = Field(
        description="Kind of failure: a status such as `404`, else `DNS`, `hold`, `key`, …",
        examples=[None],
    )
    error: str | None = Field(description="The failure as text.", examples=[None])
    duration_ms: int = Field(description="Duration in milliseconds.", examples=[412])


class PollRecordOut(PollOut):
    """A poll of the history."""

    started_at: Moment = Field(description="When the poll started.")
    bytes: int = Field(
        validation_alias="size", description="Bytes received, as transferred.", examples=[18_204]
    )
    redirected_to: str | None = Field(description="The URL that redirects led to.", examples=[None])


class PollDayOut(ResponseModel):
    """The polls of a source on one day."""

    day: date = Field(description="The day, in UTC.", examples=["2026-02-16"])
    stored: int = Field(description="Number of polls that stored posts.")
    unchanged: int = Field(description="Number of polls that found nothing new.")
    failed: int = Field(description="Number of polls that failed.")
    new_posts: int = Field(description="Number of posts stored.")
    bytes: int = Field(
        validation_alias="size", description="Bytes received, as transferred.", examples=[873_792]
    )
    duration_ms: int = Field(
        description="Duration of all polls together, in milliseconds.", examples=[19_776]
    )
    failures: dict[str, int] = Field(
        description="Failed polls by kind of failure.", examples=[{"503": 2, "timeout": 1}]
    )
    first_at: Moment = Field(description="When the first poll of the day started.")
    last_at: Moment = Field(description="When the last poll of the day started.")


class StepOut(ResponseModel):
    """One step of an explanation."""

    what: str = Field(description="What the step is about.", examples=["interval"])
    detail: str = Field(description="The step as text.", examples=["every 30 min"])
    at: Moment | None = Field(description="The time that this step results in.")


class ExplanationOut(ResponseModel):
    """When a source is polled next, and why."""

    next_poll_at: Moment | None = Field(
        description="When it is polled next; null: not before it is enabled, contacted first or "
        "the scheduler is resumed."
    )
    steps: tuple[StepOut, ...] = Field(description="The steps that lead to this time.")


class PreviewEntryOut(MetadataOut):
    """An entry, and whether a poll would store it."""

    title: Title = Field(description="The title as plain text.")
    url: str | None = Field(
        description="Where it was published.", examples=["https://example.org/2026/rivers"]
    )
    published_at: Moment | None = Field(description="When it was published; null: unknown.")
    author: str | None = Field(description="The author.", examples=["Ann Example"])
    body: str = Field(description="The text without markup.")
    markdown: str | None = Field(description="The text with its structure.", examples=["Water."])
    stored: bool = Field(description="Whether a poll would store it.")
    reason: SkipReason | None = Field(description="Why it would be skipped.", examples=[None])


class PageComparisonOut(ResponseModel):
    """An entry of a feed, compared with its page."""

    url: str = Field(description="The page.", examples=["https://example.org/2026/rivers"])
    feed_length: int = Field(description="Characters of text in the feed.", examples=[230])
    page_length: int | None = Field(
        description="Characters of text on the page; null: it could not be read.", examples=[4210]
    )
    error: str | None = Field(
        description="Why the text of the page would not be used; null: it would.", examples=[None]
    )


class FullTextAdviceOut(ResponseModel):
    """Whether reading the pages of entries is worthwhile."""

    worthwhile: bool = Field(description="Whether `fullText` is recommended for this feed.")
    reason: str = Field(
        description="The reason.",
        examples=["the pages have 4,210 characters of text on average, the feed 230"],
    )
    compared: tuple[PageComparisonOut, ...] = Field(
        description="The entries that were compared with their pages; at most 3."
    )


class PageBlockOut(ResponseModel):
    """A part of a page that can be watched or left out."""

    selector: str = Field(
        description="A CSS selector that matches only this part, for `include` or `exclude`.",
        examples=["main > p.clock"],
    )
    depth: int = Field(description="The number of listed parts that it is inside of.", examples=[1])
    text: str = Field(description="The beginning of its text.", examples=["It is 12:00"])
    length: int = Field(description="Characters of its whole text.", examples=[11])
    watched_length: int = Field(
        description="Characters of it that are watched with the given `watch`.", examples=[11]
    )
    count: int = Field(
        description="The elements it consists of: more than 1 if they cannot be named one by one.",
        examples=[1],
    )


class PreviewOut(ResponseModel):
    """What a first poll of a URL would store."""

    type: SourceType = Field(description="The type of the source.")
    url: FeedUrl = Field(description="The address of the source.")
    recognised_as: RecognisedAs
    status: int | None = Field(description="The HTTP status of the response.", examples=[200])
    redirected_to: str | None = Field(description="The URL that redirects led to.", examples=[None])
    complete: bool = Field(description="Whether the document was read to its end.")
    would_store: int = Field(description="Number of entries that a first poll would store.")
    skipped: Skipped
    entry_count: int = Field(description="Number of entries, including those not listed here.")
    entries: tuple[PreviewEntryOut, ...] = Field(description="The first entries.")
    feeds: tuple[FeedLinkOut, ...] = Field(description="The feeds that the page links to.")
    blocks: tuple[PageBlockOut, ...] = Field(
        description="The parts of a page, outer ones first, at most 60; none of a very long page."
    )
    error: str | None = Field(
        description="The failure of a poll of this URL, if the page links to feeds or `watch` is "
        "given: such as selectors that leave no text.",
        examples=[None],
    )
    full_text_advice: FullTextAdviceOut | None = Field(
        description="Whether `fullText` is worthwhile: up to three entries are compared with their "
        "pages, unless the feed has their whole text; null: not a feed, or without entries."
    )

    @classmethod
    def of(cls, preview: Preview, *, most: int | None = None, longest: int | None = None) -> Self:
        """A preview with at most `most` entries and bodies of at most `longest` characters."""
        reasons = [reason for _, reason in preview.decisions]
        return cls.combined(
            preview,
            preview.source,
            would_store=reasons.count(None),
            skipped={reason: reasons.count(reason) for reason in SkipReason},
            entry_count=len(reasons),
            entries=[
                PreviewEntryOut.combined(
                    entry,
                    body=entry.body[:longest],
                    markdown=entry.markdown and entry.markdown[:longest],
                    stored=reason is None,
                    reason=reason,
                )
                for entry, reason in preview.decisions[:most]
            ],
        )
