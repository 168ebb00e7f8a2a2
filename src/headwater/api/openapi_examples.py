"""Examples for the OpenAPI document, put together from its schemas and the names of fields."""

from typing import Any

Schema = dict[str, Any]
_SOURCE_ID = "5b0b4a3e-8f0c-4a52-9d3e-2f6f1c9a7e10"
_POST_ID = "019c6513-d000-8a41-b7de-51f0c2a9e874"
_ARTICLE_ID = "019c6513-d000-8f0e-9c55-0a4be1d37f26"
_FEED = "https://example.org/feed.xml"
_MOMENT = "2026-02-16T08:00:00.000Z"
_OPML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<opml version="2.0"><head><title>default</title>'
    f'</head><body><outline type="rss" text="Example" xmlUrl="{_FEED}"/></body></opml>\n'
)

# bodies to send: what somebody would write, not all that could be written
_BODIES: dict[str, Any] = {
    "UserInput": {"name": "ann"},
    "PodcastInput": {"name": "Morning news", "maxArticleAgeDays": 14},
    "SourceInput": {"type": "rss", "url": _FEED, "label": "Example", "pollIntervalMinutes": 60},
    "SourcePatch": {"enabled": True, "pollIntervalMinutes": 120},
    "SourceNew": {"url": _FEED, "label": "Example", "pollIntervalMinutes": 60},
    "PreviewInput": {"url": _FEED},
    "BatchInput": {"action": "disable", "filter": {"health": "failing", "host": "example.org"}},
    "ApiKeyInput": {"apiKey": "AAAA-your-key"},
}

# where what somebody would write is not what they would like to have done to `default`
_BODIES_OF_OPERATIONS: dict[str, Any] = {
    "changeUser": {"name": "default"},
    "changePodcast": {"name": "default", "maxArticleAgeDays": 14},
}

# what is different of something that was made just now
_JUST_MADE: dict[str, Any] = {
    "health": "new",
    "lastPolled": None,
    "lastSuccessAt": None,
    "lastSeenId": None,
    "nextPollAt": None,
    "postCount": 0,
    "articleCount": 0,
}

# by the name of the schema where that decides, else by the name of the field alone
_FIELDS: dict[str, Any] = {
    "User.id": "default",
    "User.name": "default",
    "Podcast.id": "default",
    "Podcast.name": "default",
    "Source.id": _SOURCE_ID,
    "Post.id": _POST_ID,
    "Article.id": _ARTICLE_ID,
    "Post.url": "https://example.org/2026/rivers",
    "Article.url": "https://example.org/2026/rivers",
    "PreviewEntry.url": "https://example.org/2026/rivers",
    "Host.enabled": 3,
    "HostCard.enabled": 3,
    "Liveness.schema": 2,
    "Scheduler.inFlight": 0,
    "Worker.id": "db1/4211/9f3c01aa",
    "Worker.inFlight": 7,
    "Worker.shards": 86,
    "Cluster.due": 12,
    "Cluster.overdue": 0,
    "Cluster.oldestOverdueAt": None,
    "Cluster.shards": 256,
    "silent": False,
    "leasesLost": 0,
    "Worker.lanes": 12,
    "Worker.sourcesWaiting": 40,
    "Worker.commits": 310,
    "Worker.results": 18_204,
    "Worker.resultsWaiting": 0,
    "Worker.parseKills": 0,
    "Worker.ticksFailed": 0,
    "Worker.loopLagMaxSeconds": 0.012,
    "machine": "db1",
    "openShards": 86,
    "pid": 4211,
    "polls": 18_204,
    "seenAt": _MOMENT,
    "stalledJobs": 0,
    "waitingJobs": 3,
    "FeedLink.title": "Example",
    "FeedLink.type": "application/rss+xml",
    "aggregate": None,
    "already": 0,
    "articleCount": 12,
    "at": _MOMENT,
    "author": "Ann Example",
    "body": "The river has more water than last year.",
    "bytes": 18_204,
    "checks": {"database": {"ok": True, "detail": "answers"}},
    "consecutiveFailures": 0,
    "contentHash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "createdAt": _MOMENT,
    "dedupeAcrossSources": False,
    "delayOrigin": "the default",
    "delaySeconds": 0,
    "detail": "every 30 min",
    "disabledReason": None,
    "durationMs": 412,
    "effectiveDelaySeconds": 0,
    "effectiveIntervalMinutes": 30,
    "enabled": True,
    "error": None,
    "failing": 0,
    "failingSince": None,
    "failureKind": None,
    "failureType": None,
    "health": "ok",
    "hold": None,
    "host": "example.org",
    "ArticleIdsInput.ids": [_ARTICLE_ID],
    "ids": [_SOURCE_ID],
    "inFlight": None,
    "includeHistory": False,
    "isProcessed": False,
    "label": "Example",
    "lastError": None,
    "lastFailureType": None,
    "lastPolled": _MOMENT,
    "lastSeenId": _MOMENT,
    "lastSuccessAt": _MOMENT,
    "lateEntryHours": None,
    "maxArticleAgeDays": None,
    "maxBackoffHours": None,
    "maxFailures": None,
    "missing": [],
    "newPosts": 3,
    "nextAllowedAt": None,
    "nextCursor": None,
    "nextPollAt": "2026-02-16T08:30:00.000Z",
    "outage": None,
    "outageSince": None,
    "paused": False,
    "podcastId": "default",
    "pollDelaySeconds": None,
    "pollIntervalMinutes": 30,
    "postCount": 37,
    "postIds": [_POST_ID],
    "provider": "x",
    "publishedAt": "2026-02-16T07:58:00.000Z",
    "reason": None,
    "redirectedTo": None,
    "skipped": {"alreadySeen": 17, "duplicate": 0, "tooOld": 0, "beforeCreation": 0, "empty": 0},
    "sourceId": _SOURCE_ID,
    "sourcesRequested": None,
    "startedAt": _MOMENT,
    "status": 200,
    "title": "More water than last year",
    "url": _FEED,
    "userId": "default",
    "version": "0.2.0",
    "what": "interval",
}

