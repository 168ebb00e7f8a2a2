"""The event stream."""

from functools import partial
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response

from headwater.api.dependencies import CurrentApp
from headwater.api.events.event_stream import EventFilter, EventStream
from headwater.api.middleware.authentication import caller_of, is_still_let_in
from headwater.api.openapi import documented_router
from headwater.api.schemas.inputs import NullOmitted
from headwater.api.schemas.pagination import QueryText
from headwater.engine.events import EventKind
from headwater.errors import NotFound, UsageError
from headwater.store import Store

_MAX_NAME_LENGTH = 200
_KIND = "(" + "|".join(kind.replace(".", r"\.") for kind in EventKind) + ")"
_EXAMPLE = """\
: headwater
retry: 2000
id: 1771228800000-41

id: 1771228800000-42
event: post.created
data: {"at":"2026-02-16T08:00:00.412Z","sourceId":"5f0c","podcastId":"default",\
"userId":"default","url":"https://example.org/2026/rivers","host":"example.org","id":"019c6513",\
"title":"More water than last year","publishedAt":"2026-02-16T07:58:00.000Z","author":null,\
"contentHash":"9f86d081","createdAt":"2026-02-16T08:00:00.412Z","seq":4711,"language":"en",\
"imageUrl":null,"completeness":"full","textFrom":"feed"}

id: 1771228800000-43
event: tick
data: {"at":"2026-02-16T08:01:00.000Z","sources":12}

"""
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events that has no end.",
        "content": {
            EventStream.media_type: {
                "schema": {"$ref": "#/components/schemas/Event"},
                "example": _EXAMPLE,
            }
        },
    },
    404: {"description": "The podcast or source does not exist, or belongs to another user."},
    429: {"description": "The caller has too many open streams."},
}
Podcast = Annotated[
    QueryText,
    Query(
        max_length=_MAX_NAME_LENGTH,
        description="Only events of this podcast (its id; users may also send the name).",
    ),
]
Source = Annotated[
    QueryText, Query(max_length=_MAX_NAME_LENGTH, description="Only events of this source.")
]
Types = Annotated[
    str | None,
    NullOmitted(),
    Query(
        max_length=500,
        description=f"Only these kinds, separated by commas: {', '.join(EventKind)}.",
        json_schema_extra={"pattern": f"^{_KIND}(,{_KIND})*$"},
    ),
]
LastId = Annotated[
    QueryText,
    Query(
        alias="lastEventId",
        max_length=_MAX_NAME_LENGTH,
        description="The same as the header, for clients that cannot set it.",
    ),
]
LastIdHeader = Annotated[
    str | None,
    NullOmitted(),
    Header(alias="Last-Event-ID", description="Resume after the event with this id."),
]
routes = documented_router("/api/events", "events")


@routes.get("", status_code=200, response_class=Response, responses=_RESPONSES)
async def follow_events(
    request: Request,
    app: CurrentApp,
    podcast: Podcast = None,
    source: Source = None,
    types: Types = None,
    last_event_id: LastId = None,
    last_event_id_header: LastIdHeader = None,
) -> EventStream:
    """Stream events of the caller's sources as server-sent events.

    Each event has an id, a type and one line of JSON: `poll.started`, `poll.finished` (with
    the outcome), `post.created` (a post without its text), `source.disabled`,
    `source.recovered`, and for every caller `tick` (how many sources became due) and `outage`
    (its kind; null: it ended). `incident.opened` and `incident.closed` are for the owner of its
    sources, or for administrators. A client that reconnects with the id of its last event gets
    the following ones; if they are no longer stored, the stream starts with `reset`: reload
    what depends on events. A client that reads too slowly is disconnected.
    """
    user_id = caller_of(request).user_id
    wanted = EventFilter(
        user_id=user_id,
        podcast_id=None if podcast is None else await _podcast_id(app.store, user_id, podcast),
        source_id=None if source is None else await _source_id(app.store, user_id, source),
        kinds=None if types is None else _kinds(types),
    )
    last_id = last_event_id_header or last_event_id
    is_authorized = partial(is_still_let_in, request)
    state = request.app.state
    return EventStream(state.event_log, wanted, last_id, is_authorized, state.stream_limits)


async def _podcast_id(store: Store, user_id: str | None, name: str) -> str:
    """The id of a podcast given without its user: an id for administrators, else id or name."""
    if user_id is None:
        return (await store.accounts.podcast_with(name)).id
    return (await store.accounts.podcast(user_id, name)).id


async def _source_id(store: Store, user_id: str | None, wanted: str) -> str:
    """The id of a source given without its podcast, if visible to the caller."""
    subject = await store.sources.subject(wanted)
    if subject is None or user_id not in (None, subject.user_id):
        raise NotFound(f"there is no source {wanted}")
    return subject.source.id


def _kinds(types: str) -> frozenset[EventKind]:
    try:
        return frozenset(EventKind(name.strip()) for name in types.split(","))
    except ValueError as error:
        known = ", ".join(EventKind)
        raise UsageError(f"the kinds of events are: {known}", field="types") from error
