"""Puts the API together."""

from fastapi import FastAPI

from headwater import __version__
from headwater.api import problems
from headwater.api.health import health_routes
from headwater.api.host_guard import HostGuard
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
    api.include_router(health_routes(app, service))
    server = app.settings.server
    api.add_middleware(HostGuard, names=(server.host, *server.allowed_hosts))
    return api
