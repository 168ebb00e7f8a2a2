"""Lists of sources as OPML files, in and out."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from headwater.api.schemas import ImportedOut, ImportOut
from headwater.api.scope import PodcastName, UserName, the_podcast
from headwater.api.streams import streamed
from headwater.app import App
from headwater.operations.subscriptions import export_opml

MEDIA_TYPE = "text/x-opml"
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_ANY_FILE: dict[str, Any] = {
    "requestBody": {
        "description": "The file as it is, whatever its type is said to be.",
        "required": True,
        "content": {MEDIA_TYPE: _TEXT, "application/xml": _TEXT},
    }
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "An OPML 2.0 file.", "content": {MEDIA_TYPE: _TEXT}}
}


def opml_routes(app: App) -> APIRouter:
    """`…/podcasts/{p}/opml`."""
    routes = APIRouter(prefix="/api/users/{u}/podcasts/{p}/opml", tags=["opml"])
    store = app.store

    @routes.post("", response_model=ImportOut, openapi_extra=_ANY_FILE)
    async def import_sources(request: Request, u: UserName, p: PodcastName) -> Response:
        """Add the feeds of an OPML file that are not watched yet, and say what became of each.

        A feed is an outline with an `xmlUrl`; others, such as folders, are passed over. One that
        names X is an X timeline, as it would be where a source is added. What is watched in
        another spelling (upper case, usual port, fragment, `@name`) exists.
        """
        podcast = await the_podcast(store, request, u, p)
        lines = await app.imports.take(podcast, await request.body())
        return streamed({}, lines, ImportedOut.of)

    @routes.get("", response_class=Response, responses=_FILE)
    async def export_sources(request: Request, u: UserName, p: PodcastName) -> Response:
        """Give out the sources of a podcast as OPML, with whole URLs."""
        podcast = await the_podcast(store, request, u, p)
        file = await export_opml(store, podcast, app.clock.now())
        named = f"attachment; filename*=UTF-8''{quote(podcast.name, safe='')}.opml"
        return Response(file, media_type=MEDIA_TYPE, headers={"Content-Disposition": named})

    return routes
