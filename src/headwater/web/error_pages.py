"""What went wrong, as a page from which one gets on."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import Response

from headwater.api.callers import FOR_PROGRAMS
from headwater.errors import NotFound, StoreError
from headwater.store import Store
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages

Handler = Callable[[Request, Any], Response | Awaitable[Response]]


class _Said(NamedTuple):
    title: str
    message: str | None = None  # None: the error says it best


_UNKNOWN = _Said("That did not work")
_WORDS = {
    403: _Said("This is not yours to do"),
    404: _Said(
        "There is nothing here",
        "What was here may have been deleted, or the address has a mistake in it.",
    ),
    405: _Said("There is nothing to open here", "This address takes what forms send to it."),
    413: _Said("That is too much at once"),
    422: _Said("That cannot be done like this"),
    429: _Said("That is too much at once"),
    500: _Said(
        "Something broke on our side",
        "What happened is in the log. Trying again does no harm.",
    ),
    503: _Said("Not right now"),
}


def told_as_page(store: Store, pages: Pages, handler: Handler) -> Handler:
    """Show what went wrong as a page where a person looks, as a document where a program does."""

    async def told(request: Request, error: Exception) -> Response:
        answer = handler(request, error)
        answer = answer if isinstance(answer, Response) else await answer
        if request.url.path.startswith(FOR_PROGRAMS) or "caller" not in request.scope:
            return answer
        status = answer.status_code
        title, message = _WORDS.get(status, _UNKNOWN)
        place = None if status >= 500 else await _place(store, request)
        return pages.show(
            request,
            "error.html",
            place,
            status=status,
            title=title,
            message=message or _detail(answer),
        )

    return told


async def _place(store: Store, request: Request) -> Place | None:
    """Where the page stands, in the podcast of its address where that one may be seen."""
    try:
        try:
            return await place_of(store, request, request.path_params.get("p"))
        except NotFound:
            return await place_of(store, request)
    except (NotFound, StoreError):
        return None


def _detail(document: Response) -> str:
    """What a problem document says, as a sentence."""
    text: str = json.loads(bytes(document.body))["detail"]
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
