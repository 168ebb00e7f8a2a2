"""Podcasts."""

from fastapi import APIRouter, Request, Response

from headwater.api.inputs import PodcastIn
from headwater.api.pages import Cursor, Page, limit_up_to, page_of, place_of, position_in
from headwater.api.schemas import PodcastOut
from headwater.api.scope import PodcastName, UserName, the_podcast, the_user
from headwater.app import App
from headwater.operations.people import add_podcast, edit_podcast, remove_podcast


def podcast_routes(app: App) -> APIRouter:
    """`/api/users/{u}/podcasts`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts", tags=["podcasts"])
    store = app.store
    usual = limit_up_to(app.settings.limits.max_page_size)

    @routes.get("")
    async def list_podcasts(
        request: Request,
        u: UserName,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[PodcastOut]:
        """List a user's podcasts, oldest first."""
        after = position_in(cursor, int, str)
        user = await the_user(store, request, u)
        found = await store.people.podcasts_page(user.id, limit + 1, after=after)
        return page_of(found, limit, PodcastOut.of, lambda one: place_of(one.created_at, one.id))

    @routes.post("", status_code=201)
    async def create_podcast(
        request: Request, u: UserName, body: PodcastIn, response: Response
    ) -> PodcastOut:
        """Add a podcast."""
        user = await the_user(store, request, u)
        podcast = await add_podcast(
            store,
            user,
            body.name,
            app.clock.now(),
            max_article_age_days=body.max_article_age_days,
            dedupe_across_sources=body.dedupe_across_sources,
        )
        response.headers["Location"] = f"/api/users/{user.id}/podcasts/{podcast.id}"
        return PodcastOut.of(podcast)

    @routes.get("/{p}")
    async def get_podcast(request: Request, u: UserName, p: PodcastName) -> PodcastOut:
        """Show a podcast."""
        return PodcastOut.of(await the_podcast(store, request, u, p))

    @routes.put("/{p}")
    async def change_podcast(
        request: Request, u: UserName, p: PodcastName, body: PodcastIn
    ) -> PodcastOut:
        """Change a podcast; what is left out returns to its default."""
        changed = await edit_podcast(
            store,
            await the_podcast(store, request, u, p),
            name=body.name,
            max_article_age_days=body.max_article_age_days,
            default_article_age=body.max_article_age_days is None,
            dedupe_across_sources=body.dedupe_across_sources,
        )
        return PodcastOut.of(changed)

    @routes.delete("/{p}", status_code=204)
    async def delete_podcast(request: Request, u: UserName, p: PodcastName) -> None:
        """Delete a podcast with everything that belongs to it."""
        await remove_podcast(store, await the_podcast(store, request, u, p))

    return routes
