"""Creates the API application: routes, error handlers, middleware."""

from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI
from pydantic.alias_generators import to_camel
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater import __version__
from headwater.api import openapi, problems
from headwater.api.dependencies import check_parameters
from headwater.api.docs_page import docs_routes
from headwater.api.events.event_log import EventLimits, EventLog
from headwater.api.events.event_stream import StreamLimits
from headwater.api.middleware.authentication import FOR_PROGRAMS, Authentication
from headwater.api.middleware.body_limit import BodyLimit
from headwater.api.middleware.client_address import client_address
from headwater.api.middleware.failed_logins import FailedLogins
from headwater.api.middleware.idempotency import Idempotency
from headwater.api.middleware.origin_guard import OriginGuard
from headwater.api.middleware.request_priority import request_priority
from headwater.api.middleware.request_tracking import RequestTracking
from headwater.api.middleware.security_headers import security_headers
from headwater.api.routes import (
    across_users,
    articles,
    audit,
    events,
    feeds,
    filters,
    hosts,
    incidents,
    notices,
    opml,
    podcasts,
    polling,
    posts,
    scheduler,
    searches,
    sources,
    tokens,
    users,
    webhooks,
)
from headwater.api.routes.health import health_routes
from headwater.api.routes.metrics import metrics_routes
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.http_metrics import HttpMetrics
from headwater.operations.metric_families import Family, measure
from headwater.operations.service_status import StatusCache
from headwater.rules.addresses import is_loopback

_ROUTERS = (
    events.routes,
    users.routes,
    tokens.routes,
    audit.routes,
    across_users.podcast_routes,
    across_users.source_routes,
    podcasts.routes,
    sources.routes,
    filters.routes,
    polling.routes,
    hosts.routes,
    incidents.routes,
    scheduler.routes,
    posts.routes,
    articles.routes,
    articles.batch_routes,
    opml.routes,
    feeds.routes,
    searches.routes,
    notices.routes,
    webhooks.routes,
    webhooks.routes_for_all,
)


class _TrackedApi(FastAPI):
    """An application whose every response is tracked, those to unexpected errors included."""

    http_metrics: HttpMetrics

    def build_middleware_stack(self) -> ASGIApp:
        """All middleware; FastAPI's own response to an unexpected error passes no other."""
        app: App = self.state.app
        access_log = app.settings.server.access_log
        inner = super().build_middleware_stack()
        return RequestTracking(inner, self.http_metrics, app.clock, access_log)


def create_api(
    app: App,
    service: Service,
    *,
    event_limits: EventLimits | None = None,
    stream_limits: StreamLimits | None = None,
) -> FastAPI:
    """The API of a running service."""
    api = _TrackedApi(
        title="Headwater",
        version=__version__,
        summary="Polls feeds, web pages and X timelines and stores their posts.",
        description=openapi.DESCRIPTION,
        license_info={"name": "MIT", "identifier": "MIT"},
        openapi_tags=[{"name": name, "description": text} for name, text in openapi.TAGS.items()],
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's pages load scripts from another host (U4)
        redoc_url=None,
        dependencies=[Depends(check_parameters)],
        redirect_slashes=False,
        generate_unique_id_function=lambda route: to_camel(route.name),
    )
    limits = app.settings.limits
    event_log = EventLog(
        service.events,
        app.clock,
        event_limits,
        most_streams_per_user=limits.max_event_streams_per_user,
    )
    api.state.app, api.state.service, api.state.event_log = app, service, event_log
    api.state.stream_limits = stream_limits or StreamLimits()
    api.http_metrics = HttpMetrics()
    problems.install(api)
    openapi.install(api, max_page_size=limits.max_page_size)
    for routes in (
        health_routes(app, service),
        metrics_routes(_measurement(app, service, event_log, api.http_metrics)),
        *_ROUTERS,
        docs_routes(),
    ):
        api.include_router(routes)
    _add_middleware(api, app)
    return api


def _measurement(
    app: App, service: Service, event_log: EventLog, http: HttpMetrics
) -> Callable[[], Awaitable[list[Family]]]:
    """What `/metrics` serves."""
    tick_seconds = app.settings.source.tick_seconds
    status = StatusCache(app.store, app.clock, app.policy, tick_seconds)

    async def measured() -> list[Family]:
        streams, now = event_log.open_streams.total(), app.clock.now()
        return await measure(service, app.store, status, http=http, event_streams=streams, now=now)

    return measured


def _add_middleware(api: FastAPI, app: App) -> None:
    server = app.settings.server
    api.state.failed_logins = failed_logins = FailedLogins(app.clock, app.store.audit)
    # the last one added is the first to handle a request
    api.add_middleware(head_as_get)
    api.add_middleware(Idempotency, store=app.store, clock=app.clock)
    api.add_middleware(request_priority, database=app.store.database)
    api.add_middleware(BodyLimit, most=app.settings.limits.max_request_bytes)
    api.add_middleware(
        Authentication,
        program=app,
        failed_logins=failed_logins,
        on_loopback=is_loopback(server.host),
    )
    api.add_middleware(OriginGuard, names=(server.host, *server.allowed_hosts))
    api.add_middleware(security_headers)
    api.add_middleware(client_address, trusted_proxies=server.trusted_proxies)


def head_as_get(app: ASGIApp) -> ASGIApp:
    """Handle HEAD on the API as GET; the server omits the body."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        is_endless = path == problems.EVENTS_PATH
        if scope["method"] == "HEAD" and path.startswith(FOR_PROGRAMS) and not is_endless:
            as_get = {**scope, "method": "GET"}  # a copy: the server omits the body of a HEAD
            await app(as_get, receive, send)
            scope["route"] = as_get.get("route")
            return
        await app(scope, receive, send)

    return respond
