"""Adding, editing and finding sources."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headwater.errors import NotFound, UsageError
from headwater.fetch.x import user_name
from headwater.model import Source, SourceType
from headwater.rules.outcome import edited
from headwater.rules.politeness import host_of
from headwater.rules.urls import parse_url
from headwater.store import Store
from headwater.store.sources import SourceFilter

MAX_LABEL = 500
_RANGES: Mapping[str, tuple[int, int]] = {
    "poll_interval_minutes": (1, 525_600),
    "poll_delay_seconds": (0, 86_400),
    "max_failures": (1, 1_000_000),
    "max_backoff_hours": (1, 1_000_000),
    "late_entry_hours": (0, 1_000_000),
}
_X_HOSTS = ("x.com", "twitter.com", "www.x.com", "www.twitter.com", "mobile.twitter.com")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What a person may set of a source; None: leave it, or take the default."""

    type: SourceType | None = None
    url: str | None = None
    label: str | None = None
    enabled: bool | None = None
    poll_interval_minutes: int | None = None
    poll_delay_seconds: int | None = None
    max_failures: int | None = None
    max_backoff_hours: int | None = None
    late_entry_hours: int | None = None
    aggregate: bool | None = None
    include_history: bool | None = None


async def add_source(
    store: Store, podcast_id: str, wanted: SourceSettings, now: datetime
) -> Source:
    """Store a new source; the URL and every number are checked first."""
    source = new_source(podcast_id, wanted, now)
    await store.sources.add_many([source])
    return source


def new_source(podcast_id: str, wanted: SourceSettings, now: datetime) -> Source:
    """A source with these settings, or a UsageError that names the field that is wrong."""
    if wanted.url is None:
        raise UsageError("a source needs a URL", field="url")
    blank = Source(
        id=str(uuid.uuid4()),
        podcast_id=podcast_id,
        type=wanted.type or type_of_url(wanted.url) or SourceType.RSS,
        url=wanted.url.strip(),
        created_at=now,
    )
    source = checked(replace(blank, **given(wanted)))
    return replace(source, host=host_of(source))


async def edit_source(
    store: Store, source_id: str, changes: Mapping[str, Any], now: datetime
) -> Source:
    """Change what is named, with all that follows from it (F5)."""

    def change(before: Source) -> Source:
        return edited(before, checked(replace(before, **changes)), now)

    return await store.sources.edit(source_id, change)


async def remove_source(store: Store, source_id: str) -> None:
    """Delete a source with its posts, articles and history."""
    await store.sources.remove(source_id)


async def find_source(store: Store, wanted: str) -> Source:
    """The source with this id, this beginning of an id, or this URL."""
    matches: Sequence[Source] = await store.sources.named(wanted)
    if not matches:
        raise NotFound(f"there is no source {wanted!r}; `headwater list` shows them all")
    if len(matches) > 1:
        raise UsageError(f"{wanted!r} fits {len(matches)} sources; give the whole id")
    return matches[0]


async def urls_of(store: Store, podcast_id: str) -> dict[str, str]:
    """The URLs that a podcast watches already, with the ids of their sources."""
    known: dict[str, str] = {}
    after: tuple[int, str] | None = None
    while page := await store.sources.find(
        SourceFilter(podcast_id=podcast_id), limit=5000, after=after
    ):
        known |= {source.url: source.id for source in page}
        last = page[-1]
        after = (round(last.created_at.timestamp() * 1000), last.id)
    return known


def given(wanted: SourceSettings) -> dict[str, Any]:
    """The settings that were given, by name."""
    values = {name: getattr(wanted, name) for name in SourceSettings.__slots__}
    return {name: value for name, value in values.items() if value is not None}


def checked(source: Source) -> Source:
    """The source itself if everything a person may set is within its bounds."""
    for name, (least, most) in _RANGES.items():
        value = getattr(source, name)
        if value is not None and not least <= value <= most:
            raise UsageError(f"{name} must be between {least} and {most}, not {value}", field=name)
    if source.label is not None and len(source.label) > MAX_LABEL:
        raise UsageError(f"the label is longer than {MAX_LABEL} characters", field="label")
    if source.type is SourceType.TWITTER:
        user_name(source.url)
    else:
        parse_url(source.url)
    return source


def type_of_url(url: str) -> SourceType | None:
    """The type that a URL gives away without a visit: X, or not known."""
    text = url.strip()
    if text.startswith("@"):
        return SourceType.TWITTER
    bare = text.partition("://")[2].partition("/")[0].lower()
    return SourceType.TWITTER if bare in _X_HOSTS else None
