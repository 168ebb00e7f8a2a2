"""One thing done to many sources: to some by their ids, or to all that the list's filters find."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from headwater.clock import Clock
from headwater.errors import NotFound, UsageError
from headwater.operations.removals import remove_sources
from headwater.operations.sources import edited_as
from headwater.store import Store
from headwater.store.sources import Position, SourceFilter, Tally

# A bite is one transaction: whoever else wants to write waits for it, and each has its price.
_BITE = 250


class BatchAction(StrEnum):
    """What can be done to many sources."""

    ENABLE = "enable"
    DISABLE = "disable"
    DELETE = "delete"
    POLL = "poll"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Batch:
    """What shall be done to which sources: those named, or those that fit."""

    action: BatchAction
    ids: Sequence[str] | None = None
    wanted: SourceFilter | None = None
    changes: Mapping[str, Any] | None = None  # of an update


async def run_batch(store: Store, podcast_id: str, batch: Batch, clock: Clock) -> Tally:
    """Do it bite by bite; every source changes by the rules of a single edit (F5)."""
    _refuse_contradictions(batch)
    wanted = replace(batch.wanted or SourceFilter(), podcast_id=podcast_id)
    total = Tally()
    async for ids in _those(store, wanted, batch.ids):
        # as of this bite: requests are looked for soon after they were made (S9)
        total += await _do(store, batch, wanted, ids, clock.now())
    return total


def _refuse_contradictions(batch: Batch) -> None:
    if (batch.ids is None) == (batch.wanted is None):
        raise UsageError("say which sources: either ids or filter", field="ids")
    updates = batch.action is BatchAction.UPDATE
    if updates and not batch.changes:
        raise UsageError("an update needs something to set", field="set")
    if not updates and batch.changes is not None:
        raise UsageError(f"there is nothing to set for {batch.action.value!r}", field="set")


async def _do(
    store: Store, batch: Batch, wanted: SourceFilter, ids: Sequence[str], now: datetime
) -> Tally:
    """Do it to one bite; whatever does not fit any more by then is left alone."""
    match batch.action:
        case BatchAction.DELETE:
            return await remove_sources(store, wanted, ids)
        case BatchAction.POLL:
            return await store.sources.request_many(wanted, ids, now)
        case BatchAction.ENABLE | BatchAction.DISABLE:
            changes: Mapping[str, Any] = {"enabled": batch.action is BatchAction.ENABLE}
        case BatchAction.UPDATE:
            changes = batch.changes or {}
    return await store.sources.edit_many(wanted, ids, partial(edited_as, changes, now))


async def _those(
    store: Store, wanted: SourceFilter, named: Sequence[str] | None
) -> AsyncIterator[Sequence[str]]:
    """The ids that are meant, some at a time, each of them once."""
    if named is None:
        after: Position | None = None
        while page := await store.sources.ids(wanted, limit=_BITE, after=after):
            yield [id_ for _, id_ in page]
            after = page[-1]
        return
    ids = list(dict.fromkeys(named))
    pages = [ids[first : first + _BITE] for first in range(0, len(ids), _BITE)]
    for page_of_ids in pages:  # all must be known before anything is done to the first (U2)
        unknown = await store.sources.first_unknown(wanted.podcast_id or "", page_of_ids)
        if unknown is not None:
            raise NotFound(f"there is no source {unknown}")
    for page_of_ids in pages:
        yield page_of_ids
