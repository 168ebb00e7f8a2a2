"""The host pages: lanes that run now, and the last responses of a host."""

from contextlib import suppress
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from headwater.api.middleware.authentication import caller_of
from headwater.api.schemas.pagination import cursor_for, id_in
from headwater.errors import NotFound
from headwater.operations.host_views import MOST_SOURCES, HostReader
from headwater.operations.service_status import scheduler_view
from headwater.rules.health import health_of
from headwater.rules.urls import url_host
from headwater.web.rendering import AnyPage, DashboardPage

_PAGE = 50
_LANES_SHOWN = 24
_MAX_NAME = 300
routes = APIRouter(prefix="/hosts", include_in_schema=False)


@routes.get("")
async def list_hosts(page: AnyPage, cursor: str | None = None, host: str = "") -> Response:
    """Show the lanes that run now, and all hosts by name."""
    seen, now, wanted = _reader(page), page.app.clock.now(), host.strip()
    if wanted:  # a name or URL
        with suppress(NotFound):
            name = url_host(wanted) or wanted.rstrip("/")
            found_host = (await seen.card(name, now=now)).view.host
            return RedirectResponse(f"/hosts/{quote(found_host, safe='')}", status_code=303)
    busy = [] if cursor else await seen.busy(_LANES_SHOWN, now=now)
    busy = sorted(busy, key=lambda view: view.host)  # a stable order while the page updates
    found = await seen.page(_PAGE + 1, after=id_in(cursor) or "", now=now)
    views = found[:_PAGE]
    more = cursor_for((views[-1].host,)) if len(found) > _PAGE else None
    return page.show(
        "hosts.html",
        busy=busy,
        views=views,
        causes=await seen.causes([*busy, *views]),
        scheduler=scheduler_view(page.service) if page.context.is_admin else None,
        wanted=wanted,
        cursor=cursor,
        next_url=f"/hosts?{urlencode({'cursor': more})}" if more else None,
    )


@routes.get("/{host}")
async def show_host(page: AnyPage, host: str) -> Response:
    """Show a host: its lane, its sources, its last responses."""
    if len(host) > _MAX_NAME:
        raise NotFound(f"there is no host {host[:_MAX_NAME]!r} among the sources")
    seen = _reader(page)
    card = await seen.card(host, now=page.app.clock.now())
    sources = await seen.sources(card.view.host)
    counts = await seen.counts_by_podcast(card.view.host)
    names = {podcast.id: podcast.name for podcast in page.context.podcasts}
    return page.show(
        "host.html",
        view=card.view,
        answers=card.answers,
        causes=await seen.causes([card.view]),
        sources=sources,
        health_of=health_of,
        answering=await page.store.sources.known(answer.source_id for answer in card.answers),
        podcasts=[(p, names.get(p, "another podcast"), n) for p, n in counts.items()],
        is_cut=card.view.sources > MOST_SOURCES,
    )


def _reader(page: DashboardPage) -> HostReader:
    owner = caller_of(page.request).user_id
    return HostReader(page.store, page.service, page.app.policy, owner)