_PARAMETERS: dict[str, Any] = {
    "u": "default",
    "p": "default",
    "s": _SOURCE_ID,
    "a": _ARTICLE_ID,
    "provider": "x",
    "host": "example.org",
    "limit": 50,
}

_ATOM = (
    '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
    "<title>default</title><id>urn:uuid:0c9b</id><updated>2026-02-16T08:00:00Z</updated></feed>\n"
)
_METRICS = (
    "# HELP headwater_polls_total Polls that ended, by type and outcome.\n"
    "# TYPE headwater_polls_total counter\n"
    'headwater_polls_total{type="rss",outcome="stored"} 3\n'
)

# answers that are no shapes of ours
_DOCUMENTS: dict[str, Any] = {
    "text/plain": _METRICS,
    "text/x-opml": _OPML,
    "application/xml": _OPML,
    "application/atom+xml": _ATOM,
    "application/feed+json": {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "default",
        "items": [{"id": _ARTICLE_ID, "title": "More water than last year"}],
    },
}


def example_value(schema: Schema, media_type: str, schemas: dict[str, Schema]) -> Any:
    """What something of this schema may look like."""
    if media_type in _DOCUMENTS:
        return _DOCUMENTS[media_type]
    return _value(schema, "", "", schemas)


def example_body(
    operation_id: str, schema: Schema, media_type: str, schemas: dict[str, Schema]
) -> Any:
    """What may be sent to an operation."""
    known = _BODIES_OF_OPERATIONS.get(operation_id)
    return example_value(schema, media_type, schemas) if known is None else known


def just_made(example: dict[str, Any]) -> dict[str, Any]:
    """An example as it is before anything happened to it."""
    return example | {name: value for name, value in _JUST_MADE.items() if name in example}


def example_parameter(parameter: Schema) -> None:
    """Give a parameter an example where one is known and fits."""
    name, schema = parameter["name"], parameter["schema"]
    if name in _PARAMETERS:
        most = schema.get("maximum")
        example = _PARAMETERS[name]
        parameter["example"] = min(example, most) if most is not None else example


def _value(schema: Schema, owner: str, name: str, schemas: dict[str, Schema]) -> Any:
    if name and "const" not in schema and (known := _known(owner, name)):
        return known[0]
    if "$ref" in schema:
        owner = schema["$ref"].rpartition("/")[2]
        if owner in _BODIES:
            return _BODIES[owner]
        return _value(schemas[owner], owner, "", schemas)
    return _made(schema, owner, schemas)


def _known(owner: str, name: str) -> list[Any]:
    """The example of a field, as a list of one: it may be None."""
    return [_FIELDS[key] for key in (f"{owner}.{name}", name) if key in _FIELDS]


def _made(schema: Schema, owner: str, schemas: dict[str, Schema]) -> Any:
    """An example by type alone."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return _value(choices[0], owner, "", schemas)
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {name: _value(one, owner, name, schemas) for name, one in fields.items()}
        case "array":
            return [_value(schema.get("items", {}), owner, "", schemas)]
        case "integer" | "number":
            return max(schema.get("minimum", 1), 1)
        case "boolean":
            return True
        case "string":
            return _MOMENT if schema.get("format") == "date-time" else "text"
    return None
