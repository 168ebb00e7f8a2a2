"""Adding, editing, finding and deleting sources."""

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from headwater.errors import BadUrl, NotFound, UsageError
from headwater.model import Source, SourceType, changed
from headwater.operations.etags import matching
from headwater.operations.filters import apply_changed_filters, changes_filters, check_filter
from headwater.rules.addresses import Allowed, host_refusal, refusal_text
from headwater.rules.outcome import edited
from headwater.rules.politeness import host_of
from headwater.rules.text_checks import is_one_line
from headwater.rules.url_secrets import masked
from headwater.rules.urls import normal_host, normalised_url, parse_url
from headwater.rules.x_users import user_name
from headwater.source_settings import SETTINGS, Setting, SettingValues
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.source_batches import ROWS_PER_BATCH
from headwater.store.sources import BatchCounts, SourceFilter

CheckPoll = Callable[[Source], None]  # TooMany if a source may not be polled manually now
Pollable = Callable[[Sequence[str]], Sequence[str]]  # those that may be polled manually now

_MOST_CANDIDATES = 3  # listed if several sources match
_MOST_LABELLED = 10  # counted then
_DELETED_PAGE = 100
_ROWS_PER_DELETION = ROWS_PER_BATCH - 1  # a source with more rows is deleted alone
_SOURCE_WEIGHT = 20  # cost of the source itself, with its indexes, in rows


async def add_source(
    store: Store,
    podcast_id: str,
    settings: SettingValues,
    now: datetime,
    *,
    most: int,
    allowed: Allowed,
) -> Source:
    """Check and store a new source; TooMuch if its user would have more than `most` (U8)."""
    source = new_source(podcast_id, settings, now, allowed=allowed)
    describe_new(source)
    await store.sources.add_many([source], most=most)
    return source


def message_of(error: UsageError) -> str:
    """The message of an error about a setting, with the name that the API uses."""
    setting = SETTINGS.get(error.field or "")
    return str(error) if setting is None else str(error).replace(setting.name, setting.json_name)


def describe_new(source: Source) -> None:
    """Describe a source that is added, for the audit log."""
    url, podcast = masked(source.url), source.podcast_id
    describe("source.add", f"source {source.id}", url=url, type=source.type, podcast=podcast)


