"""Deleting sources in bites, so that nobody else waits for the database for long."""

from collections.abc import Iterator, Mapping, Sequence

from headwater.store import Store
from headwater.store.removals import ROWS_PER_BITE
from headwater.store.sources import SourceFilter, Tally

_PAGE = 100
_ROWS_AT_ONCE = ROWS_PER_BITE - 1  # of all tables; what has more goes alone
_OWN_WEIGHT = 20  # a source by itself, with its indexes, in rows


async def remove_sources(store: Store, wanted: SourceFilter, ids: Sequence[str]) -> Tally:
    """Delete those of these sources that still fit, with all that belongs to them."""
    weights = await store.sources.weights(ids)
    total = Tally()
    for bite in _bites(ids, weights):
        total += await store.sources.remove_many(wanted, bite)
    return total


async def remove_all_sources(store: Store, podcast_id: str) -> None:
    """Delete every source of a podcast."""
    wanted = SourceFilter(podcast_id=podcast_id)
    while page := await store.sources.ids(wanted, limit=_PAGE):
        await remove_sources(store, wanted, [id_ for _, id_ in page])


def _bites(ids: Sequence[str], weights: Mapping[str, int]) -> Iterator[list[str]]:
    """The ids in order, cut so that what belongs to them fits into a bite."""
    bite: list[str] = []
    weight = 0
    for id_ in ids:
        own = _OWN_WEIGHT + weights.get(id_, 0)
        if bite and weight + own > _ROWS_AT_ONCE:
            yield bite
            bite, weight = [], 0
        bite.append(id_)
        weight += own
    if bite:
        yield bite
