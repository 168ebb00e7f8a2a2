"""The list of a podcast's sources, with actions on many at once (U2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from headwater.errors import NotFound, TooMany, UsageError
from headwater.model import Source
from headwater.operations import source_views
from headwater.operations.bulk_changes import Batch, BatchAction, run_batch
from headwater.rules.text_checks import is_one_line
from headwater.source_settings import SETTINGS
from headwater.store import Store
from headwater.store.sources import SourceFilter
from headwater.web.forms import fields_of, one
from headwater.web.humanize import sentence
from headwater.web.rendering import DashboardPage, PodcastPage, done
from headwater.web.source_list_query import (
    ORDER_LABELS,
    STATE_LABELS,
    TYPE_LABELS,
    ListQuery,
    read_list_query,
)

_INTERVAL = "poll_interval_minutes"
_NAMED = 5  # sources that a confirmation names
_GONE = "One of these sources was deleted meanwhile, so nothing was done. Check the list again."
_STATUSES: dict[type[UsageError], int] = {NotFound: 404, TooMany: 429}
# the notice after each action
_NOTICES = {
    BatchAction.ENABLE: "sources-enabled",
    BatchAction.DISABLE: "sources-disabled",
    BatchAction.POLL: "sources-requested",
    BatchAction.UPDATE: "sources-interval",
    BatchAction.DELETE: "sources-deleted",
}


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """The action that a form requests."""

    action: BatchAction
    ids: Sequence[str]
    is_for_all: bool  # all that match the filter, instead of the checked ones
    minutes: str
    is_confirmed: bool

    @property
    def needs_confirmation(self) -> bool:
        """Whether to ask for confirmation: the action cannot be undone, or affects all."""
        return (self.action is BatchAction.DELETE or self.is_for_all) and not self.is_confirmed


routes = APIRouter(prefix="/podcasts/{p}/sources", include_in_schema=False)


@routes.get("")
async def list_sources(page: PodcastPage) -> Response:
    """Show the sources that match."""
    return await _list(page, read_list_query(page.request.url.path, page.request.query_params))


@routes.post("")
async def act(page: PodcastPage) -> Response:
    """Run an action on the chosen sources, after confirmation where it cannot be undone."""
    query = read_list_query(page.request.url.path, page.request.query_params)
    fields = await fields_of(page.request)
    wanted = query.wanted(page.podcast.id)
    try:
        bulk = _read_bulk_request(fields, query)
        batch = _batch_for(bulk, wanted)
        if bulk.needs_confirmation:
            named, number = await _affected_sources(page.store, bulk, wanted)
            content: dict[str, Any] = {"query": query, "bulk": bulk, "many": source_views.MANY}
            return page.show("sources_confirm.html", named=named, number=number, **content)
        counts = await run_batch(
            page.store,
            page.podcast.id,
            batch,
            page.app.clock,
            pollable=page.app.visit_limits.pollable_for(page.caller_id),
        )
    except UsageError as error:
        gone = isinstance(error, NotFound)
        return await _list(
            page,
            query,
            status=_STATUSES.get(type(error), 422),
            error=_GONE if gone else sentence(error),
            error_field=error.field,
            chosen=frozenset(fields.get("id", [])),
            fields=fields,
        )
    notice = _NOTICES[bulk.action] if counts.changed else "sources-unchanged"
    return done(query.url, notice, counts.changed or None)


async def _list(page: DashboardPage, query: ListQuery, **more: Any) -> Response:
    app, wanted = page.app, query.wanted(page.podcast.id)
    order, after = query.sort, query.after
    found = await source_views.source_list(
        app.store, page.podcast, wanted, app.clock.now(), app.policy, order=order, after=after
    )
    content: dict[str, Any] = {"chosen": (), "fields": {}, "error": None, "error_field": None}
    return page.show(
        "sources.html",
        query=query,
        found=found,
        next_url=query.page_at(found.next, found.order),
        polling=page.service.lanes.running_since().keys(),
        many=source_views.MANY,
        type_labels=TYPE_LABELS,
        state_labels=STATE_LABELS,
        order_labels=ORDER_LABELS,
        **content | more,
    )


def _read_bulk_request(fields: Mapping[str, list[str]], query: ListQuery) -> BulkRequest:
    """Return the action of a form; a UsageError has a message for the user."""
    try:
        action = BatchAction(one(fields, "action"))
    except ValueError as error:
        raise UsageError("Choose an action.", field="action") from error
    is_for_all = one(fields, "scope") == "matching"
    if is_for_all and query.has_errors:  # an ignored filter would match more
        raise UsageError("The filter cannot be understood. Set it again.", field="scope")
    ids = fields.get("id", [])
    if not all(is_one_line(id_) for id_ in ids):
        raise NotFound("there is no such source")
    if not is_for_all and not ids:
        raise UsageError("Check some sources first, or choose all that match.", field="ids")
    is_confirmed = one(fields, "sure") == "yes"
    return BulkRequest(action, ids, is_for_all, one(fields, "minutes"), is_confirmed)


def _batch_for(bulk: BulkRequest, wanted: SourceFilter) -> Batch:
    changes = None
    if bulk.action is BatchAction.UPDATE:
        text, least, most = bulk.minutes, SETTINGS[_INTERVAL].minimum, SETTINGS[_INTERVAL].maximum
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        if number is None or not least <= number <= most:
            message = f"Give the interval in whole minutes, from {least:,} to {most:,}."
            raise UsageError(message, field="minutes")
        changes = {_INTERVAL: number}
    if bulk.is_for_all:
        return Batch(bulk.action, wanted=wanted, changes=changes)
    return Batch(bulk.action, ids=bulk.ids, changes=changes)


async def _affected_sources(
    store: Store, bulk: BulkRequest, wanted: SourceFilter
) -> tuple[Sequence[Source], int | None]:
    """Return some of the affected sources, and the number of all."""
    if bulk.is_for_all:
        page = await store.sources.find(wanted, limit=_NAMED)
        if len(page) < _NAMED:  # that is all of them
            return page, len(page)
        return page, await source_views.count_sources(store, wanted)
    unknown = await store.sources.first_unknown(wanted.podcast_id or "", bulk.ids)
    if unknown is not None:
        raise NotFound(f"there is no source {unknown}")
    ids = list(dict.fromkeys(bulk.ids))
    return [await store.sources.get(id_) for id_ in ids[:_NAMED]], len(ids)
