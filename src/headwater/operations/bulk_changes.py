"""Batches: one action for many sources, chosen by their ids or by a filter."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial

from headwater.clock import Clock
from headwater.errors import NotFound, TooMany, UsageError
from headwater.model import Source
from headwater.operations.filters import apply_changed_filters, changes_filters
from headwater.operations.rate_limits import POLL_SECONDS
from headwater.operations.sources import (
    Pollable,
    edited_as,
    remove_sources,
    requests_poll,
    shown_changes,
)
from headwater.source_settings import SettingValues
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.sources import BatchCounts, Position, SourceFilter

_PER_TRANSACTION = 250  # other writers wait for a transaction, so it must be short


class BatchAction(StrEnum):
    """An action for many sources."""

    ENABLE = "enable"
    DISABLE = "disable"
    DELETE = "delete"
    POLL = "poll"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Batch:
    """An action, and the sources it is for: these ids, or those that match a filter."""

    action: BatchAction
    ids: Sequence[str] | None = None
    wanted: SourceFilter | None = None
    changes: SettingValues | None = None  # of an update


async def run_batch(
    store: Store, podcast_id: str, batch: Batch, clock: Clock, *, pollable: Pollable | None = None
) -> BatchCounts:
    """Run a batch, some sources per transaction; each changes as by a single edit (F5).

    Only `pollable` sources are polled: others are edited without the request for a poll, and if a
    batch that polls has no other ones, it raises TooMany (Y8).
    """
    _refuse_contradictions(batch)
    wanted = replace(batch.wanted or SourceFilter(), podcast_id=podcast_id)
    total = BatchCounts()
    _describe(batch, podcast_id, total)
    async for ids in _pages_of_ids(store, wanted, batch.ids):
        # the time of this transaction: new requests are looked up by their time (S9)
        if batch.action is BatchAction.POLL:
            allowed = ids if pollable is None else pollable(ids)
            total += await _request_page(store, wanted, ids, allowed, clock.now())
        else:
            total += await _run_page(store, batch, wanted, ids, clock.now(), pollable)
        _describe(batch, podcast_id, total)  # a later page may fail
    if batch.changes is not None and changes_filters(batch.changes):
        await apply_changed_filters(store, clock.now())
    if batch.action is BatchAction.POLL and total.matched and not total.requested:
        raise TooMany(f"a source can be polled manually once in {POLL_SECONDS} seconds")
    return total


def _describe(batch: Batch, podcast_id: str, counts: BatchCounts) -> None:
    """Describe a batch for the audit log, with the number of sources so far."""
    changes = {} if batch.changes is None else shown_changes(batch.changes)
    sources = counts.matched or None
    describe(f"sources.{batch.action}", f"podcast {podcast_id}", sources=sources, **changes)


def _refuse_contradictions(batch: Batch) -> None:
    if (batch.ids is None) == (batch.wanted is None):
        raise UsageError("name the sources by either ids or filter", field="ids")
    updates = batch.action is BatchAction.UPDATE
    if updates and not batch.changes:
        raise UsageError("an update needs settings in set", field="set")
    if not updates and batch.changes is not None:
        raise UsageError(f"only an update takes set, not {batch.action.value!r}", field="set")


async def _run_page(
    store: Store,
    batch: Batch,
    wanted: SourceFilter,
    ids: Sequence[str],
    now: datetime,
    pollable: Pollable | None,
) -> BatchCounts:
    """Apply the action to some sources; those that no longer match are skipped."""
    match batch.action:
        case BatchAction.DELETE:
            return await remove_sources(store, wanted, ids)
        case BatchAction.ENABLE | BatchAction.DISABLE:
            changes: SettingValues = {"enabled": batch.action is BatchAction.ENABLE}
        case _:
            changes = batch.changes or {}
    change = partial(edited_as, changes, now)
    refused = set[str]() if pollable is None else await _refused(store, ids, change, pollable)

    def limited(before: Source) -> Source:
        after = change(before)
        if before.id in refused:
            return replace(after, requested_at=before.requested_at)
        return after

    return await store.sources.edit_many(wanted, ids, limited)


async def _refused(
    store: Store, ids: Sequence[str], change: Callable[[Source], Source], pollable: Pollable
) -> set[str]:
    """The given sources whose polls an edit would request too soon."""
    requested = []
    for id_ in ids:
        with suppress(NotFound):  # removed meanwhile
            before = await store.sources.get(id_)
            if requests_poll(before, change(before)):
                requested.append(id_)
    return set(requested).difference(pollable(requested))


async def _request_page(
    store: Store,
    wanted: SourceFilter,
    ids: Sequence[str],
    pollable: Sequence[str],
    now: datetime,
) -> BatchCounts:
    """Request polls of the pollable ones of these sources; the others match, but do not change."""
    refused = BatchCounts(len(ids) - len(pollable))
    if not pollable:  # no transaction: a refused request has no effect and no audit entry
        return refused
    return refused + await store.sources.request_many(wanted, pollable, now)


async def _pages_of_ids(
    store: Store, wanted: SourceFilter, named: Sequence[str] | None
) -> AsyncIterator[Sequence[str]]:
    """Yield the ids of the batch in pages, each id once."""
    if named is None:
        after: Position | None = None
        while page := await store.sources.positions(wanted, limit=_PER_TRANSACTION, after=after):
            yield [id_ for _, id_ in page]
            after = page[-1]
        return
    ids = list(dict.fromkeys(named))
    pages = [
        ids[first : first + _PER_TRANSACTION] for first in range(0, len(ids), _PER_TRANSACTION)
    ]
    for page_of_ids in pages:  # nothing is changed if one id is unknown (U2)
        unknown = await store.sources.first_unknown(wanted.podcast_id or "", page_of_ids)
        if unknown is not None:
            raise NotFound(f"there is no source {unknown}")
    for page_of_ids in pages:
        yield page_of_ids
