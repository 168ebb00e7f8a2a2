"""The newest articles of a podcast as Atom and JSON Feed, for any feed reader."""

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from headwater.api.pages import DEFAULT_LIMIT
from headwater.api.scope import PodcastName, UserName, the_podcast
from headwater.app import App
from headwater.model import Podcast
from headwater.operations.articles import FeedDocument, newest_as_feed
from headwater.rules.feeds import ATOM, JSON_FEED, atom_feed, json_feed

Answers = dict[int | str, dict[str, Any]]


def feed_routes(app: App) -> APIRouter:
    """`…/podcasts/{p}/feed.atom` and `feed.json`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}", tags=["feeds"])
    store = app.store
    most = app.settings.limits.max_page_size
    usual = min(DEFAULT_LIMIT, most)

    @routes.get("/feed.atom", response_class=Response, responses=_answers(ATOM, "string"))
    async def show_atom_feed(
        request: Request,
        u: UserName,
        p: PodcastName,
        limit: Annotated[int, Query(ge=1, le=most)] = usual,
    ) -> Response:
        """Show the newest articles of a podcast as Atom 1.0."""
        podcast = await the_podcast(store, request, u, p)
        address = _address(request, podcast, "feed.atom", limit if limit != usual else None)
        write = partial(atom_feed, address=address)
        return _answer(request, await newest_as_feed(store, podcast, limit, write), ATOM)

    @routes.get("/feed.json", response_class=Response, responses=_answers(JSON_FEED, "object"))
    async def show_json_feed(
        request: Request,
        u: UserName,
        p: PodcastName,
        limit: Annotated[int, Query(ge=1, le=most)] = usual,
    ) -> Response:
        """Show the newest articles of a podcast as JSON Feed 1.1."""
        podcast = await the_podcast(store, request, u, p)
        address = _address(request, podcast, "feed.json", limit if limit != usual else None)
        write = partial(json_feed, address=address)
        return _answer(request, await newest_as_feed(store, podcast, limit, write), JSON_FEED)

    return routes


def _answers(media_type: str, kind: str) -> Answers:
    tag = {"ETag": {"description": "Names this very document.", "schema": {"type": "string"}}}
    document = {"schema": {"type": kind}}
    return {
        200: {"description": "The feed.", "content": {media_type: document}, "headers": tag},
        304: {"description": "It is the one that `If-None-Match` names.", "headers": tag},
    }


def _address(request: Request, podcast: Podcast, name: str, limit: int | None) -> str:
    """Where the document is served, by ids: they stay when names change."""
    user, own = quote(podcast.user_id, safe=""), quote(podcast.id, safe="")
    query = "" if limit is None else f"?limit={limit}"
    return f"{request.base_url}api/users/{user}/podcasts/{own}/{name}{query}"


def _answer(request: Request, document: FeedDocument, media_type: str) -> Response:
    """The document, unless the caller says to have it already."""
    tag = f'"{document.digest}"'
    # readers may keep it and must ask each time; nobody in between may
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _names(request.headers.getlist("If-None-Match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(document.content, headers=headers, media_type=media_type)


def _names(conditions: list[str], tag: str) -> bool:
    """Whether `If-None-Match` names a tag; marks of weakness do not matter there (RFC 9110)."""
    given = [one.strip().removeprefix("W/") for line in conditions for one in line.split(",")]
    return "*" in given or tag in given
