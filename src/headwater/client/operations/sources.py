"""Podcasts, sources and their polls."""

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

from headwater.client.operation import (
    ApiRequest,
    Page,
    body_of,
    given,
    listing,
    matching,
    once,
    operation,
    path_of,
)
from headwater.client.operations.content import InPodcasts, Paging
from headwater.client.results.choices import (
    AggregateBy,
    BatchAction,
    Delivery,
    FullText,
    Health,
    SourceType,
)
from headwater.client.results.sources import (
    BatchResult,
    Explanation,
    Import,
    OwnedSource,
    Podcast,
    Poll,
    PollDay,
    PollRecord,
    PollRequested,
    Preview,
    Source,
    SourceCreated,
)


class PodcastSettings(TypedDict, total=False):
    """The settings of a podcast, except its name."""

    max_article_age_days: int | None
    dedupe_across_sources: bool
    stories: bool
    aggregate_automatically: bool
    keep: str | None
    block: str | None


class WatchInput(TypedDict, total=False):
    """Which parts of a page are watched."""

    include: list[str]
    exclude: list[str]
    ignore: list[str]
    deliver: Delivery


class SourceSettings(TypedDict, total=False):
    """The settings of a source, except its type and URL."""

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
    watch: WatchInput | None


class SourceChanges(SourceSettings, total=False):
    """What to change of a source."""

    type: SourceType
    url: str


class SourceFilters(TypedDict, total=False):
    """Which sources are wanted."""

    enabled: bool | None
    type: SourceType | None
    health: Health | None
    host: str | None
    q: str | None


class SourcePageFilters(SourceFilters, Paging, total=False):
    """Which sources are wanted, and from where on."""


class SourceSelection(SourceFilters, total=False):
    """The sources of a batch; `all` selects every source."""

    all: bool | None


class PodcastOperations(InPodcasts):
    """Podcasts."""

    @listing
    def podcasts(self, **paging: Unpack[Paging]) -> ApiRequest[Page[Podcast]]:
        """The podcasts of the user, the oldest first."""
        path = path_of("users", self.user, "podcasts")
        return ApiRequest("GET", path, Page[Podcast], given(**paging))

    @listing
    def all_podcasts(
        self, *, user: str | None = None, **paging: Unpack[Paging]
    ) -> ApiRequest[Page[Podcast]]:
        """The podcasts of all users; with a user's token those of that user."""
        query = given(user=user, **paging)
        return ApiRequest("GET", path_of("podcasts"), Page[Podcast], query)

    @operation
    def create_podcast(
        self, name: str, *, idempotency_key: str | None = None, **settings: Unpack[PodcastSettings]
    ) -> ApiRequest[Podcast]:
        """Add a podcast."""
        path, body = path_of("users", self.user, "podcasts"), body_of(name=name, **settings)
        return ApiRequest("POST", path, Podcast, body=body, headers=once(idempotency_key))

    @operation
    def get_podcast(self, podcast: str) -> ApiRequest[Podcast]:
        """One podcast."""
        return ApiRequest("GET", self.in_podcast(podcast), Podcast)

    @operation
    def replace_podcast(
        self,
        podcast: str,
        name: str,
        *,
        confirm: bool | None = None,
        if_match: str | None = None,
        **settings: Unpack[PodcastSettings],
    ) -> ApiRequest[Podcast]:
        """Replace the settings of a podcast; those that are not given get their defaults."""
        path, body = self.in_podcast(podcast), body_of(name=name, **settings)
        query, headers = given(confirm=confirm), matching(if_match)
        return ApiRequest("PUT", path, Podcast, query, body, headers=headers)

    @operation
    def delete_podcast(self, podcast: str, *, if_match: str | None = None) -> ApiRequest[None]:
        """Delete a podcast with everything in it."""
        return ApiRequest(
            "DELETE", self.in_podcast(podcast), type(None), headers=matching(if_match)
        )

    @operation
    def import_opml(
        self, podcast: str, opml: str, *, idempotency_key: str | None = None
    ) -> ApiRequest[Import]:
        """Add the sources of an OPML file."""
        path, kind = self.in_podcast(podcast, "opml"), "text/x-opml"
        return ApiRequest("POST", path, Import, {}, opml, kind, once(idempotency_key))

    @operation
    def export_opml(self, podcast: str) -> ApiRequest[str]:
        """The sources of a podcast as an OPML file."""
        return ApiRequest("GET", self.in_podcast(podcast, "opml"), str)


