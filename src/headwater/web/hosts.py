"""Hosts: their lanes as they run, and how they answer."""

from datetime import datetime
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.callers import caller_of
from headwater.api.pages import cursor_for, id_in
from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import NotFound
from headwater.operations.hosts import MOST_SOURCES, HostsSeen
from headwater.operations.scheduler import scheduler_view
from headwater.rules.health import health_of
from headwater.rules.urls import url_host
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages

_PAGE = 50
_LANES_SHOWN = 24
_LONGEST_NAME = 300


def host_page_routes(app: App, service: Service, pages: Pages) -> APIRouter:
    """`/hosts`."""
    routes = APIRouter(prefix="/hosts", include_in_schema=False)

    def seen_by(request: Request) -> HostsSeen:
        return HostsSeen(app.store, service, app.policy, caller_of(request).user_id)

    @routes.get("")
    async def list_hosts(
        request: Request,
        cursor: str | None = None,
        host: str = "",
    ) -> Response:
        """Show the lanes that run now, and every host by its name."""
        place = await place_of(app.store, request)
        seen, now = seen_by(request), app.clock.now()
        known = await _known(seen, host, now) if host.strip() else None
        if known is not None:
            return RedirectResponse(f"/hosts/{quote(known, safe='')}", status_code=303)
        busy = [] if cursor else await seen.busy(_LANES_SHOWN, now=now)
        busy = sorted(busy, key=lambda view: view.host)  # whoever looks on finds each in its place
        found = await seen.page(_PAGE + 1, after=id_in(cursor) or "", now=now)
        views = found[:_PAGE]
        more = cursor_for((views[-1].host,)) if len(found) > _PAGE else None
        return pages.show(
            request,
            "hosts.html",
            place,
            busy=busy,
            views=views,
            causes=await seen.causes([*busy, *views]),
            scheduler=scheduler_view(service) if place.is_admin else None,
            wanted=host.strip(),
            cursor=cursor,
            next_url=f"/hosts?{urlencode({'cursor': more})}" if more else None,
        )

    @routes.get("/{host}")
    async def show_host(request: Request, host: str) -> Response:
        """Show one host: its lane, its sources, its last answers."""
        if len(host) > _LONGEST_NAME:
            raise NotFound(f"there is no host {host[:_LONGEST_NAME]!r} among the sources")
        place = await place_of(app.store, request)
        seen = seen_by(request)
        card = await seen.card(host, now=app.clock.now())
        sources = await seen.sources(card.view.host)
        counts = await seen.counts_by_podcast(card.view.host)
        return pages.show(
            request,
            "host.html",
            place,
            view=card.view,
            answers=card.answers,
            causes=await seen.causes([card.view]),
            sources=sources,
            health_of=health_of,
            answering=await app.store.sources.known(answer.source_id for answer in card.answers),
            podcasts=_named(place, counts),
            is_cut=card.view.sources > MOST_SOURCES,
        )

    return routes


async def _known(seen: HostsSeen, text: str, now: datetime) -> str | None:
    """The host that somebody typed, or that of a URL they pasted, if anything is watched there."""
    name = url_host(text.strip()) or text.strip().rstrip("/")
    try:
        return (await seen.card(name, now=now)).view.host
    except NotFound:
        return None


def _named(place: Place, counts: dict[str, int]) -> list[tuple[str, str, int]]:
    """Podcasts with sources on a host, by id and name, and how many each has."""
    names = {podcast.id: podcast.name for podcast in place.podcasts}
    return [(id_, names.get(id_, "another podcast"), count) for id_, count in counts.items()]
