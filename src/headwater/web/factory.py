"""Adds the dashboard to the API's application."""

from importlib.resources import files

from fastapi import APIRouter, FastAPI, Response

from headwater.app import App
from headwater.engine.events import EventKind
from headwater.engine.service import Service
from headwater.errors import NotFound
from headwater.web import (
    accounts_page,
    add_source_page,
    articles_page,
    filters_page,
    hosts_page,
    import_page,
    notices_page,
    posts_page,
    source_page,
    sources_page,
    watch_page,
    webhooks_page,
)
from headwater.web.error_pages import as_error_page
from headwater.web.login_page import login_routes
from headwater.web.overview_page import overview_routes

_PAGES = (
    filters_page,
    hosts_page,
    articles_page,
    posts_page,
    accounts_page,
    add_source_page,
    import_page,
    sources_page,
    source_page,
    watch_page,
    webhooks_page,
    notices_page,
)
_MEDIA_TYPES = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "adding.js": "text/javascript; charset=utf-8",
    "filters.js": "text/javascript; charset=utf-8",
    "reading.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_CACHE_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}  # its URL has a hash


def add_pages(api: FastAPI, app: App, service: Service) -> None:
    """Serve the dashboard with the API, behind the same access checks."""
    service.events.listen(service.timeline.on_event, (EventKind.POLL_FINISHED,))
    stateful = (static_routes(), login_routes(app), overview_routes(app, service))
    for routes in (*stateful, *(page.routes for page in _PAGES)):
        api.include_router(routes)
    for kind, handler in list(api.exception_handlers.items()):
        api.exception_handlers[kind] = as_error_page(handler)


def static_routes() -> APIRouter:
    """Return the route of style, scripts and icon."""
    routes = APIRouter(include_in_schema=False)
    folder = files("headwater.web").joinpath("static")
    known = {name: folder.joinpath(name).read_bytes() for name in _MEDIA_TYPES}

    @routes.get("/static/{name}")
    async def static(name: str) -> Response:
        """Return a static file."""
        if name not in known:
            raise NotFound(f"there is no file {name}")
        return Response(known[name], media_type=_MEDIA_TYPES[name], headers=_CACHE_FOREVER)

    return routes
