"""The overview: is everything fine, what fails and why, what happened of late, what happens now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.api.callers import caller_of, need_admin
from headwater.app import App
from headwater.engine.service import Service
from headwater.engine.timeline import Span
from headwater.errors import UsageError
from headwater.model import Health, Podcast
from headwater.operations.glance import Glance, Glances, Trouble
from headwater.operations.scheduler import scheduler_view, switch_scheduler
from headwater.web.forms import fields_of, one
from headwater.web.overview_charts import polls_chart, posts_chart
from headwater.web.place import place_of
from headwater.web.rendering import Pages, done
from headwater.web.words import count

_PODCASTS_SHOWN = 12
_TILES = (Health.OK, Health.FAILING, Health.NEW, Health.DISABLED)
_SWITCH = {"pause": True, "resume": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How things are, in one sentence."""

    tone: str  # good, warn, bad or quiet
    words: str


def overview_routes(app: App, service: Service, pages: Pages) -> APIRouter:
    """`/`, and the scheduler's switch on it."""
    routes = APIRouter(include_in_schema=False)
    tick_seconds = app.settings.source.tick_seconds
    glances = Glances(app.store, service, app.clock, app.policy, tick_seconds)

    @routes.get("/")
    async def overview(request: Request) -> Response:
        """Show how everything is."""
        place, owner = await place_of(app.store, request), caller_of(request).user_id
        if await glances.is_empty(owner):
            first = place.podcasts[0] if place.podcasts else None
            return pages.show(request, "overview.html", place, empty=True, podcast=first)
        span = Span.DAY if request.query_params.get("span") == Span.DAY else Span.HOUR
        glance = await glances.look(owner, span)
        shown = _shown(glance, place.podcasts, span, paused=service.paused)
        scheduler = scheduler_view(service) if place.is_admin else None  # it counts everybody's
        return pages.show(
            request, "overview.html", place, empty=False, scheduler=scheduler, **shown
        )

    @routes.post("/scheduler", dependencies=[Depends(need_admin)])
    async def switch(request: Request) -> Response:
        """Stop starting polls that nobody asked for, or start them again."""
        wanted = one(await fields_of(request), "switch")
        if wanted not in _SWITCH:
            raise UsageError("the switch is either pause or resume", field="switch")
        await switch_scheduler(service, paused=_SWITCH[wanted])
        return done("/", f"scheduler-{wanted}")

    return routes


def _shown(
    glance: Glance, podcasts: Sequence[Podcast], span: Span, *, paused: bool
) -> Mapping[str, Any]:
    """What the template needs beyond what all pages share."""
    lone = podcasts[0] if len(podcasts) == 1 else None
    return {
        "glance": glance,
        "span": span,
        "verdict": _verdict(glance, paused=paused),
        "tiles": [(health, _list_url(lone, health=health)) for health in _TILES],
        "lone": lone,
        "rows": _worst_first(glance, podcasts)[:_PODCASTS_SHOWN],
        "podcast_count": len(podcasts),
        "polls_chart": polls_chart(glance.buckets, span),
        "posts_chart": posts_chart(glance.buckets, span),
        "host_url": host_url,
        "trouble_url": trouble_url,
    }


def _verdict(glance: Glance, *, paused: bool) -> Verdict:
    """The worst that is to be said; how the machine itself is, is said by a banner."""
    health, backlog = glance.by_health, glance.backlog
    if health is None or backlog is None:
        return Verdict("warn", "The database takes its time; some numbers are missing.")
    failing, late = health[Health.FAILING], 0 if paused else backlog.overdue
    of_all = f"of {count(glance.sources)} source{'s' if glance.sources != 1 else ''}"
    parts = []
    if failing:
        parts.append(f"{count(failing)} {of_all} {'is' if failing == 1 else 'are'} failing")
    if late:
        parts.append(f"{count(late)} {'is' if late == 1 else 'are'} overdue")
    if parts:
        return Verdict("bad" if failing else "warn", f"{' and '.join(parts)}.")
    if health[Health.OK] == 0 and health[Health.NEW] == 0:
        return Verdict("quiet", "Every source is switched off, so nothing is polled.")
    if health[Health.OK] == 0:
        return Verdict("quiet", "Nothing has come in yet: first polls are spread over an interval.")
    off = health[Health.DISABLED]
    if off:
        told = f"{count(off)} {'is' if off == 1 else 'are'} switched off"
        return Verdict("good", f"No source is failing, and none is overdue; {told}.")
    return Verdict("good", "Everything is fine: no source is failing, and none is overdue.")


def _worst_first(
    glance: Glance, podcasts: Sequence[Podcast]
) -> list[tuple[Podcast, Mapping[Health, int]]]:
    nothing = dict.fromkeys(Health, 0)
    rows = [(podcast, glance.by_podcast.get(podcast.id, nothing)) for podcast in podcasts]
    return sorted(rows, key=lambda row: (-row[1][Health.FAILING], -sum(row[1].values())))


def _list_url(podcast: Podcast | None, **filters: str) -> str:
    """The list of a podcast's sources; of several there is a table on the page itself."""
    if podcast is None:
        return "#podcasts"
    return f"/podcasts/{quote(podcast.id, safe='')}/sources?{urlencode(filters)}"


def host_url(host: str) -> str:
    """The page of a host."""
    return f"/hosts/{quote(host, safe='')}"


def trouble_url(trouble: Trouble) -> str:
    """Where the sources of a trouble are: the source, the list of them, or their host's page."""
    cause = trouble.cause
    if cause.sources == 1 and trouble.sources:
        source = trouble.sources[0]
        return f"/podcasts/{source.podcast_id}/sources/{source.id}"
    if cause.podcast_id is not None:
        # those switched off are not among the failing ones
        wanted = {} if cause.disabled else {"health": Health.FAILING.value}
        host = {} if cause.host is None else {"host": cause.host}
        return f"/podcasts/{cause.podcast_id}/sources?{urlencode(wanted | host)}"
    return "/hosts" if cause.host is None else host_url(cause.host)
