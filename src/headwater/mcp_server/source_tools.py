"""Tools about podcasts and sources."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from headwater.mcp_server.tool_call import (
    ERROR,
    TITLE,
    Cursor,
    Id,
    Item,
    PodcastName,
    Tool,
    ToolCall,
    chosen,
    short_url,
)
from headwater.model import Health, SourceType

_MOST = 50  # items in a response
_MOST_PROBLEMS = 25
_POLLS = 10
_STEPS = 30
_SOURCE = Field(description="The id of a source; list_sources lists them.")
Limit = Annotated[int, Field(ge=1, le=_MOST, description="Maximum number of items.")]


class ListPodcasts(Tool):
    """List the podcasts you have access to, with the number of posts that are in no article yet."""

    limit: Limit = _MOST
    cursor: Cursor = None

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """A page of podcasts."""
        page = await call.get("/api/podcasts", limit=self.limit, cursor=self.cursor)
        names = ("id", "name", "userId", "pendingPosts", "aggregateAutomatically", "createdAt")
        items = [chosen(one, names) for one in page["items"]]
        return {"items": items, "nextCursor": page["nextCursor"]}


class ListSources(Tool):
    """List the sources of a podcast: feeds, web pages and X timelines, with their state."""

    podcast: PodcastName = None
    query: Annotated[
        str | None, Field(max_length=200, description="Only those with this text in URL or label.")
    ] = None
    health: Annotated[Health | None, Field(description="Only those in this state.")] = None
    limit: Limit = _MOST
    cursor: Cursor = None

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """A page of sources."""
        path = await call.podcast_path(self.podcast)
        health = None if self.health is None else self.health.value
        page = await call.get(
            f"{path}/sources", q=self.query, health=health, limit=self.limit, cursor=self.cursor
        )
        items = [_source(call, one) for one in page["items"]]
        return {"items": items, "nextCursor": page["nextCursor"]}


class SourceHealth(Tool):
    """Report how polling works: of one source with its last polls, or what is wrong in a podcast.

    Without `source`: the sources of the podcast that fail or are disabled, and the open incidents
    of all your sources, worst first, each with advice.
    """

    podcast: PodcastName = None
    source: Annotated[Id | None, _SOURCE] = None

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The state of one source, or all problems."""
        path = await call.podcast_path(self.podcast)
        if self.source is not None:
            found = await call.get(f"{path}/sources/{self.source}")
            polls = await call.get(f"{path}/sources/{self.source}/polls", limit=_POLLS)
            return _source(call, found) | {"polls": [_poll(call, one) for one in polls["items"]]}
        states = (Health.FAILING.value, Health.DISABLED.value)
        problems, more = [], False
        for state in states:
            page = await call.get(f"{path}/sources", health=state, limit=_MOST_PROBLEMS)
            problems += [_source(call, one) for one in page["items"]]
            more = more or page["nextCursor"] is not None
        incidents = await call.get("/api/incidents", open="true", limit=_MOST_PROBLEMS)
        return {
            "sources": problems,
            "moreSources": more,  # list_sources with `health` lists them all
            "incidents": [_incident(call, one) for one in incidents["items"]],
            "moreIncidents": incidents["nextCursor"] is not None,
        }


class ExplainSource(Tool):
    """Explain step by step when a source is polled next, and why then."""

    podcast: PodcastName = None
    source: Annotated[Id, _SOURCE]

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The steps that lead to the next poll."""
        path = await call.podcast_path(self.podcast)
        found = await call.get(f"{path}/sources/{self.source}/explain")
        steps = [
            chosen(step, ("what", "at")) | {"detail": call.external.mark(step["detail"], ERROR)}
            for step in found["steps"][:_STEPS]
        ]
        return {"nextPollAt": found["nextPollAt"], "steps": steps}


class AddSource(Tool):
    """Add a source to a podcast: the address of a feed, a web page, a channel or an X user.

    Without a type, the address is visited once to find out what it is. An address that the
    podcast has already is refused.
    """

    writes: ClassVar[bool] = True
    podcast: PodcastName = None
    url: Annotated[str, Field(min_length=1, max_length=8192, description="The address.")]
    type: Annotated[
        SourceType | None, Field(description="What it is; left out: it is detected.")
    ] = None
    label: Annotated[str | None, Field(max_length=200, description="A name for it.")] = None
    poll_interval_minutes: Annotated[
        int | None, Field(ge=1, le=525_600, description="Minutes between polls.")
    ] = None
    include_history: Annotated[
        bool, Field(description="Whether entries that are older than the source are stored too.")
    ] = False

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The source that was added."""
        path = await call.podcast_path(self.podcast)
        body = {"url": self.url, "includeHistory": self.include_history}
        optional = {
            "type": self.type and self.type.value,
            "label": self.label,
            "pollIntervalMinutes": self.poll_interval_minutes,
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        added = await call.api.call("POST", f"{path}/sources", {"unique": "true"}, body)
        return _source(call, added) | chosen(added, ("recognisedAs",))


def _source(call: ToolCall, source: Item) -> dict[str, Any]:
    names = (
        "id", "type", "enabled", "health", "host", "pollIntervalMinutes", "lastPolled",
        "lastSuccessAt", "nextPollAt", "consecutiveFailures", "lastFailureType", "failingSince",
        "postCount", "articleCount",
    )  # fmt: skip
    shown = chosen(source, names) | {"url": short_url(source["url"])}
    marked = {
        "name": call.source_name(source),
        "lastError": call.external.mark(source["lastError"], ERROR),
        "disabledReason": call.external.mark(source["disabledReason"], ERROR),
    }
    return shown | chosen(marked, marked)


def _poll(call: ToolCall, poll: Item) -> dict[str, Any]:
    names = ("startedAt", "outcome", "newPosts", "status", "failureType", "failureKind")
    marked = {"error": call.external.mark(poll["error"], ERROR)}
    return chosen(poll, (*names, "durationMs")) | chosen(marked, marked)


def _incident(call: ToolCall, incident: Item) -> dict[str, Any]:
    return chosen(incident, ("id", "kind", "severity", "host", "openedAt")) | {
        "title": call.external.mark(incident["title"], TITLE),
        "advice": call.external.mark(incident["advice"], ERROR),
        "sourceIds": incident["sourceIds"][:_POLLS],
        "sources": len(incident["sourceIds"]),
    }
