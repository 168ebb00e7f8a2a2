"""Sources for display: stored state with values that the rules derive from it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from headwater.errors import NotFound
from headwater.model import (
    FilterStats,
    Health,
    Hold,
    HostState,
    Podcast,
    PollRecord,
    Source,
    SourceType,
    Subject,
    Suggestion,
    SuggestionKind,
)
from headwater.operations.filters import source_filter_stats
from headwater.operations.sources import url_spellings
from headwater.operations.users_and_podcasts import DEFAULT
from headwater.rules.explanation import Explanation, LaneStatus, explain, next_poll_at
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds, host_of, lane_of, poll_delay
from headwater.rules.schedule import effective_interval
from headwater.store import Store
from headwater.store.source_pages import INDEXED_ORDERS, Position, SourceOrder
from headwater.store.sources import SourceFilter

MANY = 10_000  # more sources are neither counted nor sorted during a request
POLLS_SHOWN = 12
_PAGE = 500
_LISTED = 50  # sources on a page of the list
_UNDO_OFFERED = timedelta(days=30)  # after a suggestion was accepted
# by source: the number of posts, that of articles, suggestions and what filters hide
_Related = tuple[
    Mapping[str, int],
    Mapping[str, int],
    Mapping[str, tuple[Suggestion, ...]],
    Mapping[str, FilterStats],
]
Look = Callable[[str, str], tuple[HostState, LaneStatus]]  # reads a lane, for one of its sources


@dataclass(frozen=True, slots=True)
class MovedFrom:
    """The URL that a source had before a suggestion was accepted, which can be undone (Y4)."""

    id: str  # of the suggestion
    url: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source with derived values."""

    source: Source
    health: Health
    host: str | None
    next_poll_at: datetime | None
    delay_seconds: float
    interval_minutes: int
    post_count: int
    article_count: int
    hold: Hold | None  # current hold of its lane or of the source
    held: bool  # the hold decides when the next poll is
    polled_at: datetime | None  # the last real poll; first contact sets another last_polled (P6)
    suggestions: tuple[Suggestion, ...]  # the open ones
    moved_to: str | None  # the URL of a suggested move (Y4)
    moved_from: MovedFrom | None
    filter_stats: FilterStats


@dataclass(frozen=True, slots=True)
class SourceCard:
    """A source with its last polls."""

    view: SourceView
    polls: tuple[PollRecord, ...]


@dataclass(frozen=True, slots=True)
class SourceList:
    """A page of sources, with facts about the whole list."""

    cards: Sequence[SourceCard]
    next: Position | None
    order: SourceOrder  # of this page
    orders: Sequence[SourceOrder]  # that are available
    total: int | None  # matching sources; None: more than MANY
    is_empty: bool  # the podcast has no sources


async def list_sources(
    store: Store, wanted: SourceFilter, *, limit: int | None = None
) -> AsyncIterator[Sequence[Source]]:
    """Yield pages of the matching sources, in the order they were added."""
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


async def views(
    store: Store, user_id: str, sources: Sequence[Source], now: datetime, policy: Policy
) -> list[SourceView]:
    """Views of one user's sources."""
    return await _views(store, sources, [user_id] * len(sources), now, policy)


@dataclass(frozen=True, slots=True)
class OwnedSource(SourceView):
    """A source of any user with derived values, and its owner."""

    user_id: str
    user: str  # the name


async def all_sources(
    store: Store,
    wanted: SourceFilter,
    now: datetime,
    policy: Policy,
    *,
    limit: int,
    after: tuple[object, ...] | None = None,
) -> list[OwnedSource]:
    """Sources of all users, by podcast in the order they were added."""
    found = await store.sources.find_in_all_podcasts(wanted, limit=limit, after=after)
    owners = await store.accounts.owners({source.podcast_id for source in found})
    sources = [source for source in found if source.podcast_id in owners]  # else just deleted
    users = [owners[source.podcast_id] for source in sources]
    shown = await _views(store, sources, [user.id for user in users], now, policy)
    return [
        OwnedSource(**_values(view), user_id=user.id, user=user.name)
        for view, user in zip(shown, users, strict=True)
    ]


def _values(view: SourceView) -> dict[str, Any]:
    return {field.name: getattr(view, field.name) for field in fields(SourceView)}


