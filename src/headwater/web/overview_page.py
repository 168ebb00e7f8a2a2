"""The overview page: what is wrong, what came in, health of all sources, recent polls."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from headwater.api.middleware.authentication import caller_of, need_admin
from headwater.app import App
from headwater.engine.service import Service
from headwater.engine.timeline import Span
from headwater.errors import UsageError
from headwater.model import Health, Podcast, SuggestionKind
from headwater.operations.incidents import open_incidents, with_sources
from headwater.operations.overview import FailureGroup, Overview, OverviewReader
from headwater.operations.service_status import scheduler_view, switch_scheduler
from headwater.operations.source_views import suggested_sources
from headwater.operations.users_and_podcasts import DEFAULT
from headwater.rules.activity import pace_text, posts_by_day
from headwater.rules.incidents import Severity
from headwater.web.forms import fields_of, one
from headwater.web.humanize import count, counted
from headwater.web.rendering import AnyPage, DashboardPage, done

_PODCASTS_SHOWN = 12
_INCIDENTS_SHOWN = 10
_POSTS_SHOWN = 8
_SOURCES_SHOWN = 5
_DAYS_SHOWN = 30
_ADDRESSES = (SuggestionKind.MOVE, SuggestionKind.FEED)
_TILES = (Health.OK, Health.FAILING, Health.NEW, Health.DISABLED)
_FAILING = Markup('<a id="to-failing" href="{}">{}</a>')
_SWITCH = {"pause": True, "resume": False}


def overview_routes(app: App, service: Service) -> APIRouter:
    """Return the routes of `/` and of the scheduler's pause button."""
    routes = APIRouter(include_in_schema=False)
    tick_seconds = app.settings.source.tick_seconds
    reader = OverviewReader(app.store, service, app.clock, app.policy, tick_seconds)

    @routes.get("/")
    async def show(page: AnyPage) -> Response:
        """Show the overview."""
        context, owner = page.context, caller_of(page.request).user_id
        if await reader.is_empty(owner):
            first = context.podcasts[0] if context.podcasts else None
            return page.show("overview.html", empty=True, podcast=first)
        span = Span.DAY if page.request.query_params.get("span") == Span.DAY else Span.HOUR
        overview = await reader.read(owner, span)
        shown = dict(_shown(overview, context.podcasts, span, paused=service.paused))
        content = await _content(page, owner)
        if "headline" in content and shown["tone"] == "warn":
            content["headline"] += Markup(" ") + shown["headline"]
        shown |= content
        # the scheduler's numbers include the polls of all users
        scheduler = scheduler_view(service) if context.is_admin else None
        return page.show("overview.html", empty=False, scheduler=scheduler, **shown)

    @routes.post("/scheduler", dependencies=[Depends(need_admin)])
    async def switch(request: Request) -> Response:
        """Pause or resume the scheduler; requested polls still run."""
        wanted = one(await fields_of(request), "switch")
        if wanted not in _SWITCH:
            raise UsageError("the action is either pause or resume", field="switch")
        await switch_scheduler(service, paused=_SWITCH[wanted])
        if _SWITCH[wanted]:  # a banner says so as long as it is paused
            return RedirectResponse("/", status_code=303)
        return done("/", "scheduler-resume")

    return routes


async def _content(page: DashboardPage, owner: str | None) -> dict[str, Any]:
    """Return what is wrong, what came in, and how often sources publish (Y2)."""
    store, now = page.store, page.app.clock.now()
    incidents = await open_incidents(store, page.service, owner)
    podcasts = [podcast.id for podcast in page.context.podcasts[:_PODCASTS_SHOWN]]
    paces = [
        {
            "source_id": one.source_id,
            "podcast_id": one.podcast_id,
            "name": one.name,
            "text": pace_text(one.times, now),
            "days": posts_by_day(one.times, now, _DAYS_SHOWN),
        }
        for one in await store.headlines.quietest(owner, limit=_SOURCES_SHOWN)
    ]
    user = page.context.user
    content = {
        "has_channel": bool(await store.channels.listed(DEFAULT if user is None else user.id)),
        "incidents": await with_sources(store, incidents[:_INCIDENTS_SHOWN]),
        "incident_count": len(incidents),
        "headlines": await store.headlines.newest(podcasts, limit=_POSTS_SHOWN),
        "paces": paces,
        "suggested": await suggested_sources(
            store, owner, _ADDRESSES, now, page.app.policy, limit=_SOURCES_SHOWN
        ),
        "noisy": await suggested_sources(
            store, owner, [SuggestionKind.IGNORE], now, page.app.policy, limit=_SOURCES_SHOWN
        ),
    }
    if not incidents:
        return content
    number = len(incidents)
    need = "s need" if number > 1 else " needs"
    headline = Markup("{} problem{} your attention.").format(count(number), need)
    is_bad = any(one.severity is Severity.ERROR for one in incidents)
    return content | {"tone": "bad" if is_bad else "warn", "headline": headline}