def new_source(
    podcast_id: str,
    settings: SettingValues,
    now: datetime,
    *,
    allowed: Allowed = True,
    is_detected: bool = False,
) -> Source:
    """A source with these settings, or a UsageError that names the wrong field.

    `allowed`: the private networks that may be visited; a URL elsewhere is refused (J2).
    `is_detected`: a visit will show its type; what depends on that is checked then.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if "url" not in given:
        raise UsageError("a source needs a URL", field="url")
    given["url"] = given["url"].strip()
    given.setdefault("type", SourceType.RSS)
    source = Source(id=str(uuid.uuid4()), podcast_id=podcast_id, created_at=now, **given)
    _check(source, SETTINGS, allowed)
    if not is_detected:
        check_watch(source)
    return replace(source, host=host_of(source))


def check_watch(source: Source) -> None:
    """Raise UsageError if parts of a page are to be watched of a source that is not a page (W4)."""
    if source.watch is not None and source.type is not SourceType.WEBSITE:
        message = f"watch is for the type website, not for {source.type}: set it to null"
        raise UsageError(message, field="watch")


def url_spellings(url: str, type_: SourceType) -> tuple[str, ...]:
    """The URL and other spellings of it, the canonical one last, to find an existing source."""
    others = [normalised_url(url)]
    if type_ is SourceType.TWITTER:
        try:
            name = user_name(url)
        except UsageError:  # reported by new_source
            return (url,)
        sites = (f"https://{host}/{name}" for host in ("x.com", "twitter.com"))
        others = [name, f"@{name}", *sites, f"@{name.lower()}"]
    return tuple(dict.fromkeys((url, *others)))


async def edit_source(
    store: Store,
    source_id: str,
    changes: SettingValues,
    now: datetime,
    *,
    allowed: Allowed,
    if_match: str | None = None,
    check_poll: CheckPoll | None = None,
) -> Source:
    """Change the named settings and the state that depends on them (F5).

    Raises Outdated if the stored source does not match `if_match`. `check_poll` refuses an edit
    that requests a poll too soon (Y8).
    """

    def change(before: Source) -> Source:
        return edited_as(changes, now, matching(if_match, before), allowed=allowed)

    await check_requested_poll(store, source_id, change, check_poll)
    describe("source.edit", f"source {source_id}", **shown_changes(changes))
    source = await store.sources.edit(source_id, change)
    if changes_filters(changes):
        await apply_changed_filters(store, now)
    return source


async def check_requested_poll(
    store: Store, source_id: str, change: Callable[[Source], Source], check_poll: CheckPoll | None
) -> None:
    """Call `check_poll` if a change of a source requests a poll (Y8).

    Before the transaction of the change, which may run twice.
    """
    if check_poll is None:
        return
    before = await store.sources.get(source_id)
    after = change(before)
    if requests_poll(before, after):
        check_poll(after)


def requests_poll(before: Source, after: Source) -> bool:
    """Whether an edit requests a poll."""
    return after.requested_at not in (None, before.requested_at)


async def remove_source(store: Store, source: Source, *, if_match: str | None = None) -> None:
    """Delete a source with everything that belongs to it; Outdated if it does not match."""
    url, podcast = masked(source.url), source.podcast_id
    describe("source.remove", f"source {source.id}", url=url, podcast=podcast)
    await store.sources.remove(source.id, check=partial(matching, if_match))


def shown_changes(changes: SettingValues) -> Mapping[str, object]:
    """Changed settings for the audit log: URLs masked, other texts and structures without value."""
    return {name: _shown(SETTINGS[name], value) for name, value in sorted(changes.items())}


def _shown(setting: Setting, value: Any) -> object:
    if value is None:
        return "default"
    if setting.name == "url":
        return masked(value)
    return value if isinstance(value, int | StrEnum) else "changed"


def edited_as(
    changes: SettingValues, now: datetime, before: Source, *, allowed: Allowed = True
) -> Source:
    """The source with these changes, or a UsageError that names the wrong field."""
    named = dict(changes)
    if "url" in named:
        named["url"] = named["url"].strip()
    after = changed(before, named)
    # unchanged values are not checked: a row written by other means may be out of range (P4)
    differing = [name for name in named if getattr(before, name) != getattr(after, name)]
    _check(after, differing, allowed)
    if "watch" in differing or "type" in differing:
        check_watch(after)
    return edited(before, after, now)


async def remove_sources(store: Store, wanted: SourceFilter, ids: Sequence[str]) -> BatchCounts:
    """Delete the given sources that match `wanted`, in batches of a bounded number of rows."""
    weights = await store.sources.weights(ids)
    total = BatchCounts()
    for batch in _deletion_batches(ids, weights):
        total += await store.sources.remove_many(wanted, batch)
    return total


async def remove_all_sources(store: Store, podcast_id: str) -> None:
    """Delete every source of a podcast."""
    wanted = SourceFilter(podcast_id=podcast_id)
    while page := await store.sources.positions(wanted, limit=_DELETED_PAGE):
        await remove_sources(store, wanted, [id_ for _, id_ in page])


async def find_source(store: Store, wanted: str) -> Source:
    """The source with this id, prefix of an id, URL, or label."""
    matches: Sequence[Source] = await store.sources.find_by_reference(wanted)
    if wanted and not any(wanted in (source.id, source.url) for source in matches):
        labelled = await store.sources.find(SourceFilter(label=wanted), limit=_MOST_LABELLED)
        matches = list({source.id: source for source in (*matches, *labelled)}.values())
    if not matches:
        raise NotFound(f"there is no source {wanted!r}; `headwater list` shows all")
    if len(matches) > 1:
        some = ", ".join(source.id for source in matches[:_MOST_CANDIDATES])
        more = ", …" if len(matches) > _MOST_CANDIDATES else ""
        raise UsageError(
            f"{wanted!r} matches {len(matches)} sources; give the whole id of one: {some}{more}"
        )
    return matches[0]


def host_named(host: str) -> str:
    """The normalised name of a host (P1), or a UsageError."""
    try:
        return normal_host(host)
    except BadUrl as error:
        raise UsageError(f"{host!r} is not a host name", field="host") from error


def _deletion_batches(ids: Sequence[str], weights: Mapping[str, int]) -> Iterator[list[str]]:
    """The ids in order, split so that a batch deletes a bounded number of rows of all tables."""
    batch: list[str] = []
    weight = 0
    for id_ in ids:
        own = _SOURCE_WEIGHT + weights.get(id_, 0)
        if batch and weight + own > _ROWS_PER_DELETION:
            yield batch
            batch, weight = [], 0
        batch.append(id_)
        weight += own
    if batch:
        yield batch


def _check(source: Source, names: Collection[str], allowed: Allowed) -> None:
    for name in names:
        value = getattr(source, name)
        if value is not None and name != "url":
            _check_value(SETTINGS[name], value)
    if "url" not in names and "type" not in names:
        return
    if source.type is SourceType.TWITTER:
        user_name(source.url)
        return
    host = parse_url(source.url).host
    reason = host_refusal(host, allowed)
    if reason is not None:
        raise BadUrl(refusal_text(host, reason), field="url")


def _check_value(setting: Setting, value: Any) -> None:
    name, label, least, most = setting.name, setting.label, setting.minimum, setting.maximum
    if setting.is_query:
        check_filter(value, name)
    if setting.kind is int and not least <= value <= most:
        raise UsageError(f"{name} must be between {least} and {most}, not {value}", field=name)
    if setting.kind is str and len(value) > setting.max_length:
        longest = f"{setting.max_length} characters"
        raise UsageError(f"the {label.lower()} is longer than {longest}", field=name)
    if setting.kind is str and not is_one_line(value):
        raise UsageError(f"the {label.lower()} is not one line of text", field=name)