async def _views(
    store: Store,
    sources: Sequence[Source],
    user_ids: Sequence[str],
    now: datetime,
    policy: Policy,
) -> list[SourceView]:
    """Views of sources, each with its owner."""
    owned = zip(sources, user_ids, strict=True)
    lanes = [lane_of(source, user_id) or "" for source, user_id in owned]
    ids = [source.id for source in sources]
    # concurrently: each query in sequence would wait for a busy database
    states, posts, articles, polled, suggestions, stats = await asyncio.gather(
        store.hosts.of_lanes(lanes),
        store.posts.counts(ids),
        store.articles.counts(ids),
        _polled_at(store, sources),
        store.suggestions.of_sources(ids),
        source_filter_stats(store, sources),
    )
    related = posts, articles, await _with_evidence(store, sources, suggestions), stats
    return [
        _view(source, states.get(lane, HostState(lane)), related, polled[source.id], now, policy)
        for source, lane in zip(sources, lanes, strict=True)
    ]


async def suggested_sources(
    store: Store,
    owner: str | None,
    kinds: Sequence[SuggestionKind],
    now: datetime,
    policy: Policy,
    *,
    limit: int,
) -> list[SourceView]:
    """Sources of a user, or of all, with open suggestions of these kinds (W6, Y4, Y5)."""
    ids = await store.suggestions.with_open(owner, kinds, limit=limit)
    found = list((await store.sources.subjects(ids)).values()) if ids else []
    sources, users = [one.source for one in found], [one.user_id for one in found]
    return await _views(store, sources, users, now, policy)


async def view_of(store: Store, source_id: str, now: datetime, policy: Policy) -> SourceView:
    """The view of one source."""
    subject = await _subject(store, source_id)
    (view,) = await views(store, subject.user_id, [subject.source], now, policy)
    return view


async def card_of(
    store: Store, source_id: str, now: datetime, policy: Policy, *, polls: int
) -> SourceCard:
    """One source with its last polls, newest first."""
    view = await view_of(store, source_id, now, policy)
    return SourceCard(view, tuple(await store.polls.newest(source_id, limit=polls)))


async def source_list(
    store: Store,
    podcast: Podcast,
    wanted: SourceFilter,
    now: datetime,
    policy: Policy,
    *,
    order: SourceOrder = SourceOrder.NEWEST,
    after: Position | None = None,
) -> SourceList:
    """A page of a podcast's sources; its cost does not depend on their number."""
    everything = SourceFilter(podcast_id=podcast.id)
    there = await store.sources.count_up_to(everything, MANY + 1)
    many = there > MANY
    orders = INDEXED_ORDERS if many else tuple(SourceOrder)
    if order not in orders:
        order, after = SourceOrder.NEWEST, None
    listing = await store.sources.page(wanted, order, limit=_LISTED, after=after, many=many)
    if many:
        total = None
    elif wanted == everything:
        total = there
    elif after is None and listing.next is None:
        total = len(listing.sources)  # a list of one page is not counted again
    else:
        total = await store.sources.count_up_to(wanted, MANY)
    found = await views(store, podcast.user_id, listing.sources, now, policy)
    ids = [source.id for source in listing.sources]
    polls = await store.polls.newest_of_each(ids, limit=POLLS_SHOWN) if ids else {}
    cards = [SourceCard(view, tuple(polls[view.source.id])) for view in found]
    return SourceList(cards, listing.next, order, orders, total, there == 0)


async def count_sources(store: Store, wanted: SourceFilter) -> int | None:
    """The number of matching sources; None if there are more than MANY."""
    counted = await store.sources.count_up_to(wanted, MANY + 1)
    return None if counted > MANY else counted


async def explanation_of(
    store: Store,
    source_id: str,
    now: datetime,
    policy: Policy,
    *,
    look: Look | None = None,
    paused: bool = False,
) -> Explanation:
    """When a source will be polled next and why, step by step.

    `look` reads its lane in the running service; without it the stored state is used, and whether
    the scheduler is `paused`.
    """
    subject = await _subject(store, source_id)
    source = subject.source
    lane, lane_now = lane_of(source, subject.user_id) or "", None
    if look is None:
        state = await store.hosts.get(lane)
        lane_now = LaneStatus(paused=True) if paused else None
    else:
        state, lane_now = look(lane, source.id)
    polled = (await _polled_at(store, [source]))[source.id] is not None
    search = await store.feed_searches.last(source.id)
    storm = None if source.host is None else await store.storms.lasting(source.host)
    return explain(
        source,
        state,
        now,
        policy,
        polled=polled,
        key_advice=await missing_key(store, source, subject.user_id),
        lane=lane_now,
        pages_pending=await store.page_visits.count_of_source(source.id),
        storm_kind=None if storm is None else storm.kind,
        search=None if search is None else (search.started_at, search.result),
    )


