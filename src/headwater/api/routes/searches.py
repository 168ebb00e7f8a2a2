"""Saved searches and their feeds (B3)."""

import asyncio
import hmac
from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Query, Request, Response

from headwater.api.dependencies import CurrentApp, Limit, OwnPodcast, path_parameter
from headwater.api.openapi import Responses, body_example, documented_router
from headwater.api.routes.feeds import (
    ATOM_EXAMPLE,
    FEED_WRITERS,
    JSON_EXAMPLE,
    document_response,
    feed_address,
    feed_responses,
)
from headwater.api.schemas.inputs import SavedSearchIn
from headwater.api.schemas.outputs import SavedSearchOut
from headwater.api.schemas.pagination import ListPage, QueryText
from headwater.app import App
from headwater.content import SavedSearch
from headwater.errors import NotFound
from headwater.formats.article_feeds import ATOM, JSON_FEED
from headwater.model import Podcast
from headwater.operations.search import (
    change_search,
    newest_matches_as_feed,
    remove_search,
    save_search,
)

_PATH = "/api/users/{u}/podcasts/{p}/searches"
_EXAMPLE = {"name": "rates", "query": "title:rates -podcast"}
_CREATED: Responses = {
    201: {
        "description": "Created.",
        "headers": {
            "Location": {"description": "Its path.", "required": True, "schema": {"type": "string"}}
        },
    }
}
SearchName = Annotated[str, path_parameter("The name of a saved search.", "rates")]
FeedToken = Annotated[
    QueryText,
    Query(max_length=200, description="The `feedToken` of the search, instead of another token."),
]
routes = documented_router(_PATH, "searches")


async def _search(app: CurrentApp, podcast: OwnPodcast, name: SearchName) -> SavedSearch:
    return await app.store.saved_searches.get(podcast.id, name)


OwnSearch = Annotated[SavedSearch, Depends(_search)]


@routes.get("")
async def list_searches(app: CurrentApp, podcast: OwnPodcast) -> ListPage[SavedSearchOut]:
    """List the saved searches of a podcast, by name; there are at most 100."""
    found = await app.store.saved_searches.all(podcast.id)
    return ListPage(items=tuple(map(SavedSearchOut.of, found)))


@routes.post("", status_code=201, responses=_CREATED)
async def create_search(
    app: CurrentApp,
    podcast: OwnPodcast,
    body: Annotated[SavedSearchIn, body_example(_EXAMPLE)],
    response: Response,
) -> SavedSearchOut:
    """Save a search."""
    saved = await save_search(app.store, podcast, body.name, body.query, app.clock.now())
    path = f"/api/users/{podcast.user_id}/podcasts/{podcast.id}/searches"
    response.headers["Location"] = f"{path}/{quote(saved.name, safe='')}"
    return SavedSearchOut.of(saved)


@routes.get("/{name}")
async def get_search(search: OwnSearch) -> SavedSearchOut:
    """Get a saved search."""
    return SavedSearchOut.of(search)


@routes.put("/{name}", responses={409: {}})
async def change_saved_search(
    app: CurrentApp, search: OwnSearch, body: Annotated[SavedSearchIn, body_example(_EXAMPLE)]
) -> SavedSearchOut:
    """Change the query or the name of a saved search; its feed keeps the token."""
    return SavedSearchOut.of(await change_search(app.store, search, body.name, body.query))


@routes.delete("/{name}", status_code=204)
async def delete_search(app: CurrentApp, search: OwnSearch) -> None:
    """Delete a saved search; its feed ends."""
    await remove_search(app.store, search)


@routes.get(
    "/{name}/feed.atom",
    response_class=Response,
    responses=feed_responses(ATOM, "string", ATOM_EXAMPLE),
)
async def show_search_atom_feed(
    request: Request,
    app: CurrentApp,
    podcast: OwnPodcast,
    search: OwnSearch,
    limit: Limit,
    token: FeedToken = None,
) -> Response:
    """Get the posts that match a saved search as Atom 1.0, those stored last first."""
    _refuse_other_token(search, token)
    return await _feed(request, app, podcast, search, limit, ATOM)


@routes.get(
    "/{name}/feed.json",
    response_class=Response,
    responses=feed_responses(JSON_FEED, "object", JSON_EXAMPLE),
)
async def show_search_json_feed(
    request: Request,
    app: CurrentApp,
    podcast: OwnPodcast,
    search: OwnSearch,
    limit: Limit,
    token: FeedToken = None,
) -> Response:
    """Get the posts that match a saved search as JSON Feed 1.1, those stored last first."""
    _refuse_other_token(search, token)
    return await _feed(request, app, podcast, search, limit, JSON_FEED)


def _refuse_other_token(search: SavedSearch, token: str | None) -> None:
    """Raise if the token is that of another search: `Authentication` knows only that it exists."""
    if token is not None and not hmac.compare_digest(token.encode(), search.feed_token.encode()):
        raise NotFound(f"there is no search {search.name!r}")


async def _feed(
    request: Request,
    app: App,
    podcast: Podcast,
    search: SavedSearch,
    limit: int,
    media_type: str,
) -> Response:
    folder = f"searches/{quote(search.name, safe='')}/"
    address = feed_address(request, app, podcast, limit, folder)
    write = partial(FEED_WRITERS[media_type], address=address, search=search)
    content = await newest_matches_as_feed(
        app.store, podcast, search, now=app.clock.now(), limit=limit, write=write
    )
    return await asyncio.to_thread(document_response, request, content, media_type)
