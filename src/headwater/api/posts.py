"""What polls have brought: posts, and the history of polls."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from headwater.api.pages import (
    DEFAULT_LIMIT,
    LONGEST_CURSOR,
    Page,
    id_in,
    page_of,
    page_of_part,
    position_in,
)
from headwater.api.schemas import PollRecordOut, PostOut
from headwater.api.scope import PodcastName, SourceId, UserName, the_podcast, the_source
from headwater.app import App
from headwater.model import Post
from headwater.store.parts import Part

Cursor = Annotated[str | None, Query(max_length=LONGEST_CURSOR)]


def post_routes(app: App) -> APIRouter:
    """The posts of a podcast and of a source, and a source's polls."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}", tags=["posts"])
    store = app.store
    most = app.settings.limits.max_page_size

    @routes.get("/posts")
    async def list_podcast_posts(
        request: Request,
        u: UserName,
        p: PodcastName,
        limit: Annotated[int, Query(ge=1, le=most)] = min(DEFAULT_LIMIT, most),
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
        limit: Annotated[int, Query(ge=1, le=most)] = min(DEFAULT_LIMIT, most),
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
        limit: Annotated[int, Query(ge=1, le=most)] = min(DEFAULT_LIMIT, most),
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
