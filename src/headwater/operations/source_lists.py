"""A podcast's sources as a list to look through: in some order, with their last polls."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.model import Podcast
from headwater.operations.overview import SourceCard, views
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.source_orders import INDEXED_ORDERS, Listing, Place, SourceOrder
from headwater.store.sources import SourceFilter

MANY = 10_000  # more are neither counted nor sorted while somebody waits
POLLS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants to see of a list."""

    wanted: SourceFilter
    order: SourceOrder = SourceOrder.NEWEST
    after: Place | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class SourceList:
    """A page of a list, and what there is to know about the whole."""

    cards: Sequence[SourceCard]
    next: Place | None
    order: SourceOrder  # in which it is
    orders: Sequence[SourceOrder]  # in which it can be
    total: int | None  # how many fit; None: more than are counted
    is_empty: bool  # the podcast has no source at all


async def source_list(
    store: Store, podcast: Podcast, request: Request, now: datetime, policy: Policy
) -> SourceList:
    """A page of a podcast's sources; the cost of it does not follow their number."""
    everything = SourceFilter(podcast_id=podcast.id)
    there = await store.sources.count_up_to(everything, MANY + 1)
    many = there > MANY
    orders = INDEXED_ORDERS if many else tuple(SourceOrder)
    order = request.order if request.order in orders else SourceOrder.NEWEST
    listing = await store.sources.page(
        request.wanted,
        order,
        limit=request.limit,
        after=request.after if order is request.order else None,
        many=many,
    )
    total = None
    if not many:
        total = there if request.wanted == everything else await _total(store, request, listing)
    cards = await _cards(store, podcast, listing, now, policy)
    return SourceList(cards, listing.next, order, orders, total, there == 0)


async def _total(store: Store, request: Request, listing: Listing) -> int:
    """How many sources fit, of which a page is known: a list of one page counts itself."""
    if request.after is None and listing.next is None:
        return len(listing.sources)
    return await store.sources.count_up_to(request.wanted, MANY)


async def how_many(store: Store, wanted: SourceFilter) -> int | None:
    """How many sources fit; None: more than are counted."""
    counted = await store.sources.count_up_to(wanted, MANY + 1)
    return None if counted > MANY else counted


async def _cards(
    store: Store, podcast: Podcast, listing: Listing, now: datetime, policy: Policy
) -> list[SourceCard]:
    found = await views(store, podcast.user_id, listing.sources, now, policy)
    ids = [source.id for source in listing.sources]
    polls = await store.polls.newest_of_each(ids, limit=POLLS_SHOWN) if ids else {}
    return [SourceCard(view, tuple(polls[view.source.id])) for view in found]
