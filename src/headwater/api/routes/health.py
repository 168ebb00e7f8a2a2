"""Liveness and readiness."""

from collections.abc import Awaitable, Callable, Sequence

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from headwater import __version__, logs
from headwater.api.openapi import documented_router
from headwater.api.problems import problem
from headwater.api.schemas.service_outputs import CheckOut, LivenessOut, ReadinessOut
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.readiness import Check, CheckStatus, readiness, schema_if_known

log = logs.get_logger()
NOT_READY = {"description": "Something needed does not work; `checks` has the reasons."}


def health_routes(app: App, service: Service) -> APIRouter:
    """`/api/health` and `/api/ready`, without a token."""
    routes = documented_router("/api", "operations")
    report = ReadinessReport(
        lambda: readiness(app.settings, app.store, service, app.clock.now()),
    )

    @routes.get("/health")
    async def get_health() -> LivenessOut:
        """Check that the process is alive.

        `schema` is null while the database is not available; the status is 200 nevertheless.
        """
        return LivenessOut(version=__version__, schema=await schema_if_known(app.store))

    @routes.get("/ready", response_model=ReadinessOut, responses={503: NOT_READY})
    async def get_readiness() -> ReadinessOut | JSONResponse:
        """Check that the service works.

        A service that polls is ready while polling works. A server beside workers is ready while
        it can serve requests; its check `workers` reports whether any process polls.
        """
        return await report.response()

    return routes


class ReadinessReport:
    """Runs checks for each request; a failing check is logged once until it passes again."""

    def __init__(self, checks: Callable[[], Awaitable[Sequence[Check]]]) -> None:
        self._checks = checks
        self._failing: set[str] = set()

    async def response(self) -> ReadinessOut | JSONResponse:
        """200 with the results, or 503 if a check fails that is needed."""
        found = await self._checks()
        wrong = {check.name: check for check in found if check.verdict is CheckStatus.WRONG}
        for name in sorted(wrong.keys() - self._failing):
            message = "not ready" if wrong[name].is_needed else "check failed"
            log.warning(message, check=name, why=wrong[name].cause or wrong[name].detail)
        self._failing = set(wrong)
        checks = {check.name: CheckOut.of(check) for check in found}
        needed = [name for name, check in wrong.items() if check.is_needed]
        if not needed:
            return ReadinessOut(checks=checks)
        plain = {name: check.plain() for name, check in checks.items()}
        return problem(503, f"not ready: {', '.join(needed)}", checks=plain)
