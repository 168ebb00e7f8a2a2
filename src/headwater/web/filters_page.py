"""The filters of a podcast or a source, edited with their effect alongside (B2), and the help."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from markupsafe import Markup

from headwater.errors import QueryError, SearchTooSlow
from headwater.formats.markdown import markdown_to_html
from headwater.model import FilterStats, Source
from headwater.operations.filters import (
    FilterTexts,
    podcast_filter_stats,
    preview_filters,
    source_filter_stats,
)
from headwater.operations.sources import edit_source
from headwater.operations.users_and_podcasts import edit_podcast
from headwater.web.forms import fields_of, one
from headwater.web.humanize import sentence
from headwater.web.page_context import source_at
from headwater.web.rendering import AnyPage, DashboardPage, PodcastPage, done

_PODCAST = "/podcasts/{p}/filters"
_SOURCE = "/podcasts/{p}/sources/{s}/filters"
routes = APIRouter(include_in_schema=False)


async def _source(page: PodcastPage, s: str) -> Source:
    return await source_at(page.store, page.podcast, s)


PageSource = Annotated[Source, Depends(_source)]


@routes.get("/searching")
async def help_page(page: AnyPage) -> Response:
    """Show how queries are written."""
    text = files("headwater.web").joinpath("searching.md").read_text(encoding="utf-8")
    html = Markup(markdown_to_html(text, top_level=1))  # noqa: S704 - our own, and cleaned
    return page.show("searching.html", html=html)


@routes.get(_PODCAST)
async def show_of_podcast(page: PodcastPage) -> Response:
    """Show the filters of a podcast."""
    return await _shown(page, None)


@routes.post(_PODCAST)
async def change_of_podcast(page: PodcastPage) -> Response:
    """Save the filters of a podcast, or show what they would change."""
    return await _changed(page, None)


@routes.get(_SOURCE)
async def show_of_source(page: PodcastPage, source: PageSource) -> Response:
    """Show the filters of a source."""
    return await _shown(page, source)


@routes.post(_SOURCE)
async def change_of_source(page: PodcastPage, source: PageSource) -> Response:
    """Save the filters of a source, or show what they would change."""
    return await _changed(page, source)


async def _changed(page: DashboardPage, source: Source | None) -> Response:
    fields = await fields_of(page.request)
    filters = FilterTexts(keep=one(fields, "keep") or None, block=one(fields, "block") or None)
    if one(fields, "do") != "save":
        return await _shown(page, source, filters)
    try:
        await _save(page, source, filters)
    except QueryError as error:
        return await _shown(page, source, filters, {error.field or "keep": sentence(error)})
    return done(_url(page, source), "filters-saved")


async def _save(page: DashboardPage, source: Source | None, filters: FilterTexts) -> None:
    changes: dict[str, Any] = {"keep": filters.keep, "block": filters.block}
    now = page.app.clock.now()
    if source is None:
        await edit_podcast(page.store, page.podcast, now, keep=filters.keep, block=filters.block)
        return
    allowed = page.app.settings.fetch.allow_private_networks
    await edit_source(page.store, source.id, changes, now, allowed=allowed)


async def _shown(
    page: DashboardPage,
    source: Source | None,
    filters: FilterTexts | None = None,
    errors: Mapping[str, str] | None = None,
) -> Response:
    """Return the page; with filters that were sent, their errors or their effect."""
    effect, too_slow = None, ""
    if filters is not None and not errors:
        source_id = None if source is None else source.id
        try:
            effect = await preview_filters(page.store, page.podcast, filters, source_id=source_id)
        except QueryError as error:
            errors = {error.field or "keep": sentence(error)}
        except SearchTooSlow as error:
            too_slow = sentence(error)
    owner = page.podcast if source is None else source
    here = f"/podcasts/{page.podcast.id}"
    only = "" if source is None else f"&source={source.id}"
    return page.show(
        "filters.html",
        status=422 if errors or too_slow else 200,
        source=source,
        here=here,
        url=_url(page, source),
        hidden_url=f"{here}/posts?filtered=only{only}",
        filters=filters or FilterTexts(owner.keep, owner.block),
        errors=errors or {},
        effect=effect,
        too_slow=too_slow,
        stats=await _stats(page, source),
    )


async def _stats(page: DashboardPage, source: Source | None) -> FilterStats:
    if source is None:
        return await podcast_filter_stats(page.store, page.podcast)
    return (await source_filter_stats(page.store, [source]))[source.id]


def _url(page: DashboardPage, source: Source | None) -> str:
    here = f"/podcasts/{page.podcast.id}"
    return f"{here}/filters" if source is None else f"{here}/sources/{source.id}/filters"
