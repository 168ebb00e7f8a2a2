"""Puts the API together."""

from fastapi import Depends, FastAPI

from headwater import __version__
from headwater.api import openapi, problems
from headwater.api.answer_headers import AnswerHeaders
from headwater.api.articles import article_routes
from headwater.api.batches import batch_routes
from headwater.api.body_limit import BodyLimit
from headwater.api.callers import Access
from headwater.api.cluster import cluster_routes
from headwater.api.courtesy import Courtesy
from headwater.api.docs_page import docs_routes
from headwater.api.event_log import EventLimits
from headwater.api.events import event_routes, event_streams
from headwater.api.feeds import feed_routes
from headwater.api.head import HeadAsGet
from headwater.api.health import health_routes
from headwater.api.hosts import host_routes
from headwater.api.metrics import metrics_routes
from headwater.api.opml import opml_routes
from headwater.api.parameters import refuse_odd_parameters
from headwater.api.podcasts import podcast_routes
from headwater.api.polling import polling_routes
from headwater.api.posts import post_routes
from headwater.api.scheduler import scheduler_routes
from headwater.api.server import is_loopback
from headwater.api.site_guard import SiteGuard
from headwater.api.sources import source_routes
from headwater.api.users import user_routes
from headwater.app import App
from headwater.engine.service import Service


def create_api(app: App, service: Service, *, event_limits: EventLimits | None = None) -> FastAPI:
    """The API of a running service."""
    api = FastAPI(
        title="Headwater",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # the framework's pages bring scripts from elsewhere (U4)
        redoc_url=None,
        dependencies=[Depends(refuse_odd_parameters)],
        redirect_slashes=False,
        generate_unique_id_function=openapi.operation_id,
    )
    api.state.event_streams = event_streams(app, service.events, event_limits)
    problems.install(api)
    openapi.install(api)
    for routes in (
        health_routes(app, service),
        metrics_routes(app, service, api.state.event_streams),
        event_routes(app, api.state.event_streams),
        user_routes(app),
        podcast_routes(app),
        batch_routes(app),
        source_routes(app),
        polling_routes(app, service),
        host_routes(app, service),
        scheduler_routes(service),
        cluster_routes(app),
        post_routes(app),
        article_routes(app),
        opml_routes(app),
        feed_routes(app),
    ):
        api.include_router(routes)
    api.include_router(docs_routes(api))
    server = app.settings.server
    # the last one added is the first to see a request
    api.add_middleware(HeadAsGet)
    api.add_middleware(Courtesy, database=app.store.database)
    api.add_middleware(BodyLimit, most=app.settings.limits.max_request_bytes)
    api.add_middleware(Access, program=app, on_loopback=is_loopback(server.host))
    api.add_middleware(SiteGuard, names=(server.host, *server.allowed_hosts))
    api.add_middleware(AnswerHeaders)
    return api
