"""What a worker serves on `app.worker.port`: `/health`, `/ready` and `/metrics`."""

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from headwater import __version__
from headwater.api import problems
from headwater.api.middleware.authentication import Authentication
from headwater.api.middleware.failed_logins import FailedLogins
from headwater.api.middleware.origin_guard import OriginGuard
from headwater.api.problems import problem
from headwater.api.routes.health import ReadinessReport
from headwater.api.routes.metrics import metrics_routes
from headwater.api.schemas.service_outputs import ReadinessOut
from headwater.app import App
from headwater.engine.cluster.worker import ClusterWorker
from headwater.operations.metric_families import Family, measure_worker
from headwater.operations.readiness import worker_readiness
from headwater.rules.addresses import is_loopback
from headwater.settings import Settings


class WorkerEndpoints:
    """The endpoints of a worker; they respond also while it has no connection to its database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._unconnected = self._api = _unconnected_api(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        await self._api(scope, receive, send)

    @contextmanager
    def connected(self, app: App, worker: ClusterWorker) -> Iterator[None]:
        """Serve readiness and metrics of a running worker."""
        self._api = _connected_api(self._settings, app, worker)
        try:
            yield
        finally:
            self._api = self._unconnected


def _unconnected_api(settings: Settings) -> FastAPI:
    api = _api(settings)

    async def refuse() -> JSONResponse:
        return problem(503, "not ready: this worker is not connected to the database")

    for path in ("/ready", "/metrics"):
        api.add_api_route(path, refuse)
    return api


def _connected_api(settings: Settings, app: App, worker: ClusterWorker) -> FastAPI:
    api = _api(settings)
    report = ReadinessReport(lambda: worker_readiness(app.store, worker))
    api.add_api_route("/ready", report.response, response_model=ReadinessOut)

    async def measured() -> list[Family]:
        return measure_worker(worker, app.store)

    with_token = FastAPI(openapi_url=None)
    problems.install(with_token)
    with_token.include_router(metrics_routes(measured))
    with_token.add_middleware(
        Authentication,
        program=app,
        failed_logins=FailedLogins(app.clock, app.store.audit),
        on_loopback=is_loopback(settings.worker.host),
    )
    api.mount("", with_token)  # last: it takes every other path
    return api


def _api(settings: Settings) -> FastAPI:
    """An API with `/health`: the event loop responds."""
    api = FastAPI(openapi_url=None)
    problems.install(api)

    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    api.add_api_route("/health", health)
    if is_loopback(settings.worker.host):  # elsewhere metrics need a token, the rest is public
        api.add_middleware(OriginGuard, names=(settings.worker.host,))
    return api
