"""Lists across all podcasts: of all users for administrators, else of the caller."""

from typing import Annotated

from fastapi import Query

from headwater.api.dependencies import CurrentApp, CurrentCaller, Page, owned_user
from headwater.api.middleware.authentication import Caller
from headwater.api.openapi import Responses, documented_router
from headwater.api.routes.podcasts import podcast_page
from headwater.api.routes.sources import Enabled, HealthState, Host, Text, Type
from headwater.api.schemas.pagination import (
    ListPage,
    Position,
    QueryText,
    page_of,
    position_in,
    position_of,
)
from headwater.api.schemas.podcast_outputs import PodcastOut
from headwater.api.schemas.source_outputs import OwnedSourceOut
from headwater.app import App
from headwater.operations.source_views import OwnedSource, all_sources
from headwater.operations.sources import host_named
from headwater.store.sources import SourceFilter

OfUser = Annotated[
    QueryText, Query(max_length=200, description="Only those of this user, by id or name.")
]
_NOT_FOUND: Responses = {404: {"description": "The user does not exist, or is another one."}}
podcast_routes = documented_router("/api/podcasts", "podcasts")
source_routes = documented_router("/api/sources", "sources")


@podcast_routes.get("", responses=_NOT_FOUND)
async def list_all_podcasts(
    app: CurrentApp, caller: CurrentCaller, page: Page, user: OfUser = None
) -> ListPage[PodcastOut]:
    """List podcasts across all users, oldest first; with a user's token those of that user."""
    after, owner = position_in(page.cursor, int, str), await _owner(app, caller, user)
    found = await app.store.accounts.podcasts(owner, limit=page.limit + 1, after=after)
    return await podcast_page(app, found, page.limit)


@source_routes.get("", responses=_NOT_FOUND)
async def list_all_sources(
    app: CurrentApp,
    caller: CurrentCaller,
    page: Page,
    user: OfUser = None,
    enabled: Enabled = None,
    type_: Type = None,
    health: HealthState = None,
    host: Host = None,
    q: Text = None,
) -> ListPage[OwnedSourceOut]:
    """List sources across all users and podcasts; with a user's token those of that user.

    They are sorted by podcast, in the order they were added.
    """
    wanted = SourceFilter(
        user_id=await _owner(app, caller, user),
        type=type_,
        enabled=enabled,
        host=None if host is None else host_named(host),
        text=q,
        health=health,
    )
    after, now = position_in(page.cursor, str, int, str), app.clock.now()
    limit = page.limit + 1
    found = await all_sources(app.store, wanted, now, app.policy, limit=limit, after=after)
    return page_of(found, page.limit, OwnedSourceOut.of, _position)


async def _owner(app: App, caller: Caller, user: str | None) -> str | None:
    """The id of the user whose data is listed; None: of all users."""
    return caller.user_id if user is None else (await owned_user(app.store, caller, user)).id


def _position(owned: OwnedSource) -> Position:
    return (owned.source.podcast_id, *position_of(owned.source))
