"""What the OpenAPI document says in words: of the whole, its tags, parameters and access."""

from typing import Any

from headwater.engine.events import EventKind
from headwater.operations.people import PROVIDERS

ABOUT: dict[str, Any] = {
    "summary": "Watches feeds, web pages and X timelines, and hands over clean posts and articles.",
    "description": (
        "JSON with names in camelCase; moments are UTC, as `2026-02-16T08:00:00.000Z`. Errors are "
        "problem documents (RFC 9457). A list comes in pages: `limit` says how long a page may "
        "be, and `nextCursor` of an answer, sent as `cursor`, brings the next page; null is the "
        "end. A field of a body that nobody knows is an error; fields of an answer that cannot "
        "be written are ignored, so that what GET gave can be changed and sent back with PUT. "
        "Whoever is at the machine itself needs no token until the first one is made."
    ),
    "license": {"name": "MIT", "identifier": "MIT"},
}

TAGS = {
    "users": "Who owns podcasts, and their API keys at other services.",
    "tokens": "What lets programs and people in.",
    "podcasts": "What sources are gathered for.",
    "sources": "What is watched: feeds, web pages, X timelines.",
    "posts": "What polls have brought.",
    "articles": "What scripts are written from, made of posts.",
    "subscriptions": "Lists of sources as OPML files.",
    "opml": "Lists of sources as OPML files.",
    "feeds": "The articles of a podcast, for any feed reader.",
    "hosts": "Who is asked, how often, and what they said to that.",
    "events": "What happens, as it happens.",
    "scheduler": "Whether sources are polled by themselves.",
    "operations": "Whether the program lives and works.",
    "docs": "How to ask.",
}

# the names of operations whose functions have shorter ones
OPERATIONS = {
    "explain": "explainSource",
    "health": "getHealth",
    "metrics": "getMetrics",
    "poll": "pollSource",
    "preview": "previewSource",
    "ready": "getReadiness",
    "switch": "changeScheduler",
}

PARAMETERS = {
    "limit": "How many to show at most.",
    "cursor": "`nextCursor` of the page before.",
}

# what a route checks by itself, and the framework therefore does not know
_ONE_TYPE = "(" + "|".join(kind.replace(".", r"\.") for kind in EventKind) + ")"
PARAMETER_SCHEMAS: dict[str, dict[str, Any]] = {
    "provider": {"type": "string", "enum": list(PROVIDERS)},
    "types": {"type": "string", "pattern": f"^{_ONE_TYPE}(,{_ONE_TYPE})*$", "maxLength": 500},
}

_NARROWING: dict[str, dict[str, Any]] = {
    "enabled": {"type": "boolean"},
    "type": {"type": "string"},
    "health": {"type": "string"},
    "host": {"type": "string", "minLength": 1},
    "q": {"type": "string", "minLength": 1},
}

# which fields go together
SCHEMA_RULES: dict[str, dict[str, Any]] = {
    "SourceFilterInput": {
        "oneOf": [
            {
                "required": ["all"],
                "properties": {
                    "all": {"const": True},
                    **{name: {"type": "null"} for name in _NARROWING},
                },
            },
            {
                "properties": {"all": {"enum": [False, None]}},
                "anyOf": [
                    {"required": [name], "properties": {name: shape}}
                    for name, shape in _NARROWING.items()
                ],
            },
        ]
    },
    "BatchInput": {
        "oneOf": [
            {
                "required": ["ids"],
                "properties": {"ids": {"type": "array"}, "filter": {"type": "null"}},
            },
            {
                "required": ["filter"],
                "properties": {"ids": {"type": "null"}, "filter": {"type": "object"}},
            },
        ],
        "if": {"properties": {"action": {"const": "update"}}},
        "then": {
            "required": ["set"],
            "properties": {"set": {"type": "object", "minProperties": 1}},
        },
        "else": {"properties": {"set": {"type": "null"}}},
    },
}

STATUSES = {
    "201": "Made.",
    "202": "Accepted; it goes on behind this answer.",
    "204": "Done; there is nothing to show.",
}

SECURITY_SCHEMES: dict[str, dict[str, str]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token; `headwater tokens add` makes one.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "An access token as password, for feed readers; the name does not matter.",
    },
}
