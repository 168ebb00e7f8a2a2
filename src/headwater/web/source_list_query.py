"""The query of a list of sources in its URL: filters, order and cursor."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from headwater.api.schemas.pagination import cursor_for, position_in
from headwater.errors import UsageError
from headwater.model import Health, SourceType
from headwater.operations.sources import host_named
from headwater.rules.text_checks import is_one_line
from headwater.store.source_pages import Position, SourceOrder
from headwater.store.sources import SourceFilter
from headwater.web.humanize import HEALTH_LABELS

ENABLED = "enabled"  # in addition to the healths: all but the disabled ones
TYPE_LABELS = {SourceType.RSS: "feed", SourceType.WEBSITE: "website", SourceType.TWITTER: "X"}
STATE_LABELS: Mapping[str, str] = {
    ENABLED: "enabled",
    **{health.value: word for health, word in HEALTH_LABELS.items()},
}
ORDER_LABELS = {
    SourceOrder.NEWEST: "newest first",
    SourceOrder.OLDEST: "oldest first",
    SourceOrder.URL: "by URL",
    SourceOrder.NAME: "by name",
    SourceOrder.POLLED: "last checked first",
    SourceOrder.FAILURES: "most failures first",
}
_FILTERS = ("q", "health", "type", "host", "folder")
_MAX_LENGTH = 500


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Filters, order and cursor; empty: not set."""

    base: str
    q: str = ""
    health: str = ""
    type: str = ""
    host: str = ""
    folder: str = ""
    sort: SourceOrder = SourceOrder.NEWEST
    cursor: str = ""
    has_errors: bool = False  # part of the query is invalid and was ignored

    @property
    def url(self) -> str:
        """The URL of this page."""
        given = {name: getattr(self, name) for name in (*_FILTERS, "cursor")}
        if self.sort is not SourceOrder.NEWEST:
            given["sort"] = self.sort.value
        text = urlencode({name: value for name, value in given.items() if value})
        return f"{self.base}?{text}" if text else self.base

    @property
    def first(self) -> "ListQuery":
        """The same list from its beginning."""
        return replace(self, cursor="")

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is set."""
        return any(getattr(self, name) for name in _FILTERS)

    @property
    def active_filters(self) -> Sequence[tuple[str, str]]:
        """The label of each filter that is set, and the URL of the list without it."""
        labels = {
            "q": f"contains “{self.q}”" if self.q else "",
            "health": STATE_LABELS.get(self.health, ""),
            "type": TYPE_LABELS[SourceType(self.type)] if self.type else "",
            "host": f"on {self.host}" if self.host else "",
            "folder": f"in the folder {self.folder}" if self.folder else "",
        }
        found = []
        for name in _FILTERS:
            nothing: dict[str, Any] = {name: ""}
            if labels[name]:
                found.append((labels[name], replace(self.first, **nothing).url))
        return found

    def wanted(self, podcast_id: str) -> SourceFilter:
        """Return the filter for the store."""
        return SourceFilter(
            podcast_id=podcast_id,
            type=SourceType(self.type) if self.type else None,
            enabled=True if self.health == ENABLED else None,
            host=_host(self.host) if self.host else None,
            folder=self.folder or None,
            text=self.q or None,
            health=Health(self.health) if self.health not in ("", ENABLED) else None,
        )

    @property
    def after(self) -> Position | None:
        """The position after which the page begins; None if the cursor is for another order."""
        try:
            position = position_in(self.cursor or None, str, str, str)
            key: Any = None if position is None else json.loads(str(position[1]))
        except (UsageError, ValueError, RecursionError):
            return None
        if position is None or position[0] != self.sort.value:
            return None
        # the cursor comes from outside: the database must be able to compare with the key
        if self.sort in (SourceOrder.URL, SourceOrder.NAME):
            is_key = isinstance(key, str) and is_one_line(key)
        else:
            is_key = type(key) is int and abs(key) < 2**63
        return (key, str(position[2])) if is_key else None

    def page_at(self, position: Position | None, sort: SourceOrder) -> str | None:
        """Return the URL of the page after a position; None if there is no position."""
        if position is None:
            return None
        cursor = cursor_for((sort.value, json.dumps(position[0]), position[1]))
        return replace(self, sort=sort, cursor=cursor).url


def read_list_query(base: str, params: Mapping[str, str]) -> ListQuery:
    """Return the query of a URL; invalid parts are ignored."""
    texts = {name: params.get(name, "").strip() for name in (*_FILTERS, "sort", "cursor")}
    given = {name: text for name, text in texts.items() if text}
    good: dict[str, Any] = {n: text for n, text in given.items() if _is_valid(n, text)}
    has_errors = len(good) < len(given)
    sort = SourceOrder(good.pop("sort", SourceOrder.NEWEST))
    return ListQuery(base=base, sort=sort, has_errors=has_errors, **good)


def _is_valid(name: str, text: str) -> bool:
    choices: Mapping[str, Collection[str]] = {
        "health": STATE_LABELS,
        "type": tuple(SourceType),
        "sort": tuple(SourceOrder),
    }
    if name in choices:
        return text in choices[name]
    return is_one_line(text) and (name == "cursor" or len(text) <= _MAX_LENGTH)


def _host(text: str) -> str:
    """Return a host name in normal form; an invalid one matches no source."""
    try:
        return host_named(text)
    except UsageError:
        return text
