"""Metrics for Prometheus."""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse

from headwater.api.middleware.authentication import HOW_TO_READ_METRICS, caller_of
from headwater.api.openapi import documented_router
from headwater.errors import Forbidden
from headwater.operations.metric_families import Family, Labels

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_EXAMPLE = (
    "# HELP headwater_polls_total Polls that ended, by type and outcome.\n"
    "# TYPE headwater_polls_total counter\n"
    'headwater_polls_total{type="rss",outcome="stored"} 3\n'
)
_EXPOSITION: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in text format 0.0.4.",
        "content": {"text/plain": {"example": _EXAMPLE}},
    }
}
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_routes(measure: Callable[[], Awaitable[Iterable[Family]]]) -> APIRouter:
    """`/metrics`; where tokens are on, for tokens that belong to no user."""
    routes = documented_router("", "operations")

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=_EXPOSITION,
        dependencies=[Depends(_need_scope)],
    )
    async def get_metrics() -> PlainTextResponse:
        """Get metrics in the text format of Prometheus."""
        return PlainTextResponse(exposition(await measure()), media_type=MEDIA_TYPE)

    return routes


def _need_scope(request: Request) -> None:
    """Raise if the caller's token belongs to a user: metrics are about all users."""
    if caller_of(request).user_id is not None:
        raise Forbidden(f"the metrics need a token of no user; {HOW_TO_READ_METRICS}")


def exposition(found: Iterable[Family]) -> str:
    """Metric families in Prometheus' text format 0.0.4."""
    return "".join(f"{line}\n" for family in found for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.meaning}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        yield f"{family.name}{sample.suffix}{_braces(sample.labels)} {_number(sample.value)}"


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)
