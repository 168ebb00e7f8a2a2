"""Sources."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headwater.api.inputs import SourceIn, SourceNew, SourcePatch
from headwater.api.pages import (
    Cursor,
    Page,
    Position,
    limit_up_to,
    page_of,
    place_in,
    place_of,
)
from headwater.api.schemas import SourceOut
from headwater.api.scope import (
    PodcastName,
    SourceId,
    UserName,
    the_podcast,
    the_source,
    the_subject,
)
from headwater.app import App
from headwater.model import Health, SourceType
from headwater.operations.overview import SourceView, source_page, view_of, views
from headwater.operations.sources import (
    SourceSettings,
    add_source,
    edit_source,
    host_named,
    remove_source,
)
from headwater.store.sources import SourceFilter


def source_routes(app: App) -> APIRouter:
    """`…/podcasts/{p}/sources` and `…/sources/{s}`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}/sources", tags=["sources"])
    store = app.store
    limits = app.settings.limits
    usual = limit_up_to(limits.max_page_size)

    async def shown(source_id: str) -> SourceOut:
        return SourceOut.of(await view_of(store, source_id, app.clock.now(), app.policy))

    @routes.get("")
    async def list_sources(
        request: Request,
        u: UserName,
        p: PodcastName,
        limit: int = usual,
        cursor: Cursor = None,
        enabled: Annotated[bool | None, Query(description="Only these.")] = None,
        type_: Annotated[SourceType | None, Query(alias="type", description="Only these.")] = None,
        health: Annotated[Health | None, Query(description="Only these.")] = None,
        host: Annotated[str | None, Query(max_length=300, description="Only on this host.")] = None,
        q: Annotated[
            str | None, Query(max_length=500, description="Only with this in URL or label.")
        ] = None,
    ) -> Page[SourceOut]:
        """List a podcast's sources in the order they were added."""
        after = place_in(cursor)
        podcast = await the_podcast(store, request, u, p)
        wanted = SourceFilter(
            podcast_id=podcast.id,
            type=type_,
            enabled=enabled,
            host=None if host is None else host_named(host),
            text=q,
            health=health,
        )
        found = await source_page(
            store,
            podcast.user_id,
            wanted,
            limit=limit + 1,
            after=after,
            now=app.clock.now(),
            policy=app.policy,
        )
        return page_of(found, limit, SourceOut.of, _place)

    @routes.post("", status_code=201)
    async def create_source(
        request: Request, u: UserName, p: PodcastName, body: SourceNew, response: Response
    ) -> SourceOut:
        """Add a source; without a type it is X if its URL says so, else a feed."""
        podcast = await the_podcast(store, request, u, p)
        wanted, now = SourceSettings(**body.given()), app.clock.now()
        most = limits.max_sources_per_user
        source = await add_source(store, podcast.id, wanted, now, most=most)
        base = f"/api/users/{podcast.user_id}/podcasts/{podcast.id}/sources"
        response.headers["Location"] = f"{base}/{source.id}"
        (view,) = await views(store, podcast.user_id, [source], now, app.policy)
        return SourceOut.of(view)

    @routes.get("/{s}")
    async def get_source(request: Request, u: UserName, p: PodcastName, s: SourceId) -> SourceOut:
        """Show a source."""
        subject = await the_subject(store, request, u, p, s)
        now = app.clock.now()
        (view,) = await views(store, subject.user_id, [subject.source], now, app.policy)
        return SourceOut.of(view)

    @routes.put("/{s}")
    async def replace_source(
        request: Request, u: UserName, p: PodcastName, s: SourceId, body: SourceIn
    ) -> SourceOut:
        """Set a source anew: what is left out returns to its default, `enabled` excepted."""
        source = await the_source(store, request, u, p, s)
        await edit_source(store, source.id, body.whole(), app.clock.now())
        return await shown(source.id)

    @routes.patch("/{s}")
    async def change_source(
        request: Request, u: UserName, p: PodcastName, s: SourceId, body: SourcePatch
    ) -> SourceOut:
        """Change what is given of a source; null takes an option back to its default."""
        source = await the_source(store, request, u, p, s)
        await edit_source(store, source.id, body.given(), app.clock.now())
        return await shown(source.id)

    @routes.delete("/{s}", status_code=204)
    async def delete_source(request: Request, u: UserName, p: PodcastName, s: SourceId) -> None:
        """Delete a source with its posts, articles and history."""
        await remove_source(store, (await the_source(store, request, u, p, s)).id)

    return routes


def _place(view: SourceView) -> Position:
    return place_of(view.source.created_at, view.source.id)
