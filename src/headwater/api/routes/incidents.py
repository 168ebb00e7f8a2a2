"""Incidents: problems that need attention, as a list and as a feed."""

from typing import Annotated

from fastapi import Query, Request, Response

from headwater.api.dependencies import CurrentApp, CurrentCaller, CurrentService, Page
from headwater.api.openapi import documented_router
from headwater.api.routes.feeds import document_response, feed_responses
from headwater.api.schemas.inputs import NullOmitted
from headwater.api.schemas.pagination import ListPage, QueryText, page_of, position_in
from headwater.api.schemas.service_outputs import IncidentOut
from headwater.formats.article_feeds import ATOM, incident_feed
from headwater.operations.incidents import incident_page
from headwater.store.incidents import incident_position

_MOST_IN_FEED = 50
_ATOM_EXAMPLE = (
    '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
    "<title>Headwater incidents</title><id>urn:headwater:incidents:default</id>"
    "<updated>2026-02-16T08:00:00Z</updated></feed>\n"
)
Open = Annotated[
    bool | None,
    NullOmitted(),
    Query(description="true: only those that are open; false: only those that are closed."),
]
FeedToken = Annotated[
    QueryText,
    Query(
        max_length=200,
        description="An access token, for feed readers that cannot send one otherwise. Use one "
        "with the scope `read`: addresses of feeds are stored in many places.",
    ),
]
routes = documented_router("/api/incidents", "incidents")


@routes.get("")
async def list_incidents(
    app: CurrentApp,
    service: CurrentService,
    caller: CurrentCaller,
    page: Page,
    open_: Annotated[Open, Query(alias="open")] = None,
) -> ListPage[IncidentOut]:
    """List problems: open ones first, the worst first, then the oldest first.

    With a user's token, those of that user's sources. Closed ones are kept for 90 days.
    """
    found = await incident_page(
        app.store,
        service,
        caller.user_id,
        limit=page.limit + 1,
        is_open=open_,
        after=position_in(page.cursor, int, str, int, str),
    )
    return page_of(found, page.limit, IncidentOut.of, incident_position)


@routes.get(
    "/feed.atom", response_class=Response, responses=feed_responses(ATOM, "string", _ATOM_EXAMPLE)
)
async def show_incident_feed(
    request: Request,
    app: CurrentApp,
    caller: CurrentCaller,
    token: FeedToken = None,  # noqa: ARG001 - Authentication reads it
) -> Response:
    """Get the newest incidents as Atom 1.0: an entry is updated when its incident ends.

    The token is needed only where tokens are used at all.
    """
    newest = await app.store.incidents.newest(caller.user_id, limit=_MOST_IN_FEED)
    address = f"{request.base_url}api/incidents/feed.atom"
    dashboard = app.settings.server.public_url or str(request.base_url).rstrip("/")
    content = incident_feed(
        newest, caller.user_id, app.clock.now(), address=address, dashboard=dashboard
    )
    return document_response(request, content, ATOM)
