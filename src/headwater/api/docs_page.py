"""The API page: Swagger UI, served from the package (U4); and a page per type of problem."""

import html
import re
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, HTMLResponse

from headwater.api.problem_types import ProblemType

_FOLDER = Path(__file__).parent / "static"
_FILES = {
    "docs.css": _FOLDER / "docs.css",
    "docs.js": _FOLDER / "docs.js",
    "swagger-ui.css": _FOLDER / "swagger-ui" / "swagger-ui.css",
    "swagger-ui.js": _FOLDER / "swagger-ui" / "swagger-ui-bundle.js",
}
_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}  # `v` is a digest


def docs_routes() -> APIRouter:
    """`/api`, `/api/docs` and the files of that page, all without a token."""
    routes = APIRouter(prefix="/api", include_in_schema=False)
    page = (_FOLDER / "docs.html").read_text()
    for name, path in _FILES.items():
        digest = sha256(path.read_bytes()).hexdigest()[:16]
        page = page.replace("{" + name + "}", f"/api/docs/{name}?v={digest}")
        _add_file(routes, name, path, digest)

    @routes.get("")
    async def get_api_links() -> dict[str, str]:
        """Return where the API is documented."""
        return {"docs": "/api/docs", "openapi": "/api/openapi.json"}

    @routes.get("/docs")
    async def get_docs() -> HTMLResponse:
        """Return the API page."""
        return HTMLResponse(page)

    for kind in ProblemType:
        _add_problem_page(routes, kind)
    return routes


def _add_problem_page(routes: APIRouter, kind: ProblemType) -> None:
    page = _problem_page(kind)

    @routes.get(kind.uri.removeprefix("/api"))
    async def get_problem_type() -> HTMLResponse:
        """Return what a type of problem means."""
        return HTMLResponse(page)


def _problem_page(kind: ProblemType) -> str:
    """What the type means, as HTML."""
    text = kind.text
    status = " or ".join(map(str, text.statuses))
    lines = (f"Status {status}. {text.meaning}", text.remedy)
    body = "".join(f"<p>{_with_code(html.escape(line))}</p>" for line in lines)
    title = html.escape(text.title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} – Headwater API</title></head>"
        f'<body><h1>{title}</h1>{body}<p><a href="/api/docs">API</a></p></body></html>'
    )


def _with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _add_file(routes: APIRouter, name: str, path: Path, digest: str) -> None:
    @routes.get(f"/docs/{name}")
    async def get_docs_file(v: Annotated[str, Query(max_length=64)] = "") -> FileResponse:
        """Return one file of the API page; another version's digest must not be cached."""
        return FileResponse(path, headers=_IMMUTABLE if v == digest else None)
