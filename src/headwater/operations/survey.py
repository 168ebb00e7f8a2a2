"""Survey: what a look at all sources tells about the clock and about sources nobody notices."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.errors import HeadwaterError
from headwater.model import Source
from headwater.operations.checks import Check, fine, note, wrong
from headwater.operations.overview import list_sources
from headwater.rules.failure import one_line
from headwater.rules.schedule import CLOCK_TOLERANCE, is_from_the_future
from headwater.rules.urls import masked
from headwater.store import Store
from headwater.store.sources import SourceFilter

_LONG = timedelta(days=7)
_NEW = timedelta(days=1)
_NAMED = 2


@dataclass
class Survey:
    """Sources that deserve a look."""

    total: int = 0
    polled_in_future: list[Source] = field(default_factory=list)
    made_in_future: list[Source] = field(default_factory=list)
    never_polled: list[Source] = field(default_factory=list)
    failing_long: list[Source] = field(default_factory=list)
    disabled_by_failures: list[Source] = field(default_factory=list)


async def survey(store: Store, now: datetime) -> list[Check]:
    """Look at every source once."""
    found = Survey()
    try:
        async for page in list_sources(store, SourceFilter()):
            for source in page:
                _sort(found, source, now)
    except HeadwaterError as error:
        return [wrong("sources", f"cannot be read: {one_line(error)}")]
    return [_clock(found, now), *_sources(found)]


async def has_keys(store: Store) -> bool:
    """Whether any user has stored an API key, as far as that can be read."""
    try:
        users = await store.people.users()
        return any([await store.people.key_providers(user.id) for user in users])
    except HeadwaterError:
        return False


def _sort(found: Survey, source: Source, now: datetime) -> None:
    found.total += 1
    if is_from_the_future(source, now):
        found.polled_in_future.append(source)
    if source.created_at > now + CLOCK_TOLERANCE:
        found.made_in_future.append(source)
    if not source.enabled:
        if source.disabled_reason is not None:
            found.disabled_by_failures.append(source)
    elif source.failing_since is not None and source.failing_since < now - _LONG:
        found.failing_long.append(source)
    elif _is_forgotten(source, now):
        found.never_polled.append(source)


def _is_forgotten(source: Source, now: datetime) -> bool:
    polled = source.last_success_at is not None or source.consecutive_failures > 0
    return not polled and source.created_at < now - _NEW


def _clock(found: Survey, now: datetime) -> Check:
    told = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if found.made_in_future:
        count = _count(found.made_in_future)
        return note("clock", f"{told}, but {count} added later than that", "set the clock")
    if found.polled_in_future:
        count = _count(found.polled_in_future)
        return note("clock", f"{told}, but {count} polled later than that", "set the clock")
    return fine("clock", told)


def _sources(found: Survey) -> list[Check]:
    notes = [
        note("sources", f"{_count(sources)} {what}: {_names(sources)}", advice)
        for sources, what, advice in (
            (found.never_polled, "added over a day ago and never polled", "headwater serve"),
            (found.failing_long, "failing for more than 7 days", "headwater list --health failing"),
            (
                found.disabled_by_failures,
                "disabled after failures",
                "headwater list --health disabled",
            ),
        )
        if sources
    ]
    return notes or [fine("sources", f"{found.total:,}, none of them forgotten")]


def _count(sources: list[Source]) -> str:
    return "1 source" if len(sources) == 1 else f"{len(sources):,} sources"


def _names(sources: list[Source]) -> str:
    named = ", ".join(masked(source.url) for source in sources[:_NAMED])
    return f"{named}, …" if len(sources) > _NAMED else named
