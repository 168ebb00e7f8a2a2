"""Filters of sources and podcasts: their check, their effect beforehand and once changed (B2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.errors import QueryError
from headwater.model import FilteredBy, FilterMatches, FilterStats, Podcast, Source, Subject
from headwater.query.parser import parse_filter
from headwater.store import Store
from headwater.store.expired_rows import changed_filters
from headwater.store.filter_changes import ALL_SOURCES, FilterEffect

_BATCHES_AT_ONCE = 6  # of posts, before the response; the service evaluates the rest
FILTERS = frozenset({"keep", "block"})  # settings of sources and podcasts


@dataclass(frozen=True, slots=True)
class FilterTexts:
    """The filters of a source or a podcast."""

    keep: str | None = None
    block: str | None = None


def check_filter(text: str, field: str) -> None:
    """Raise a QueryError that names the field if a text is not a valid filter."""
    try:
        parse_filter(text)
    except QueryError as error:
        raise QueryError(error.expected, error.position, field=field) from error


def changes_filters(changes: Mapping[str, object]) -> bool:
    """Whether these changes of settings include filters."""
    return not FILTERS.isdisjoint(changes)


async def apply_changed_filters(store: Store, now: datetime) -> None:
    """Evaluate posts whose filters have changed, as many as a request has time for."""
    for _ in range(_BATCHES_AT_ONCE):
        if not await store.clean(changed_filters(), now, 0):
            return


async def preview_filters(
    store: Store, podcast: Podcast, filters: FilterTexts, *, source_id: str | None = None
) -> FilterEffect:
    """The effect of filters on the newest posts of a podcast or of one of its sources.

    SearchTooSlow if not one post was evaluated in time.
    """
    for field, text in (("keep", filters.keep), ("block", filters.block)):
        if text is not None:
            check_filter(text, field)

    def change(subject: Subject) -> Subject:
        keep, block = filters.keep, filters.block
        if source_id is None:
            return replace(subject, keep=keep, block=block)
        return replace(subject, source=replace(subject.source, keep=keep, block=block))

    return await store.search.filter_effect(podcast.id, source_id or ALL_SOURCES, change)


async def source_filter_stats(store: Store, sources: Sequence[Source]) -> Mapping[str, FilterStats]:
    """What the filters of each of these sources hide, by source."""
    return await _stats(store, "source_id", sources)


async def podcast_filter_stats(store: Store, podcast: Podcast) -> FilterStats:
    """What the filters of a podcast hide."""
    return (await _stats(store, "podcast_id", [podcast]))[podcast.id]


async def _stats(
    store: Store, column: str, owners: Sequence[Source | Podcast]
) -> dict[str, FilterStats]:
    filtering = [one.id for one in owners if one.keep is not None or one.block is not None]
    found = await store.posts.filter_matches(column, filtering) if filtering else {}

    def matches(owner: Source | Podcast, filter_: str) -> FilterMatches | None:
        if getattr(owner, filter_) is None:
            return None
        reason = FilteredBy(f"{column.removesuffix('_id')}.{filter_}")
        return found.get((owner.id, reason), FilterMatches())

    return {
        one.id: FilterStats(keep=matches(one, "keep"), block=matches(one, "block"))
        for one in owners
    }
