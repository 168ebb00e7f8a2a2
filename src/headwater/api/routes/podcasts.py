"""Podcasts."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Response

from headwater.api.dependencies import CurrentApp, IfMatch, OwnPodcast, OwnUser, Page
from headwater.api.openapi import (
    MATCHED,
    WITH_ETAG,
    body_example,
    created,
    documented_router,
)
from headwater.api.schemas.inputs import PodcastIn
from headwater.api.schemas.pagination import ListPage, page_of, position_in, position_of
from headwater.api.schemas.podcast_outputs import PodcastOut
from headwater.app import App
from headwater.model import Podcast
from headwater.operations.etags import etag_of
from headwater.operations.filters import podcast_filter_stats
from headwater.operations.podcast_views import pending_posts, with_pending
from headwater.operations.users_and_podcasts import (
    DeletionCheck,
    add_podcast,
    edit_podcast,
    remove_podcast,
)

_PATH = "/api/users/{u}/podcasts"
_CREATED = created("p", _PATH, "getPodcast", "changePodcast", "deletePodcast", etag=True)
routes = documented_router(_PATH, "podcasts")


@routes.get("")
async def list_podcasts(app: CurrentApp, user: OwnUser, page: Page) -> ListPage[PodcastOut]:
    """List a user's podcasts, oldest first."""
    after = position_in(page.cursor, int, str)
    found = await app.store.accounts.podcasts(user.id, limit=page.limit + 1, after=after)
    return await podcast_page(app, found, page.limit)


@routes.post("", status_code=201, responses=_CREATED)
async def create_podcast(
    app: CurrentApp,
    user: OwnUser,
    body: Annotated[PodcastIn, body_example({"name": "Morning", "maxArticleAgeDays": 14})],
    response: Response,
) -> PodcastOut:
    """Add a podcast."""
    podcast = await add_podcast(app.store, user, now=app.clock.now(), **dict(body))
    response.headers["Location"] = f"/api/users/{user.id}/podcasts/{podcast.id}"
    return await _shown(app, podcast, response)


@routes.get("/{p}", responses=WITH_ETAG)
async def get_podcast(app: CurrentApp, podcast: OwnPodcast, response: Response) -> PodcastOut:
    """Get a podcast."""
    return await _shown(app, podcast, response)


@routes.put("/{p}", responses=WITH_ETAG | MATCHED | {409: {}})
async def change_podcast(
    app: CurrentApp,
    podcast: OwnPodcast,
    body: Annotated[PodcastIn, body_example({"name": "default", "maxArticleAgeDays": 14})],
    response: Response,
    if_match: IfMatch = None,
    confirm: Annotated[
        bool, Query(description="Whether a lower age limit may delete something at once.")
    ] = False,
) -> PodcastOut:
    """Change a podcast; a setting that is not given returns to its default.

    A lower age limit that would delete something at once returns 409 with the numbers in
    `wouldDelete`, and is applied with `confirm=true` only.
    """
    now = app.clock.now()
    check = None if confirm else DeletionCheck(now, app.policy)
    edited = await edit_podcast(
        app.store, podcast, now, if_match=if_match, check=check, **dict(body)
    )
    return await _shown(app, edited, response)


@routes.delete("/{p}", status_code=204, responses=MATCHED)
async def delete_podcast(app: CurrentApp, podcast: OwnPodcast, if_match: IfMatch = None) -> None:
    """Delete a podcast with its sources, posts and articles."""
    await remove_podcast(app.store, podcast, if_match=if_match)


async def podcast_page(app: App, found: Sequence[Podcast], limit: int) -> ListPage[PodcastOut]:
    """The first `limit` of these podcasts, with their pending posts."""
    listed = await with_pending(app.store, found[: limit + 1], app.clock.now(), app.policy)
    return page_of(listed, limit, PodcastOut.of, lambda one: position_of(one.podcast))


async def _shown(app: App, podcast: Podcast, response: Response) -> PodcastOut:
    response.headers["ETag"] = etag_of(podcast)
    stats = await podcast_filter_stats(app.store, podcast)
    pending = await pending_posts(app.store, podcast, app.clock.now(), app.policy)
    return PodcastOut.combined(podcast, filter_stats=stats, pending_posts=pending)