async def missing_key(store: Store, source: Source, user_id: str) -> str | None:
    """Advice for an X source whose owner has no API key (X1), else None."""
    if source.type is not SourceType.TWITTER or "x" in await store.api_keys.providers(user_id):
        return None
    user = "" if user_id == DEFAULT else f" --user {(await store.accounts.user(user_id)).name}"
    return f"`headwater{user} keys set x` stores one, as does PUT /api/users/{user_id}/api-keys/x"


async def _subject(store: Store, source_id: str) -> Subject:
    subject = await store.sources.subject(source_id)
    if subject is None:
        raise NotFound(f"there is no source {source_id}")
    return subject


async def _polled_at(store: Store, sources: Sequence[Source]) -> dict[str, datetime | None]:
    """The last real poll of each source, from its state or else from the poll history."""
    known = {source.id: source.last_polled if _was_polled(source) else None for source in sources}
    unsure = [source.id for source in sources if not _was_polled(source)]
    return known | dict(await store.polls.last_started(unsure)) if unsure else known


def _was_polled(source: Source) -> bool:
    return (
        source.last_success_at is not None
        or source.failing_since is not None
        or source.consecutive_failures > 0
    )


async def _with_evidence(
    store: Store, sources: Sequence[Source], found: Mapping[str, tuple[Suggestion, ...]]
) -> Mapping[str, tuple[Suggestion, ...]]:
    """Suggestions with what is known now: polls that followed a redirect, sources with that URL."""
    urls: dict[str, set[str]] = {}  # by podcast
    for source in sources:
        for one in found.get(source.id, ()):
            if "url" in one.detail:
                spellings = url_spellings(one.detail["url"], source.type)
                urls.setdefault(source.podcast_id, set()).update(spellings)
    watched = {id_: await store.sources.watched_urls(id_, some) for id_, some in urls.items()}
    return {
        source.id: tuple(
            _shown_suggestion(source, one, watched.get(source.podcast_id, {}))
            for one in found[source.id]
        )
        for source in sources
        if source.id in found
    }


def _shown_suggestion(
    source: Source, suggestion: Suggestion, watched: Mapping[str, str]
) -> Suggestion:
    detail, redirect = dict(suggestion.detail), source.redirect
    if "url" not in detail:
        return suggestion
    if redirect is not None and redirect.url == detail["url"]:
        detail |= {"since": redirect.since, "polls": redirect.polls}
    others = (watched.get(url) for url in url_spellings(detail["url"], source.type))
    detail["duplicate_of"] = next((id_ for id_ in others if id_ not in (None, source.id)), None)
    return replace(suggestion, detail=detail)


def _moved_from(source: Source, made: Sequence[Suggestion], now: datetime) -> MovedFrom | None:
    """The last accepted change of the URL, unless it is long ago or the URL changed since."""
    found = [
        MovedFrom(one.id, one.previous_url, one.accepted_at)
        for one in made
        if one.accepted_at is not None
        and one.previous_url is not None
        and one.detail.get("url") == source.url
        and now - one.accepted_at < _UNDO_OFFERED
    ]
    return max(found, key=lambda one: one.at, default=None)


def _view(
    source: Source,
    state: HostState,
    related: _Related,
    polled_at: datetime | None,
    now: datetime,
    policy: Policy,
) -> SourceView:
    posts, articles, suggestions, stats = related
    made = suggestions.get(source.id, ())
    is_open = tuple(one for one in made if one.accepted_at is None)
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
        suggestions=is_open,
        moved_to=next((s.detail["url"] for s in is_open if s.kind is SuggestionKind.MOVE), None),
        moved_from=_moved_from(source, made, now),
        filter_stats=stats[source.id],
    )
