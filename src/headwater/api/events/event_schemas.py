"""Models of the events of the stream, for the OpenAPI document."""

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from headwater.api.schemas.outputs import (
    AlsoFromOut,
    EnclosureOut,
    Moment,
    PostOut,
    ResponseModel,
    SourceKey,
)
from headwater.api.schemas.service_outputs import IncidentOut
from headwater.api.schemas.source_outputs import PollOut
from headwater.engine.events import EventKind
from headwater.model import FilteredBy

RESET = "reset"


class _EventData(ResponseModel):
    at: Moment = Field(description="When it happened.")


class _SourceEventData(_EventData):
    source_id: SourceKey = Field(description="The source.")
    podcast_id: str = Field(description="The podcast of the source.")
    user_id: str = Field(description="The user who owns it.")
    url: str = Field(
        description="The address of the source; without credentials unless the caller owns it."
    )
    host: str | None = Field(description="The host in whose lane it is polled; null: none.")


class PollStartedEvent(_SourceEventData):
    """A poll started."""


class PollFinishedEvent(_SourceEventData, PollOut):
    """A poll finished, with its outcome."""


class PostCreatedEvent(PostOut, _SourceEventData):
    """A post was stored.

    The event has neither its text nor its lists, score and annotations. `url` is the address of the
    post.
    """

    body: str = Field(exclude=True)
    markdown: str | None = Field(exclude=True)
    enclosures: tuple[EnclosureOut, ...] = Field(exclude=True)
    categories: tuple[str, ...] = Field(exclude=True)
    full_text_error: str | None = Field(exclude=True)  # its page is not read yet
    expires_at: Moment | None = Field(exclude=True)
    score: float | None = Field(exclude=True)
    annotations: dict[str, Any] | None = Field(exclude=True)
    story_id: str | None = Field(exclude=True)  # not compared with other posts yet
    also_from: tuple[AlsoFromOut, ...] = Field(exclude=True)
    filtered_by: FilteredBy | None = Field(exclude=True)  # there is no event of a filtered post


class SourceDisabledEvent(_SourceEventData):
    """Failures disabled a source."""

    disabled_reason: str | None = Field(description="The reason.")


class SourceRecoveredEvent(_SourceEventData):
    """A source succeeded after failures."""


class ArticlesExpiringEvent(_EventData):
    """Unprocessed articles or posts in no article of a podcast expire within a day.

    Each is counted in one event, at most one per podcast and hour.
    """

    podcast_id: str = Field(description="The podcast.")
    user_id: str = Field(description="The user who owns it.")
    articles: int = Field(description="Number of unprocessed articles.")
    posts: int = Field(description="Number of posts in no article.")


class TickEvent(_EventData):
    """The scheduler searched for due sources."""

    sources: int = Field(description="Number of sources that it submitted to lanes.")


class OutageEvent(_EventData):
    """A network outage of this machine began or ended."""

    kind: str | None = Field(description="The kind of outage; null: it ended.")


class IncidentOpenedEvent(IncidentOut, _EventData):
    """A problem began."""


class IncidentClosedEvent(IncidentOut, _EventData):
    """A problem ended."""


class ResetEvent(_EventData):
    """Events were missed; reload what depends on them."""

    reason: str = Field(description="Why events were missed.")


class _AsJsonText:
    """Describes a field whose value is JSON text of the annotated type."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": handler(core),
        }


class EventOut(ResponseModel):
    """One event of the stream."""

    id: str = Field(description="Send it as `Last-Event-ID` to resume after this event.")
    event: str = Field(
        description="The kind of event.", json_schema_extra={"enum": [*EventKind, RESET]}
    )
    data: Annotated[
        PollStartedEvent
        | PollFinishedEvent
        | PostCreatedEvent
        | SourceDisabledEvent
        | SourceRecoveredEvent
        | ArticlesExpiringEvent
        | TickEvent
        | OutageEvent
        | IncidentOpenedEvent
        | IncidentClosedEvent
        | ResetEvent,
        _AsJsonText(),
    ] = Field(description="JSON text; its schema depends on the kind of event.")
