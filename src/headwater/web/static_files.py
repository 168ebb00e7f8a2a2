"""Style and script of the pages, from the package itself."""

from importlib.resources import files

from fastapi import APIRouter, Response

from headwater.errors import NotFound

_KINDS = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "adding.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}  # its address has a fingerprint


def static_routes() -> APIRouter:
    """`/static/…`."""
    routes = APIRouter(include_in_schema=False)
    folder = files("headwater.web").joinpath("static")
    known = {name: folder.joinpath(name).read_bytes() for name in _KINDS}

    @routes.get("/static/{name}")
    async def static(name: str) -> Response:
        """Serve one of the few files there are."""
        if name not in known:
            raise NotFound(f"there is no file {name}")
        return Response(known[name], media_type=_KINDS[name], headers=_KEPT)

    return routes