class SourceOperations(InPodcasts):
    """Sources."""

    @listing
    def sources(
        self, podcast: str, **filters: Unpack[SourcePageFilters]
    ) -> ApiRequest[Page[Source]]:
        """The sources of a podcast, in the order they were added."""
        path = self.in_podcast(podcast, "sources")
        return ApiRequest("GET", path, Page[Source], given(**filters))

    @listing
    def all_sources(
        self, *, user: str | None = None, **filters: Unpack[SourcePageFilters]
    ) -> ApiRequest[Page[OwnedSource]]:
        """The sources of all users; with a user's token those of that user."""
        query = given(user=user, **filters)
        return ApiRequest("GET", path_of("sources"), Page[OwnedSource], query)

    @operation
    def add_source(
        self,
        podcast: str,
        url: str,
        *,
        type: SourceType | None = None,  # noqa: A002 - its name in the API
        check: bool | None = None,
        unique: bool | None = None,
        idempotency_key: str | None = None,
        **settings: Unpack[SourceSettings],
    ) -> ApiRequest[SourceCreated]:
        """Add a source. Without a type it is detected."""
        path = self.in_podcast(podcast, "sources")
        query, headers = given(check=check, unique=unique), once(idempotency_key)
        body = body_of(url=url, type=type, **settings)
        return ApiRequest("POST", path, SourceCreated, query, body, headers=headers)

    @operation
    def get_source(self, podcast: str, source_id: str) -> ApiRequest[Source]:
        """One source."""
        return ApiRequest("GET", self.in_podcast(podcast, "sources", source_id), Source)

    @operation
    def change_source(
        self,
        podcast: str,
        source_id: str,
        *,
        if_match: str | None = None,
        **changes: Unpack[SourceChanges],
    ) -> ApiRequest[Source]:
        """Change some settings of a source."""
        path, body = self.in_podcast(podcast, "sources", source_id), body_of(**changes)
        return ApiRequest("PATCH", path, Source, body=body, headers=matching(if_match))

    @operation
    def replace_source(
        self,
        podcast: str,
        source_id: str,
        url: str,
        type: SourceType,  # noqa: A002 - its name in the API
        *,
        if_match: str | None = None,
        **settings: Unpack[SourceSettings],
    ) -> ApiRequest[Source]:
        """Replace the settings of a source; those that are not given get their defaults."""
        path = self.in_podcast(podcast, "sources", source_id)
        body = body_of(url=url, type=type, **settings)
        return ApiRequest("PUT", path, Source, body=body, headers=matching(if_match))

    @operation
    def delete_source(
        self, podcast: str, source_id: str, *, if_match: str | None = None
    ) -> ApiRequest[None]:
        """Delete a source with its posts."""
        path = self.in_podcast(podcast, "sources", source_id)
        return ApiRequest("DELETE", path, type(None), headers=matching(if_match))

    @operation
    def change_sources(
        self,
        podcast: str,
        action: BatchAction,
        *,
        ids: Iterable[str] | None = None,
        filter: SourceSelection | None = None,  # noqa: A002 - its name in the API
        set: SourceSettings | None = None,  # noqa: A002
        idempotency_key: str | None = None,
    ) -> ApiRequest[BatchResult]:
        """Enable, disable, delete, poll or update many sources, by ids or by a filter."""
        body = body_of(
            action=action,
            ids=None if ids is None else list(ids),
            filter=None if filter is None else body_of(**filter),
            set=None if set is None else body_of(**set),
        )
        path = self.in_podcast(podcast, "sources", "batch")
        return ApiRequest("POST", path, BatchResult, body=body, headers=once(idempotency_key))

    @operation
    def accept_suggestion(
        self,
        podcast: str,
        source_id: str,
        suggestion_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Source]:
        """Make the change that is suggested for a source."""
        suggestion = ("sources", source_id, "suggestions", suggestion_id)
        path = self.in_podcast(podcast, *suggestion, "accept")
        return ApiRequest("POST", path, Source, headers=once(idempotency_key))

    @operation
    def undo_suggestion(
        self,
        podcast: str,
        source_id: str,
        suggestion_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Source]:
        """Take an accepted suggestion back."""
        suggestion = ("sources", source_id, "suggestions", suggestion_id)
        path = self.in_podcast(podcast, *suggestion, "undo")
        return ApiRequest("POST", path, Source, headers=once(idempotency_key))

    @operation
    def dismiss_suggestion(
        self, podcast: str, source_id: str, suggestion_id: str
    ) -> ApiRequest[None]:
        """Dismiss a suggestion."""
        suggestion = ("sources", source_id, "suggestions", suggestion_id)
        return ApiRequest("DELETE", self.in_podcast(podcast, *suggestion), type(None))


class PollOperations(InPodcasts):
    """Polls of sources, and previews."""

    @operation
    def poll_source(
        self,
        podcast: str,
        source_id: str,
        *,
        wait: bool | None = None,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Poll | PollRequested]:
        """Poll a source now; `PollRequested` with `wait=False`, or if it takes longer than 60 s."""
        path = self.in_podcast(podcast, "sources", source_id, "poll")
        query, headers = given(wait=wait), once(idempotency_key)
        either: Any = Poll | PollRequested
        return ApiRequest("POST", path, either, query, headers=headers)

    @operation
    def explain_source(self, podcast: str, source_id: str) -> ApiRequest[Explanation]:
        """When a source is polled next, and why."""
        path = self.in_podcast(podcast, "sources", source_id, "explain")
        return ApiRequest("GET", path, Explanation)

    @listing
    def polls(
        self, podcast: str, source_id: str, **paging: Unpack[Paging]
    ) -> ApiRequest[Page[PollRecord]]:
        """The poll history of a source, the newest first."""
        path = self.in_podcast(podcast, "sources", source_id, "polls")
        return ApiRequest("GET", path, Page[PollRecord], given(**paging))

    @listing
    def poll_days(
        self, podcast: str, source_id: str, **paging: Unpack[Paging]
    ) -> ApiRequest[Page[PollDay]]:
        """The polls of a source by day, the newest first."""
        path = self.in_podcast(podcast, "sources", source_id, "poll-days")
        return ApiRequest("GET", path, Page[PollDay], given(**paging))

    @operation
    def preview_source(
        self,
        podcast: str,
        url: str,
        *,
        type: SourceType | None = None,  # noqa: A002 - its name in the API
        include_history: bool = False,
        watch: WatchInput | None = None,
        idempotency_key: str | None = None,
    ) -> ApiRequest[Preview]:
        """What a first poll of a URL would store; nothing is stored."""
        body = body_of(url=url, type=type, include_history=include_history, watch=watch)
        path = self.in_podcast(podcast, "sources", "preview")
        return ApiRequest("POST", path, Preview, body=body, headers=once(idempotency_key))
