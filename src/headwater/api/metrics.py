"""Numbers for Prometheus."""

import math
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse

from headwater.api.callers import need_admin
from headwater.api.event_stream import Streams
from headwater.app import App
from headwater.engine.service import Service
from headwater.operations.metrics import Family, Labels, measure
from headwater.operations.standing import Watch

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_routes(app: App, service: Service, streams: Streams) -> APIRouter:
    """`/metrics`, for administrators where tokens are on."""
    routes = APIRouter(tags=["operations"])
    tick_seconds = app.settings.source.tick_seconds
    watch = Watch(app.store, service, app.clock, app.policy, tick_seconds)

    @routes.get("/metrics", response_class=PlainTextResponse, dependencies=[Depends(need_admin)])
    async def metrics() -> PlainTextResponse:
        """Say in numbers what happened since the start and how things stand."""
        open_streams = sum(streams.open.values())
        found = await measure(
            service, app.store, watch, event_streams=open_streams, now=app.clock.now()
        )
        return PlainTextResponse(exposition(found), media_type=MEDIA_TYPE)

    return routes


def exposition(found: Iterable[Family]) -> str:
    """Families in Prometheus' text format 0.0.4."""
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
