"""The newest articles of a podcast as Atom and JSON Feed, for any feed reader."""

import asyncio
import hashlib
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from headwater.api.dependencies import CurrentApp, Limit, OwnPodcast
from headwater.api.openapi import Responses, documented_router
from headwater.api.schemas.outputs import EXAMPLE_ARTICLE
from headwater.api.schemas.pagination import DEFAULT_LIMIT
from headwater.app import App
from headwater.formats.article_feeds import ATOM, JSON_FEED, atom_feed, json_feed
from headwater.model import Podcast
from headwater.operations.articles import newest_as_feed

ATOM_EXAMPLE = (
    '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
    "<title>default</title><id>urn:uuid:0c9b</id><updated>2026-02-16T08:00:00Z</updated></feed>\n"
)
JSON_EXAMPLE = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "default",
    "items": [{"id": EXAMPLE_ARTICLE, "title": "More water than last year"}],
}
FEED_WRITERS = {ATOM: atom_feed, JSON_FEED: json_feed}
routes = documented_router("/api/users/{u}/podcasts/{p}", "feeds")


def feed_responses(media_type: str, kind: str, example: Any) -> Responses:
    """Describe the responses of a route that serves a feed."""
    tag = {"ETag": {"description": "Identifies this document.", "schema": {"type": "string"}}}
    document = {"schema": {"type": kind}, "example": example}
    return {
        200: {"description": "The feed.", "content": {media_type: document}, "headers": tag},
        304: {"description": "The document has not changed.", "headers": tag},
    }


@routes.get(
    "/feed.atom", response_class=Response, responses=feed_responses(ATOM, "string", ATOM_EXAMPLE)
)
async def show_atom_feed(
    request: Request, app: CurrentApp, podcast: OwnPodcast, limit: Limit
) -> Response:
    """Get the newest articles of a podcast as Atom 1.0."""
    return await _feed(request, app, podcast, limit, ATOM)


@routes.get(
    "/feed.json",
    response_class=Response,
    responses=feed_responses(JSON_FEED, "object", JSON_EXAMPLE),
)
async def show_json_feed(
    request: Request, app: CurrentApp, podcast: OwnPodcast, limit: Limit
) -> Response:
    """Get the newest articles of a podcast as JSON Feed 1.1."""
    return await _feed(request, app, podcast, limit, JSON_FEED)


async def _feed(
    request: Request, app: App, podcast: Podcast, limit: int, media_type: str
) -> Response:
    address = feed_address(request, app, podcast, limit)
    write = partial(FEED_WRITERS[media_type], address=address)
    content = await newest_as_feed(app.store, podcast, limit, write)
    return await asyncio.to_thread(document_response, request, content, media_type)


def feed_address(request: Request, app: App, podcast: Podcast, limit: int, folder: str = "") -> str:
    """The URL of a feed; it has ids, which do not change as names do."""
    user, own = quote(podcast.user_id, safe=""), quote(podcast.id, safe="")
    name = request.url.path.rpartition("/")[2]
    usual = min(DEFAULT_LIMIT, app.settings.limits.max_page_size)
    query = "" if limit == usual else f"?limit={limit}"
    return f"{request.base_url}api/users/{user}/podcasts/{own}/{folder}{name}{query}"


def document_response(request: Request, content: bytes, media_type: str) -> Response:
    """The document, or 304 if the client has it."""
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    # clients may cache it and must revalidate; shared caches may not store it
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _matches(request.headers.getlist("If-None-Match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def _matches(conditions: list[str], tag: str) -> bool:
    """Whether `If-None-Match` has a tag; the comparison is weak (RFC 9110)."""
    given = [one.strip().removeprefix("W/") for line in conditions for one in line.split(",")]
    return "*" in given or tag in given
