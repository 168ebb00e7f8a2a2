"""Sources as people see them: what is stored, and what the rules make of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.errors import NotFound
from headwater.model import Health, Hold, HostState, PollRecord, Source, SourceType, Subject
from headwater.operations.people import DEFAULT
from headwater.rules.explanation import Explanation, LaneNow, explain, next_poll_at
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds, host_of, lane_of, poll_delay
from headwater.rules.schedule import effective_interval
from headwater.store import Store
from headwater.store.sources import Position, SourceFilter

_PAGE = 500
Look = Callable[[str, str], tuple[HostState, LaneNow]]  # at a lane, for one of its sources


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source with everything that follows from it."""

    source: Source
    health: Health
    host: str | None
    next_poll_at: datetime | None
    delay_seconds: float
    interval_minutes: int
    post_count: int
    article_count: int
    hold: Hold | None  # of its lane or its own, while it lasts
    held: bool  # the hold decides when the next poll is
    polled_at: datetime | None  # the last poll that really was: first contact invents one (P6)


@dataclass(frozen=True, slots=True)
class SourceCard:
    """A source with its last polls."""

    view: SourceView
    polls: tuple[PollRecord, ...]


async def list_sources(
    store: Store, wanted: SourceFilter, *, limit: int | None = None
) -> AsyncIterator[Sequence[Source]]:
    """The sources that fit, page by page, in the order they were added."""
    left, after = limit, None
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = await store.sources.find(wanted, limit=size, after=after)
        if page:
            yield page
        if len(page) < size:
            return
        after = (round(page[-1].created_at.timestamp() * 1000), page[-1].id)
        left = None if left is None else left - len(page)


async def source_page(
    store: Store,
    user_id: str,
    wanted: SourceFilter,
    *,
    limit: int,
    after: Position | None,
    now: datetime,
    policy: Policy,
) -> list[SourceView]:
    """A user's sources that fit, behind a position, as people see them."""
    found = await store.sources.find(wanted, limit=limit, after=after)
    return await views(store, user_id, found, now, policy)


async def views(
    store: Store, user_id: str, sources: Sequence[Source], now: datetime, policy: Policy
) -> list[SourceView]:
    """One user's sources as people see them."""
    lanes = [lane_of(source, user_id) or "" for source in sources]
    ids = [source.id for source in sources]
    # at the same time: every question in a row is a wait of its own for a busy service
    states, posts, articles, polled = await asyncio.gather(
        store.hosts.of_lanes(lanes),
        store.posts.counts(ids),
        store.articles.counts(ids),
        _polled_at(store, sources),
    )
    counts = posts, articles
    return [
        _view(source, states.get(lane, HostState(lane)), counts, polled[source.id], now, policy)
        for source, lane in zip(sources, lanes, strict=True)
    ]


async def view_of(store: Store, source_id: str, now: datetime, policy: Policy) -> SourceView:
    """One source as people see it."""
    subject = await _subject(store, source_id)
    (view,) = await views(store, subject.user_id, [subject.source], now, policy)
    return view


async def card_of(
    store: Store, source_id: str, now: datetime, policy: Policy, *, polls: int
) -> SourceCard:
    """One source with its last polls, newest first."""
    view = await view_of(store, source_id, now, policy)
    return SourceCard(view, tuple(await store.polls.newest(source_id, limit=polls)))


async def explanation_of(
    store: Store, source_id: str, now: datetime, policy: Policy, *, look: Look | None = None
) -> Explanation:
    """When a source will be polled next and why, step by step.

    `look` tells how its lane stands in the service that runs; without one, what is stored counts.
    """
    subject = await _subject(store, source_id)
    source = subject.source
    lane, lane_now = lane_of(source, subject.user_id) or "", None
    if look is None:
        state = await store.hosts.get(lane)
    else:
        state, lane_now = look(lane, source.id)
    polled = (await _polled_at(store, [source]))[source.id] is not None
    key_advice = await missing_key(store, source, subject.user_id)
    return explain(source, state, now, policy, polled=polled, key_advice=key_advice, lane=lane_now)


async def missing_key(store: Store, source: Source, user_id: str) -> str | None:
    """What to do about an X source whose owner has no API key (X1); None if nothing is amiss."""
    if source.type is not SourceType.TWITTER or "x" in await store.people.key_providers(user_id):
        return None
    user = "" if user_id == DEFAULT else f" --user {(await store.people.user(user_id)).name}"
    return f"`headwater{user} keys set x` stores one, as does PUT /api/users/{user_id}/api-keys/x"


async def _subject(store: Store, source_id: str) -> Subject:
    subject = await store.sources.subject(source_id)
    if subject is None:
        raise NotFound(f"there is no source {source_id}")
    return subject


async def _polled_at(store: Store, sources: Sequence[Source]) -> dict[str, datetime | None]:
    """When sources were really polled; where their state cannot tell, the history does."""
    known = {source.id: source.last_polled if _shows_polls(source) else None for source in sources}
    unsure = [source.id for source in sources if not _shows_polls(source)]
    return known | dict(await store.polls.last_started(unsure)) if unsure else known


def _shows_polls(source: Source) -> bool:
    return (
        source.last_success_at is not None
        or source.failing_since is not None
        or source.consecutive_failures > 0
    )


def _view(
    source: Source,
    state: HostState,
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    polled_at: datetime | None,
    now: datetime,
    policy: Policy,
) -> SourceView:
    posts, articles = counts
    holds = [h for h in (state.hold, source.hold) if h is not None and hold_seconds(h, now) > 0]
    hold = max(holds, key=lambda hold: hold.until, default=None)
    next_at = next_poll_at(source, state, now, policy)
    held_until = now + timedelta(seconds=hold_seconds(hold, now))
    return SourceView(
        source=source,
        health=health_of(source),
        host=host_of(source),
        next_poll_at=next_at,
        delay_seconds=poll_delay(source, policy).total_seconds(),
        interval_minutes=round(effective_interval(source, policy).total_seconds() / 60),
        post_count=posts.get(source.id, 0),
        article_count=articles.get(source.id, 0),
        hold=hold,
        held=hold is not None and next_at is not None and held_until >= next_at,
        polled_at=polled_at,
    )
