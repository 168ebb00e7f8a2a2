"""Adding, editing and finding sources."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from headwater.errors import BadUrl, NotFound, UsageError
from headwater.fetch.x import user_name
from headwater.model import Source, SourceType, changed
from headwater.rules.lines import is_one_line
from headwater.rules.outcome import edited
from headwater.rules.politeness import host_of
from headwater.rules.urls import normal_host, parse_url
from headwater.store import Store

MAX_LABEL = 500
RANGES: Mapping[str, tuple[int, int]] = {
    "poll_interval_minutes": (1, 525_600),
    "poll_delay_seconds": (0, 86_400),
    "max_failures": (1, 1_000_000),
    "max_backoff_hours": (1, 1_000_000),
    "late_entry_hours": (0, 1_000_000),
}
_NAMED = 3  # of sources that might be meant
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
    store: Store, podcast_id: str, wanted: SourceSettings, now: datetime, *, most: int
) -> Source:
    """Store a new source, of which a user may have `most`; everything is checked first (U8)."""
    source = new_source(podcast_id, wanted, now)
    await store.sources.add_many([source], most=most)
    return source


async def refuse_too_many(store: Store, user_id: str, more: int, most: int) -> None:
    """Raise TooMuch if so many more sources are more than a user may have (U8)."""
    await store.sources.refuse_too_many(user_id, more, most)


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
    source = checked(replace(blank, **given(wanted) | {"url": blank.url}))
    return replace(source, host=host_of(source))


async def edit_source(
    store: Store, source_id: str, changes: Mapping[str, Any], now: datetime
) -> Source:
    """Change what is named, with all that follows from it (F5)."""
    return await store.sources.edit(source_id, partial(edited_as, changes, now))


def edited_as(changes: Mapping[str, Any], now: datetime, before: Source) -> Source:
    """The source as it shall be, or a UsageError that names the field that is wrong."""
    named = dict(changes)
    if "url" in named:
        named["url"] = named["url"].strip()
    after = changed(before, named)
    # what is not changed need not be right: it may have come in by another way (P4)
    _check(after, [name for name in named if getattr(before, name) != getattr(after, name)])
    return edited(before, after, now)


async def remove_source(store: Store, source_id: str) -> None:
    """Delete a source with its posts, articles and history."""
    await store.sources.remove(source_id)


async def find_source(store: Store, wanted: str) -> Source:
    """The source with this id, this beginning of an id, or this URL."""
    matches: Sequence[Source] = await store.sources.named(wanted)
    if not matches:
        raise NotFound(f"there is no source {wanted!r}; `headwater list` shows them all")
    if len(matches) > 1:
        some = ", ".join(source.id for source in matches[:_NAMED])
        more = ", …" if len(matches) > _NAMED else ""
        raise UsageError(
            f"{wanted!r} fits {len(matches)} sources; give the whole id of one: {some}{more}"
        )
    return matches[0]


def host_named(host: str) -> str:
    """A host as the sources on it know it, in whatever spelling it was given (P1)."""
    try:
        return normal_host(host)
    except BadUrl as error:
        raise UsageError(f"{host!r} is no host", field="host") from error


def given(wanted: SourceSettings) -> dict[str, Any]:
    """The settings that were given, by name."""
    values = {name: getattr(wanted, name) for name in SourceSettings.__slots__}
    return {name: value for name, value in values.items() if value is not None}


def checked(source: Source) -> Source:
    """The source itself if everything a person may set is within its bounds."""
    _check(source, SourceSettings.__slots__)
    return source


def _check(source: Source, names: Collection[str]) -> None:
    for name in names:
        value = getattr(source, name)
        if name in RANGES and value is not None:
            _check_range(name, value)
    if "label" in names and source.label is not None:
        _check_label(source.label)
    if "url" not in names and "type" not in names:
        return
    if source.type is SourceType.TWITTER:
        user_name(source.url)
    else:
        parse_url(source.url)


def _check_range(name: str, value: int) -> None:
    least, most = RANGES[name]
    if not least <= value <= most:
        raise UsageError(f"{name} must be between {least} and {most}, not {value}", field=name)


def _check_label(label: str) -> None:
    if len(label) > MAX_LABEL:
        raise UsageError(f"the label is longer than {MAX_LABEL} characters", field="label")
    if not is_one_line(label):
        raise UsageError("the label is not one line of text", field="label")


def type_of_url(url: str) -> SourceType | None:
    """The type that a URL gives away without a visit: X, or not known."""
    text = url.strip()
    if text.startswith("@"):
        return SourceType.TWITTER
    bare = text.partition("://")[2].partition("/")[0].lower()
    return SourceType.TWITTER if bare in _X_HOSTS else None
