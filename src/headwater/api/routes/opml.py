"""Import and export of sources as OPML files."""

from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from headwater.api.chunked_json import streamed
from headwater.api.dependencies import CurrentApp, OwnPodcast
from headwater.api.openapi import documented_router
from headwater.api.schemas.outputs import EXAMPLE_FEED, ImportedOut, ImportOut
from headwater.operations.opml_import import export_opml

MEDIA_TYPE = "text/x-opml"
_EXAMPLE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<opml version="2.0"><head><title>default</title>'
    f'</head><body><outline type="rss" text="Example" xmlUrl="{EXAMPLE_FEED}"/></body></opml>\n'
)
_TEXT: dict[str, Any] = {"schema": {"type": "string"}, "example": _EXAMPLE}
_ANY_FILE: dict[str, Any] = {
    "requestBody": {
        "description": "The file; its media type is not checked.",
        "required": True,
        "content": {MEDIA_TYPE: _TEXT, "application/xml": _TEXT},
    }
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "An OPML 2.0 file.", "content": {MEDIA_TYPE: _TEXT}}
}
routes = documented_router("/api/users/{u}/podcasts/{p}/opml", "opml")


@routes.post("", response_model=ImportOut, openapi_extra=_ANY_FILE)
async def import_sources(request: Request, app: CurrentApp, podcast: OwnPodcast) -> Response:
    """Add the feeds of an OPML file that are not sources yet, and return a result for each.

    A feed is an outline with an `xmlUrl`; others are folders (`folder` of a source). An outline
    with a wrong setting in an attribute of Headwater is rejected. An address at X becomes an X
    timeline, as when a source is added. A feed exists already if a source has the same address
    in another spelling (upper case, default port, fragment, `@name`). A file without feeds, or
    one that is cut off, is refused with 422, and nothing is added.
    """
    lines = await app.imports.take(podcast, await request.body())
    return streamed({}, lines, ImportedOut.of)


@routes.get("", response_class=Response, responses=_FILE)
async def export_sources(app: CurrentApp, podcast: OwnPodcast) -> Response:
    """Export the sources of a podcast as OPML, with all settings and unmasked URLs."""
    file = await export_opml(app.store, podcast, app.clock.now())
    disposition = f"attachment; filename*=UTF-8''{quote(podcast.name, safe='')}.opml"
    return Response(file, media_type=MEDIA_TYPE, headers={"Content-Disposition": disposition})
