"""Whether the program lives, and whether it can work."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from headwater import __version__
from headwater.api.problems import problem
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.checks import Verdict
from headwater.operations.readiness import readiness


def health_routes(app: App, service: Service) -> APIRouter:
    """`/api/health` and `/api/ready`, open to everybody."""
    routes = APIRouter(prefix="/api", tags=["operations"])

    @routes.get("/health")
    async def health() -> dict[str, Any]:
        """Say that the program lives, and which version and schema it has."""
        schema, _ = await app.store.schema()
        return {"status": "ok", "version": __version__, "schema": schema}

    @routes.get("/ready")
    async def ready() -> JSONResponse:
        """Say whether polling works now, check by check."""
        found = await readiness(app.settings, app.store, service, app.clock.now())
        checks = {c.name: {"ok": c.verdict is not Verdict.WRONG, "detail": c.detail} for c in found}
        wrong = [c.name for c in found if c.verdict is Verdict.WRONG]
        if wrong:
            return problem(503, f"not ready: {', '.join(wrong)}", checks=checks)
        return JSONResponse({"status": "ready", "checks": checks})

    return routes
