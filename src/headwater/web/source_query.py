"""What a list of sources is asked for in its address: filters, order and place."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from headwater.api.pages import cursor_for, position_in
from headwater.errors import UsageError
from headwater.model import Health, SourceType
from headwater.operations.sources import host_named
from headwater.rules.lines import is_one_line
from headwater.store.source_orders import Place, SourceOrder
from headwater.store.sources import SourceFilter
from headwater.web.words import HEALTH_WORDS

ENABLED = "enabled"  # beside the healths: all but the disabled ones
TYPE_WORDS = {SourceType.RSS: "feed", SourceType.WEBSITE: "website", SourceType.TWITTER: "X"}
STATE_WORDS: Mapping[str, str] = {
    ENABLED: "enabled",
    **{health.value: word for health, word in HEALTH_WORDS.items()},
}
ORDER_WORDS = {
    SourceOrder.NEWEST: "newest first",
    SourceOrder.OLDEST: "oldest first",
    SourceOrder.URL: "by URL",
    SourceOrder.NAME: "by name",
    SourceOrder.POLLED: "last polled first",
    SourceOrder.FAILURES: "most failures first",
}
_FILTERS = ("q", "health", "type", "host")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is set, and the address of the list without it."""

    words: str
    without: str


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Filters, order and place; empty: not set."""

    base: str
    q: str = ""
    health: str = ""
    type: str = ""
    host: str = ""
    sort: SourceOrder = SourceOrder.NEWEST
    cursor: str = ""
    odd: bool = False  # something in the address was not understood and passed over

    @property
    def url(self) -> str:
        """The address of this very page."""
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
        """Whether not all sources are asked for."""
        return any(getattr(self, name) for name in _FILTERS)

    @property
    def chips(self) -> Sequence[Chip]:
        """The filters that are set."""
        words = {
            "q": f"contains “{self.q}”" if self.q else "",
            "health": STATE_WORDS.get(self.health, ""),
            "type": TYPE_WORDS[SourceType(self.type)] if self.type else "",
            "host": f"on {self.host}" if self.host else "",
        }
        return [Chip(words[name], self._without(name).url) for name in _FILTERS if words[name]]

    def _without(self, name: str) -> "ListQuery":
        nothing: dict[str, Any] = {name: ""}
        return replace(self.first, **nothing)

    def wanted(self, podcast_id: str) -> SourceFilter:
        """The filter as the store knows it."""
        return SourceFilter(
            podcast_id=podcast_id,
            type=SourceType(self.type) if self.type else None,
            enabled=True if self.health == ENABLED else None,
            host=_host(self.host) if self.host else None,
            text=self.q or None,
            health=Health(self.health) if self.health not in ("", ENABLED) else None,
        )

    @property
    def after(self) -> Place | None:
        """The place behind which the page begins."""
        return _place_in(self.cursor, self.sort)

    def page_at(self, place: Place | None, sort: SourceOrder) -> str | None:
        """The address of the page that begins behind a place, if there is one."""
        if place is None:
            return None
        cursor = cursor_for((sort.value, json.dumps(place[0]), place[1]))
        return replace(self, sort=sort, cursor=cursor).url


def query_in(base: str, params: Mapping[str, str]) -> ListQuery:
    """What an address asks for; what it says that makes no sense is passed over."""
    texts = {name: params.get(name, "").strip() for name in (*_FILTERS, "sort", "cursor")}
    given = {name: text for name, text in texts.items() if text}
    good: dict[str, Any] = {n: text for n, text in given.items() if _makes_sense(n, text)}
    odd = len(good) < len(given)
    sort = SourceOrder(good.pop("sort", SourceOrder.NEWEST))
    return ListQuery(base=base, sort=sort, odd=odd, **good)


def _makes_sense(name: str, text: str) -> bool:
    choices: Mapping[str, Collection[str]] = {
        "health": STATE_WORDS,
        "type": tuple(SourceType),
        "sort": tuple(SourceOrder),
    }
    if name in choices:
        return text in choices[name]
    return is_one_line(text) and (name == "cursor" or len(text) <= _LONGEST)


def _host(text: str) -> str:
    """A host in the spelling that sources know it in; one that is none fits no source."""
    try:
        return host_named(text)
    except UsageError:
        return text


def _place_in(cursor: str, sort: SourceOrder) -> Place | None:
    """The place that a cursor of this order stands for; the beginning for any other."""
    try:
        position = position_in(cursor or None, str, str, str)
        key: Any = None if position is None else json.loads(str(position[1]))
    except (UsageError, ValueError, RecursionError):
        return None
    if position is None or position[0] != sort.value:
        return None
    return (key, str(position[2])) if _is_key(key, sort) else None


def _is_key(key: Any, sort: SourceOrder) -> bool:
    """Whether a database can compare with what somebody may have made up."""
    if sort in (SourceOrder.URL, SourceOrder.NAME):
        return isinstance(key, str) and is_one_line(key)
    return type(key) is int and abs(key) < 2**63
