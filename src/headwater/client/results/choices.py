"""Texts that the API chooses from a list. A newer service may send further ones."""

from typing import Literal

AggregateBy = Literal["source", "thread"]
BatchAction = Literal["enable", "disable", "delete", "poll", "update"]
Completeness = Literal["full", "excerpt", "unknown"]
Delivery = Literal["page", "additions"]
DiffOp = Literal["same", "added", "removed"]
EventKind = Literal[
    "poll.started",
    "poll.finished",
    "post.created",
    "source.disabled",
    "source.recovered",
    "articles.expiring",
    "tick",
    "outage",
    "incident.opened",
    "incident.closed",
    "reset",
]
FailureType = Literal["transient", "permanent"]
Filtered = Literal["false", "true", "any"]
FilteredBy = Literal["source.keep", "source.block", "podcast.keep", "podcast.block"]
FullText = Literal["off", "on"]
Health = Literal["new", "ok", "failing", "disabled"]
ImportOutcome = Literal["added", "exists", "rejected"]
IncidentKind = Literal[
    "disabled", "failing", "selector", "rejecting", "storm", "silent", "outage", "storing", "disk"
]
Order = Literal["newest", "oldest", "new", "rank"]
OutcomeKind = Literal["stored", "unchanged", "failed"]
PostOrder = Literal["new", "rank"]
PostsOfDeleted = Literal["free", "drop"]
Severity = Literal["error", "warning"]
SkipReason = Literal["alreadySeen", "duplicate", "tooOld", "beforeCreation", "empty"]
SourceType = Literal["rss", "website", "twitter"]
SuggestionKind = Literal["ignore", "move", "feed"]
TextFrom = Literal["feed", "page", "x"]
TokenScope = Literal["admin", "user", "read", "metrics"]
WebhookEvent = Literal[
    "post.created",
    "source.disabled",
    "source.recovered",
    "articles.expiring",
    "incident.opened",
    "incident.closed",
]
When = Literal["now", "digest"]
