"""The page on which the watched parts of a web page are chosen, of a source that exists (W4)."""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from headwater.errors import FetchError, UsageError
from headwater.model import Source, SourceType
from headwater.operations.sources import edit_source
from headwater.watch_settings import WatchSettings
from headwater.web.failure_texts import fetch_problem
from headwater.web.forms import fields_of, one
from headwater.web.humanize import sentence
from headwater.web.rendering import DashboardPage, PodcastPage, done
from headwater.web.source_page import PageSource
from headwater.web.watch_form import watch_fields, watch_in

routes = APIRouter(prefix="/podcasts/{p}/sources/{s}/watch", include_in_schema=False)


@routes.get("")
async def back(p: str, s: str) -> Response:
    """Redirect a reload to the page of the source: choosing parts begins with a visit."""
    return RedirectResponse(f"/podcasts/{p}/sources/{s}", status_code=303)


@routes.post("")
async def choose(page: PodcastPage, source: PageSource) -> Response:
    """Fetch the page once and show its parts; a click on one changes nothing that is stored."""
    fields = await fields_of(page.request)
    if source.type is not SourceType.WEBSITE:
        raise UsageError("only the parts of a web page can be chosen")
    try:
        watch = watch_in(fields) if "parts" in fields else source.watch
    except UsageError as error:
        return await _shown(page, source, source.watch, error=error)
    clicked = {name: one(fields, name) for name in ("toggle", "only")}
    return await _shown(page, source, watch, clicked)


@routes.post("/save")
async def save(page: PodcastPage, source: PageSource) -> Response:
    """Store the chosen parts, and request a poll."""
    try:
        watch = watch_in(await fields_of(page.request))
    except UsageError as error:
        return await _shown(page, source, source.watch, error=error)
    allowed = page.app.settings.fetch.allow_private_networks
    changes, now = {"watch": watch}, page.app.clock.now()
    check_poll = page.app.visit_limits.check_poll_for(page.caller_id)
    await edit_source(page.store, source.id, changes, now, allowed=allowed, check_poll=check_poll)
    return done(_url(source), "source-saved")


async def _shown(
    page: DashboardPage,
    source: Source,
    watch: WatchSettings | None,
    clicked: Mapping[str, str] = MappingProxyType({}),
    *,
    error: UsageError | None = None,
) -> Response:
    wanted = {"url": source.url, "type": SourceType.WEBSITE, "watch": watch}
    preview, problem = None, None
    if page.app.previews.needs_visit(wanted, page.podcast):
        page.app.visit_limits.check_visit(page.caller_id, source.url)
    try:
        preview = await page.app.previews.with_click(
            page.app.previewer(page.service), wanted, page.podcast, **clicked
        )
        watch = preview.source.watch
    except FetchError as failed:
        problem = fetch_problem(failed)
    return page.show(
        "source_watch.html",
        status=200 if problem is None and error is None else 422,
        source=source,
        url=_url(source),
        preview=preview,
        problem=problem,
        error=None if error is None else sentence(error),
        watch=watch,
        watch_values=watch_fields(watch),
    )


def _url(source: Source) -> str:
    return f"/podcasts/{source.podcast_id}/sources/{source.id}"
