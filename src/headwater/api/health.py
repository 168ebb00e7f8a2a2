"""Whether the program lives, and whether it can work."""

from collections.abc import Sequence
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater import __version__, logs
from headwater.api.problems import problem
from headwater.api.schemas import Shape
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.checks import Check, Verdict
from headwater.operations.readiness import readiness, schema_if_known

log = logs.get_logger()
_NOT_READY = {"description": "Something is wrong; `checks` says what."}


class LivenessOut(Shape):
    """That the program lives."""

    status: Literal["ok"] = "ok"
    version: str
    schema_version: int | None = Field(alias="schema")  # None: the database does not answer


class CheckOut(Shape):
    """What one check found."""

    ok: bool
    detail: str

    @classmethod
    def of(cls, check: Check) -> "CheckOut":
        """As it is served."""
        return cls(ok=check.verdict is not Verdict.WRONG, detail=check.detail)


class ReadinessOut(Shape):
    """That polling works now."""

    status: Literal["ready"] = "ready"
    checks: dict[str, CheckOut]


def health_routes(app: App, service: Service) -> APIRouter:
    """`/api/health` and `/api/ready`, open to everybody."""
    routes = APIRouter(prefix="/api", tags=["operations"])
    journal = _Journal()

    @routes.get("/health")
    async def health() -> LivenessOut:
        """Say that the program lives, and which version and schema it has.

        The schema is null while the database does not answer: the program lives nonetheless.
        """
        return LivenessOut(version=__version__, schema=await schema_if_known(app.store))

    @routes.get("/ready", response_model=ReadinessOut, responses={503: _NOT_READY})
    async def ready() -> ReadinessOut | JSONResponse:
        """Say whether polling works now, check by check."""
        found = await readiness(app.settings, app.store, service, app.clock.now())
        journal.note(found)
        checks = {check.name: CheckOut.of(check) for check in found}
        wrong = [name for name, check in checks.items() if not check.ok]
        if not wrong:
            return ReadinessOut(checks=checks)
        plain = {name: check.plain() for name, check in checks.items()}
        return problem(503, f"not ready: {', '.join(wrong)}", checks=plain)

    return routes


class _Journal:
    """Tells the log of checks that go wrong, once each time, however often somebody asks."""

    def __init__(self) -> None:
        self._wrong: frozenset[str] = frozenset()

    def note(self, found: Sequence[Check]) -> None:
        """Look at what was found."""
        wrong = {check.name: check for check in found if check.verdict is Verdict.WRONG}
        for name in sorted(wrong.keys() - self._wrong):
            log.warning("not ready", check=name, why=wrong[name].cause or wrong[name].detail)
        self._wrong = frozenset(wrong)
