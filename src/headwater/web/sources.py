"""The list of a podcast's sources: look through it, and do something to many at once."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import NotFound, UsageError
from headwater.model import Podcast, Source
from headwater.operations import source_lists
from headwater.operations.batches import BatchAction, run_batch
from headwater.store import Store
from headwater.web.forms import fields_of
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages, done
from headwater.web.source_batches import Wish, batch_for, notice_for, wish_in
from headwater.web.source_query import (
    ORDER_WORDS,
    STATE_WORDS,
    TYPE_WORDS,
    ListQuery,
    query_in,
)

_NAMED = 5  # sources that a question names
_GONE = "One of these sources is gone by now, so nothing was done. Have another look."


def source_list_routes(app: App, service: Service, pages: Pages) -> APIRouter:
    """`/podcasts/{p}/sources`."""
    routes = APIRouter(include_in_schema=False)
    store, clock = app.store, app.clock

    @routes.get("/podcasts/{p}/sources")
    async def look(request: Request, p: str) -> Response:
        """Show the sources that fit."""
        place = await place_of(store, request, p)
        return await shown(request, place, _query(request))

    @routes.post("/podcasts/{p}/sources")
    async def act(request: Request, p: str) -> Response:
        """Do something to those chosen, after a question where it cannot be undone."""
        place = await place_of(store, request, p)
        podcast, query = _podcast(place), _query(request)
        fields = await fields_of(request)
        wanted = query.wanted(podcast.id)
        try:
            wish = wish_in(fields, query)
            batch = batch_for(wish, wanted)
            if wish.needs_consent:
                return await asked(request, place, query, wish)
            tally = await run_batch(store, podcast.id, batch, clock)
        except UsageError as error:
            chosen = frozenset(fields.get("id", []))
            return await shown(request, place, query, error=error, chosen=chosen, fields=fields)
        return done(query.url, notice_for(wish, tally), tally.changed or None)

    async def shown(
        request: Request,
        place: Place,
        query: ListQuery,
        *,
        error: UsageError | None = None,
        **kept: Any,
    ) -> Response:
        podcast = _podcast(place)
        wanted = source_lists.Request(query.wanted(podcast.id), query.sort, query.after)
        found = await source_lists.source_list(store, podcast, wanted, clock.now(), app.policy)
        return pages.show(
            request,
            "sources.html",
            place,
            status=200 if error is None else 404 if isinstance(error, NotFound) else 422,
            query=query,
            found=found,
            next_url=query.page_at(found.next, found.order),
            polling=frozenset(service.lanes.in_flight().values()),
            error=None if error is None else _GONE if isinstance(error, NotFound) else str(error),
            error_field=error.field if error is not None else None,
            **{"chosen": frozenset(), "fields": {}} | kept,
            **_WORDS,
        )

    async def asked(request: Request, place: Place, query: ListQuery, wish: Wish) -> Response:
        named, number = await _meant(store, wish, query, _podcast(place))
        return pages.show(
            request,
            "sources_confirm.html",
            place,
            query=query,
            wish=wish,
            named=named,
            number=number,
            many=source_lists.MANY,
        )

    return routes


_WORDS: dict[str, Any] = {
    "type_words": TYPE_WORDS,
    "state_words": STATE_WORDS,
    "order_words": ORDER_WORDS,
    "actions": BatchAction,
    "many": source_lists.MANY,
}


async def _meant(
    store: Store, wish: Wish, query: ListQuery, podcast: Podcast
) -> tuple[list[Source], int | None]:
    """Some of the sources that are meant, and how many there are."""
    if wish.is_for_all:
        wanted = query.wanted(podcast.id)
        page = await store.sources.find(wanted, limit=_NAMED)
        if len(page) < _NAMED:  # that is all of them
            return list(page), len(page)
        return list(page), await source_lists.how_many(store, wanted)
    unknown = await store.sources.first_unknown(podcast.id, wish.ids)
    if unknown is not None:
        raise NotFound(f"there is no source {unknown}")
    ids = list(dict.fromkeys(wish.ids))
    return [await store.sources.get(id_) for id_ in ids[:_NAMED]], len(ids)


def _query(request: Request) -> ListQuery:
    return query_in(request.url.path, request.query_params)


def _podcast(place: Place) -> Podcast:
    assert place.podcast is not None  # these pages are all of one
    return place.podcast
