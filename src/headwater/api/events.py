"""What happens, as it happens."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from headwater.api.callers import caller_of, is_still_let_in
from headwater.api.event_log import EventLimits, EventLog
from headwater.api.event_stream import EventStream, Streams, Wanted
from headwater.api.scope import podcast_id, source_id
from headwater.app import App
from headwater.engine.events import EventKind, Events
from headwater.errors import UsageError

_LONGEST_NAME = 200
_EXAMPLE = """\
: headwater
retry: 2000
id: 1771228800000-41

id: 1771228800000-42
event: poll.started
data: {"at":"2026-02-16T08:00:00.000Z","sourceId":"5f0c","podcastId":"default",\
"userId":"default","url":"https://example.org/feed","host":"example.org"}

id: 1771228800000-43
event: poll.finished
data: {"at":"2026-02-16T08:00:00.412Z","sourceId":"5f0c","podcastId":"default",\
"userId":"default","url":"https://example.org/feed","host":"example.org","outcome":"stored",\
"newPosts":1,"skipped":{"alreadySeen":17,"duplicate":0,"tooOld":0,"beforeCreation":0,"empty":0},\
"status":200,"failureType":null,"failureKind":null,"error":null,"durationMs":412}

id: 1771228800000-44
event: post.created
data: {"at":"2026-02-16T08:00:00.412Z","sourceId":"5f0c","podcastId":"default",\
"userId":"default","url":"https://example.org/2026/rivers","host":"example.org","id":"019c6513",\
"title":"More water than last year","publishedAt":"2026-02-16T07:58:00.000Z","author":null,\
"contentHash":"9f86d081","createdAt":"2026-02-16T08:00:00.412Z"}

id: 1771228800000-45
event: source.disabled
data: {"at":"2026-02-16T08:00:03.000Z","sourceId":"77aa","podcastId":"default",\
"userId":"default","url":"https://example.org/gone","host":"example.org",\
"disabledReason":"Auto-disabled after 5 consecutive 404 errors"}

id: 1771228800000-46
event: source.recovered
data: {"at":"2026-02-16T08:00:04.000Z","sourceId":"88bb","podcastId":"default",\
"userId":"default","url":"https://example.org/news","host":"example.org"}

id: 1771228800000-47
event: tick
data: {"at":"2026-02-16T08:01:00.000Z","sources":12}

id: 1771228800000-48
event: outage
data: {"at":"2026-02-16T08:01:07.000Z","kind":"DNS"}

id: 1771228800000-48
event: reset
data: {"at":"2026-02-16T08:02:00.000Z","reason":"not all events after this id are kept any more"}

"""
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events that goes on until one of both sides ends it.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    404: {"description": "There is no such podcast or source, or it is somebody else's."},
    429: {"description": "The caller has too many streams open."},
}
Podcast = Annotated[
    str | None,
    Query(max_length=_LONGEST_NAME, description="Only of this podcast (an id; one's own by name)."),
]
Source = Annotated[
    str | None, Query(max_length=_LONGEST_NAME, description="Only of the source with this id.")
]
Types = Annotated[
    str | None,
    Query(max_length=500, description=f"Only these, with commas: {', '.join(EventKind)}."),
]
LastId = Annotated[
    str | None,
    Query(
        alias="lastEventId",
        max_length=_LONGEST_NAME,
        description="The same as the header, for clients that cannot set it.",
    ),
]
LastIdHeader = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="Tell what happened after the event with this id."),
]


def event_streams(app: App, events: Events, limits: EventLimits | None = None) -> Streams:
    """What follows a service's events from now on."""
    most = app.settings.limits.max_event_streams_per_user
    return Streams(EventLog(events, app.clock, limits), app.clock, most_per_user=most)


def event_routes(app: App, streams: Streams) -> APIRouter:
    """`/api/events`."""
    routes = APIRouter(prefix="/api/events", tags=["events"])

    @routes.get("", status_code=200, response_class=EventStream, responses=_ANSWERS)
    async def follow_events(
        request: Request,
        podcast: Podcast = None,
        source: Source = None,
        types: Types = None,
        last_event_id: LastId = None,
        last_event_id_header: LastIdHeader = None,
    ) -> EventStream:
        """Tell what happens to the caller's sources, as server-sent events.

        Each has an id, a type and one line of JSON: `poll.started`, `poll.finished` (with the
        outcome), `post.created` (a post without its body), `source.disabled`,
        `source.recovered`, and for everybody `tick` (how many sources were handed over) and
        `outage` (of which kind; null: it is over). Whoever comes back with the id of the last
        event goes on behind it; if that is not possible any more, the stream begins with
        `reset`: what is known must be loaded anew. A client too slow to follow is dropped.
        """
        store = app.store
        wanted = Wanted(
            user_id=caller_of(request).user_id,
            podcast_id=None if podcast is None else await podcast_id(store, request, podcast),
            source_id=None if source is None else await source_id(store, request, source),
            kinds=None if types is None else _kinds(types),
        )
        last_id = last_event_id_header or last_event_id
        return EventStream(streams, wanted, last_id, partial(is_still_let_in, request))

    return routes


def _kinds(types: str) -> frozenset[EventKind]:
    try:
        return frozenset(EventKind(name.strip()) for name in types.split(","))
    except ValueError as error:
        known = ", ".join(EventKind)
        raise UsageError(f"there are events of these types: {known}", field="types") from error
