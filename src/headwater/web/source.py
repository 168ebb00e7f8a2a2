"""One source: how it is, why it is polled when it is, what came of its polls, its settings."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.app import App
from headwater.engine.service import Service
from headwater.model import Source
from headwater.operations.hosts import look_at_lane
from headwater.operations.overview import card_of, explanation_of
from headwater.operations.sources import MAX_LABEL, RANGES
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_origin, lane_of
from headwater.web.explanation import picture_of
from headwater.web.place import Place, place_of, source_at
from headwater.web.poll_history import skips, strip_of
from headwater.web.rendering import Pages
from headwater.web.source_forms import SettingsForm, page_url, settings_of, source_action_routes
from headwater.web.verdict import verdict_of

_MARKS = 60
_ROWS = 15  # of polls in the table
_POSTS = 8


def source_page_routes(app: App, service: Service, pages: Pages) -> APIRouter:
    """`/podcasts/{p}/sources/{s}` and what can be done there."""
    routes = APIRouter(include_in_schema=False)
    store = app.store

    @routes.get("/podcasts/{p}/sources/{s}")
    async def source(request: Request, p: str, s: str) -> Response:
        """Show one source."""
        return await shown(request, p, s)

    async def shown(request: Request, p: str, s: str, form: SettingsForm | None = None) -> Response:
        place = await place_of(store, request, p)
        found = await source_at(store, place, s)
        content = await _content(app, service, place, found)
        status = 200 if form is None else 422
        form = form or settings_of(found)
        return pages.show(request, "source.html", place, status=status, form=form, **content)

    routes.include_router(source_action_routes(app, service, shown))
    return routes


async def _content(app: App, service: Service, place: Place, source: Source) -> dict[str, Any]:
    """All that the page shows beside its form."""
    store, policy, now = app.store, app.policy, app.clock.now()
    assert place.podcast is not None
    lane = lane_of(source, place.podcast.user_id) or ""
    state, lane_now = look_at_lane(service, lane, source.id)
    card = await card_of(store, source.id, now, policy, polls=_MARKS)
    explanation = await explanation_of(
        store, source.id, now, policy, look=lambda *_: (state, lane_now)
    )
    newest = await store.posts.page(source_id=source.id, limit=_POSTS)
    current = card.view.source
    return {
        "url": page_url(source),
        "source": current,
        "view": card.view,
        "verdict": verdict_of(card.view, card.polls, policy),
        "explanation": explanation,
        "picture": picture_of(current, explanation, lane_now, now, policy),
        "lane_now": lane_now,
        "strip": strip_of(card.polls),
        "polls": card.polls[:_ROWS],
        "posts": newest.items,
        "delay_origin": delay_origin(current, policy),
        "defaults": _defaults(policy),
        "ranges": RANGES,
        "longest_label": MAX_LABEL,
        "skips": skips,
    }


def _defaults(policy: Policy) -> dict[str, int]:
    """What counts where a source says nothing itself."""
    return {
        "max_failures": policy.max_failures,
        "max_backoff_hours": policy.max_backoff_hours,
        "late_entry_hours": policy.late_entry_hours,
    }