def _shown(
    overview: Overview, podcasts: Sequence[Podcast], span: Span, *, paused: bool
) -> Mapping[str, Any]:
    """Return the variables of the template."""
    only_podcast = podcasts[0] if len(podcasts) == 1 else None
    tone, headline = _headline(overview, only_podcast, paused=paused)
    none = dict.fromkeys(Health, 0)
    rows = [(podcast, overview.by_podcast.get(podcast.id, none)) for podcast in podcasts]
    rows.sort(key=lambda row: (-row[1][Health.FAILING], -sum(row[1].values())))
    buckets = overview.buckets
    return {
        "overview": overview,
        "span": span,
        "tone": tone,
        "headline": headline,
        "tiles": _TILES,
        "only_podcast": only_podcast,
        "rows": rows[:_PODCASTS_SHOWN],
        "podcast_count": len(podcasts),
        "most_polls": max((b.stored + b.unchanged + b.failed for b in buckets), default=0),
        "most_posts": max((bucket.new_posts for bucket in buckets), default=0),
        "failures_url": failures_url,
    }


def _headline(
    overview: Overview, only_podcast: Podcast | None, *, paused: bool
) -> tuple[str, str | Markup]:
    """Return the worst finding and its tone; a banner reports the state of the machine."""
    health, backlog = overview.by_health, overview.backlog
    if health is None or backlog is None:
        return "warn", "The database is slow; some numbers are missing."
    failing, late = health[Health.FAILING], 0 if paused else backlog.overdue
    sources = sum(health.values())
    parts = []
    if failing:
        text = f"{count(failing)} of {counted(sources, 'source')} {_is(failing)} failing"
        parts.append(_FAILING.format(_failing_url(only_podcast), text))
    if late:
        parts.append(Markup.escape(f"{count(late)} {_is(late)} overdue"))
    if parts:
        # while paused, a banner says so, and nothing is tried
        patience = " Headwater keeps trying." if failing and not paused else ""
        return "warn", Markup(" and ").join(parts) + f".{patience}"
    if health[Health.OK] == 0 and health[Health.NEW] == 0:
        return "quiet", "Every source is disabled, so nothing is checked."
    if health[Health.OK] == 0:
        reason = "" if paused else ": first checks are spread over an interval"
        return "quiet", f"No check has succeeded yet{reason}."
    disabled, on_time = health[Health.DISABLED], "" if paused else ", and none is overdue"
    if disabled:
        rest = f"{count(disabled)} {_is(disabled)} disabled"
        return "quiet" if paused else "good", f"No source is failing{on_time}; {rest}."
    if paused:
        return "quiet", "No source is failing."
    return "good", "Everything is fine: no source is failing, and none is overdue."


def _failing_url(only_podcast: Podcast | None) -> str:
    """Return the URL of the failing sources; several podcasts have a table on the page."""
    if only_podcast is None:
        return "#podcasts"
    return f"/podcasts/{quote(only_podcast.id, safe='')}/sources?health={Health.FAILING.value}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def failures_url(failure: FailureGroup) -> str:
    """Return the URL of the failing source, of their list, or of their host's page."""
    if failure.count == 1 and failure.sources:
        source = failure.sources[0]
        return f"/podcasts/{source.podcast_id}/sources/{source.id}"
    host = failure.newest.host
    if failure.podcast_id is not None:
        # disabled sources are not among the failing ones
        wanted = {} if failure.disabled else {"health": Health.FAILING.value}
        on_host = {} if host is None else {"host": host}
        return f"/podcasts/{failure.podcast_id}/sources?{urlencode(wanted | on_host)}"
    return "/hosts" if host is None else f"/hosts/{quote(host, safe='')}"
