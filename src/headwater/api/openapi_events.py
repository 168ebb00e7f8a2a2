"""The events of the stream in the OpenAPI document: a shape for what each kind tells."""

from typing import Any

from headwater.engine.events import EventKind

Schema = dict[str, Any]
RESET = "reset"
_TEXT_OR_NULL: Schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_AT: Schema = {"at": _MOMENT | {"description": "When it happened."}}
_ABOUT: Schema = _AT | {
    "sourceId": {"type": "string", "description": "The source it is about."},
    "podcastId": {"type": "string", "description": "The podcast of that source."},
    "userId": {"type": "string", "description": "Whose it is."},
    "url": {
        "type": "string",
        "description": "The address of the source; to others than its owner without credentials.",
    },
    "host": {
        **_TEXT_OR_NULL,
        "description": "Whose lane it is polled in; null: it has no host.",
    },
}
_DISABLED: Schema = {
    "disabledReason": {**_TEXT_OR_NULL, "description": "Why failures disabled it."}
}
_TICK: Schema = {
    "sources": {"type": "integer", "description": "How many sources it handed to their lanes."}
}
_OUTAGE: Schema = {
    "kind": {**_TEXT_OR_NULL, "description": "Of which kind it is; null: it is over."}
}
_RESET: Schema = {"reason": {"type": "string", "description": "Why something was missed."}}


def event_schemas(schemas: Schema) -> Schema:
    """The shape of an event, and of what each kind tells, made of the shapes of polls and posts."""
    poll, post = (schemas.get(name, {}).get("properties", {}) for name in ("Poll", "Post"))
    without_body = {name: shape for name, shape in post.items() if name != "body"}
    kinds = {
        EventKind.POLL_STARTED: ("A poll began.", _ABOUT),
        EventKind.POLL_FINISHED: ("A poll ended, and what came of it.", _ABOUT | poll),
        EventKind.POST_CREATED: (
            "A post was stored; `url` is the post's, and its body is not told.",
            _ABOUT | without_body,
        ),
        EventKind.SOURCE_DISABLED: ("Failures have disabled a source.", _ABOUT | _DISABLED),
        EventKind.SOURCE_RECOVERED: ("A source that failed succeeded again.", _ABOUT),
        EventKind.TICK: ("The scheduler looked for due sources.", _AT | _TICK),
        EventKind.OUTAGE: ("This machine seems cut off, or is not any more.", _AT | _OUTAGE),
        RESET: ("Something was missed: load anew what you show.", _AT | _RESET),
    }
    told = {schema_name(kind): _object(*shape) for kind, shape in kinds.items()}
    return {"Event": _event(list(kinds), list(told))} | told


def schema_name(kind: str) -> str:
    """The name of the shape of what a kind of event tells: `PollStartedEvent`."""
    return "".join(part.title() for part in kind.split(".")) + "Event"


def _object(description: str, properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }


def _event(kinds: list[str], names: list[str]) -> Schema:
    shapes = ", ".join(f"`{name}`" for name in names)
    fields = {
        "id": {"type": "string", "description": "Send it as `Last-Event-ID` to go on from here."},
        "event": {"type": "string", "enum": kinds, "description": "What happened."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in names]
            },
            "description": f"What is known of it, by what happened: {shapes}.",
        },
    }
    return _object("One event of the stream.", fields) | {"required": ["event", "data"]}
