"""Puts the API together."""

from fastapi import FastAPI

from headwater import __version__
from headwater.api import problems
from headwater.api.answer_headers import AnswerHeaders
from headwater.api.body_limit import BodyLimit
from headwater.api.callers import Access
from headwater.api.health import health_routes
from headwater.api.server import is_loopback
from headwater.api.site_guard import SiteGuard
from headwater.api.users import user_routes
from headwater.app import App
from headwater.engine.service import Service


def create_api(app: App, service: Service) -> FastAPI:
    """The API of a running service."""
    api = FastAPI(
        title="Headwater",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url="/api/docs",
        redoc_url=None,
    )
    problems.install(api)
    for routes in (health_routes(app, service), user_routes(app)):
        api.include_router(routes)
    server = app.settings.server
    # the last one added is the first to see a request
    api.add_middleware(BodyLimit, most=app.settings.limits.max_request_bytes)
    api.add_middleware(Access, program=app, on_loopback=is_loopback(server.host))
    api.add_middleware(SiteGuard, names=(server.host, *server.allowed_hosts))
    api.add_middleware(AnswerHeaders)
    return api
