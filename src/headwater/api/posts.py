"""What polls have brought: posts, and the history of polls."""

from fastapi import APIRouter, Request

from headwater.api.pages import (
    Cursor,
    Page,
    id_in,
    limit_up_to,
    page_of,
    page_of_part,
    position_in,
)
from headwater.api.schemas import PollRecordOut, PostOut
from headwater.api.scope import PodcastName, SourceId, UserName, the_podcast, the_source
from headwater.app import App
from headwater.model import Post
from headwater.store.parts import Part


def post_routes(app: App) -> APIRouter:
    """The posts of a podcast and of a source, and a source's polls."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}", tags=["posts"])
    store = app.store
    usual = limit_up_to(app.settings.limits.max_page_size)

    @routes.get("/posts")
    async def list_podcast_posts(
        request: Request,
        u: UserName,
        p: PodcastName,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[PostOut]:
        """List the posts of a podcast, newest first.

        Where posts are very long, a page has fewer of them than `limit`.
        """
        podcast = await the_podcast(store, request, u, p)
        before = id_in(cursor)
        return _page(await store.posts.page(podcast_id=podcast.id, limit=limit, before=before))

    @routes.get("/sources/{s}/posts")
    async def list_source_posts(
        request: Request,
        u: UserName,
        p: PodcastName,
        s: SourceId,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[PostOut]:
        """List the posts of a source, newest first.

        Where posts are very long, a page has fewer of them than `limit`.
        """
        source = await the_source(store, request, u, p, s)
        before = id_in(cursor)
        return _page(await store.posts.page(source_id=source.id, limit=limit, before=before))

    @routes.get("/sources/{s}/polls")
    async def list_polls(
        request: Request,
        u: UserName,
        p: PodcastName,
        s: SourceId,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[PollRecordOut]:
        """List the polls of a source, newest first, as far back as the history goes."""
        source = await the_source(store, request, u, p, s)
        (before,) = position_in(cursor, int) or (None,)
        assert before is None or isinstance(before, int)
        found = await store.polls.newest(source.id, limit=limit + 1, before=before)
        return page_of(found, limit, PollRecordOut.of, lambda poll: (poll.id,))

    return routes


def _page(part: Part[Post]) -> Page[PostOut]:
    return page_of_part(part, PostOut.of, lambda post: (post.id,))
