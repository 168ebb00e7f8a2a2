"""Adds the dashboard to the API's application."""

from fastapi import APIRouter, FastAPI

from headwater.app import App
from headwater.engine.events import EventKind
from headwater.engine.service import Service
from headwater.web.accounts import account_routes
from headwater.web.adding import adding_routes
from headwater.web.content import content_routes
from headwater.web.error_pages import told_as_page
from headwater.web.hosts import host_page_routes
from headwater.web.importing import import_routes
from headwater.web.login import login_routes
from headwater.web.overview import overview_routes
from headwater.web.rendering import Pages
from headwater.web.source import source_page_routes
from headwater.web.sources import source_list_routes
from headwater.web.static_files import static_routes


def add_pages(api: FastAPI, app: App, service: Service) -> None:
    """Serve the dashboard beside the API, behind the same guards."""
    pages = Pages(app, service)
    service.events.listen(service.timeline.hear, (EventKind.POLL_STARTED, EventKind.POLL_FINISHED))
    for routes in screens(app, service, pages):
        api.include_router(routes)
    for kind, handler in list(api.exception_handlers.items()):
        api.exception_handlers[kind] = told_as_page(app.store, pages, handler)


def screens(app: App, service: Service, pages: Pages) -> tuple[APIRouter, ...]:
    """The routes of every screen."""
    return (
        static_routes(),
        login_routes(app, pages),
        host_page_routes(app, service, pages),
        content_routes(app, pages),
        account_routes(app, pages),
        overview_routes(app, service, pages),
        adding_routes(app, service, pages),
        import_routes(app, pages),
        source_list_routes(app, service, pages),
        source_page_routes(app, service, pages),
    )
