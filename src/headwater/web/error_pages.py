"""Error pages with navigation."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from headwater.api.middleware.authentication import FOR_PROGRAMS
from headwater.errors import NotFound, StoreError
from headwater.store import Store
from headwater.web.humanize import sentence
from headwater.web.page_context import PageContext, page_context
from headwater.web.rendering import render
from headwater.web.texts import TEXTS

Handler = Callable[[Request, Any], Response | Awaitable[Response]]


def as_error_page(handler: Handler) -> Handler:
    """Wrap an error handler: pages get an error page, the API its problem document."""

    async def handle(request: Request, error: Exception) -> Response:
        response = handler(request, error)
        response = response if isinstance(response, Response) else await response
        if request.url.path.startswith(FOR_PROGRAMS) or "caller" not in request.scope:
            return response
        status = response.status_code
        texts = TEXTS["errors"].get(str(status), {})
        context = None if status >= 500 else await _context(request)
        page = render(
            request,
            "error.html",
            context,
            status=status,
            title=texts.get("title", "That did not work"),
            message=texts.get("message") or sentence(json.loads(bytes(response.body))["detail"]),
        )
        if "retry-after" in response.headers:
            page.headers["Retry-After"] = response.headers["retry-after"]
        return page

    return handle


async def _context(request: Request) -> PageContext | None:
    """Return the page's context, with the podcast of its URL if the caller may see it."""
    store: Store = request.app.state.app.store
    try:
        try:
            return await page_context(store, request, request.path_params.get("p"))
        except NotFound:
            return await page_context(store, request)
    except (NotFound, StoreError):
        return None
