"""Previews of filters: what they would hide and show (B2)."""

from typing import Annotated

from headwater.api.dependencies import CurrentApp, OwnPodcast, OwnSource
from headwater.api.openapi import body_example, documented_router
from headwater.api.schemas.inputs import FiltersIn
from headwater.api.schemas.podcast_outputs import FilterEffectOut
from headwater.model import Podcast, Source
from headwater.operations.filters import FilterTexts, preview_filters

routes = documented_router("/api/users/{u}/podcasts/{p}", "posts")
Body = Annotated[FiltersIn, body_example({"block": "title:sponsored"})]


@routes.post("/filters/preview")
async def preview_podcast_filters(
    app: CurrentApp, podcast: OwnPodcast, body: Body
) -> FilterEffectOut:
    """Show what other filters of a podcast would hide, without changing anything.

    The posts that are in no article are evaluated, newest first: at most 3,000, and as many as
    are evaluated in 2 seconds. `isComplete` is whether these are all.
    """
    return FilterEffectOut.of(await preview_filters(app.store, podcast, _filters(podcast, body)))


@routes.post("/sources/{s}/filters/preview")
async def preview_source_filters(
    app: CurrentApp, podcast: OwnPodcast, source: OwnSource, body: Body
) -> FilterEffectOut:
    """Show what other filters of a source would hide, without changing anything."""
    filters = _filters(source, body)
    effect = await preview_filters(app.store, podcast, filters, source_id=source.id)
    return FilterEffectOut.of(effect)


def _filters(owner: Podcast | Source, body: FiltersIn) -> FilterTexts:
    stored = {"keep": owner.keep, "block": owner.block}
    return FilterTexts(**stored | body.given())
