"""X timelines over API v2: a user's posts since the last visit, with the owner's key (X1-X4)."""

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlencode

from headwater.errors import BadUrl, KeyMissing
from headwater.fetch.x_answers import Page, read_page, read_user_id
from headwater.fetch.x_refusals import HOW_TO_SET, refusal
from headwater.model import Answer, Entry, Source
from headwater.rules.urls import parse_url

if TYPE_CHECKING:
    from headwater.fetch.http import Turns

MAX_PAGES = 10
POSTS_PER_PAGE = 100

_EARLIEST_START = datetime(2010, 11, 6, 0, 0, 1, tzinfo=UTC)  # X refuses anything before
_START_MARGIN = timedelta(seconds=30)  # X refuses a start that its own clock has yet to reach
_INLINE_BYTES = 65536  # what is read faster than a thread is woken
_FIELDS = {
    "max_results": str(POSTS_PER_PAGE),
    "tweet.fields": "created_at,note_tweet,referenced_tweets",
    "expansions": "referenced_tweets.id",  # the whole text of a repost comes with it
}
_NAME = re.compile(r"[A-Za-z0-9_]{1,15}")
_SITE = re.compile(r"(?:(?:www|mobile|m)\.)?(?:x|twitter)\.com")
_SITE_PAGES = frozenset(
    "compose explore hashtag home i intent login messages notifications search settings share "
    "signup".split()
)
_LAST_SEEN = re.compile(r"([0-9]{1,19}):([0-9]{1,19})?")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")

T = TypeVar("T")


class Reply(Protocol):
    """What we look at of an HTTP answer."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by name, in any case."""
        ...

    @property
    def body(self) -> bytes:
        """The body, inflated."""
        ...

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        ...


class Getter(Protocol):
    """Whoever sends our requests."""

    async def get(self, url: str, *, headers: Mapping[str, str], turns: "Turns | None") -> Reply:
        """Answer with a reply of any status; trouble on the way is a FetchError."""
        ...


class XTimelines:
    """Fetches the timelines of X users."""

    def __init__(self, client: Getter, *, base_url: str) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")

    async def fetch(
        self,
        source: Source,
        key: str | None,
        *,
        start_time: datetime | None,
        now: datetime,
        turns: "Turns | None" = None,
    ) -> Answer:
        """Bring the posts since the last visit, newest first, or all since `start_time` (X2)."""
        name = user_name(source.url)
        visit = _Visit(self._client, self._base_url, _sendable(key), now, turns)
        user_id, since_id = _last_seen(source)
        if user_id is None:
            user_id = await visit.user_id(name)
        if since_id is None and start_time is None and source.last_seen_id is not None:
            # Nothing was there on the first visit; what is older stays out all the same (D3).
            start_time = None if source.include_history else source.created_at
        pages = await visit.pages(user_id, name, _window(since_id, start_time, now))
        newest = max((page.newest_id for page in pages if page.newest_id), default=0)
        newest = max(newest, int(since_id or 0))
        return Answer(
            status=200,
            entries=_newest_first(pages),
            last_seen_id=f"{user_id}:{newest or ''}",
            size=visit.size,
        )


def user_name(url: str) -> str:
    """The user's name in any spelling of a source's URL (X1)."""
    name = url.strip()
    if "/" in name or "." in name:
        name = _name_in_address(name)
    name = name.removeprefix("@")
    if not _NAME.fullmatch(name):
        raise BadUrl(
            f"{url.strip()[:100]!r} is no X user: give @name or https://x.com/name", field="url"
        )
    return name


def _name_in_address(address: str) -> str:
    """The name in the address of a profile; empty where it is another page, or another site."""
    parsed = parse_url(address if "://" in address else f"https://{address}")
    path = unquote(parsed.target.partition("?")[0]).strip("/")
    is_profile = _SITE.fullmatch(parsed.host) and path.lower() not in _SITE_PAGES
    return path if is_profile else ""


class _Visit:
    """The requests of one poll."""

    def __init__(
        self, client: Getter, base_url: str, key: str, now: datetime, turns: "Turns | None"
    ) -> None:
        self.size = 0
        self._client = client
        self._base_url = base_url
        self._key = key
        self._now = now
        self._turns = turns

    async def user_id(self, name: str) -> str:
        body = await self._body(f"/2/users/by/username/{name}")
        return await _off_loop(lambda: read_user_id(body, key=self._key), body)

    async def pages(self, user_id: str, name: str, window: Mapping[str, str]) -> list[Page]:
        """All pages or none: one that fails must not hide the posts on it for ever (X2)."""
        pages: list[Page] = []
        query = {**_FIELDS, **window}
        while len(pages) < MAX_PAGES:
            path = f"/2/users/{user_id}/tweets?{urlencode(query, safe=',')}"
            page = await self._page(path, name)
            pages.append(page)
            if page.next_token is None:
                break
            query["pagination_token"] = page.next_token
        return pages

    async def _page(self, path: str, name: str) -> Page:
        body = await self._body(path)
        return await _off_loop(lambda: read_page(body, name=name, key=self._key), body)

    async def _body(self, path: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json"}
        reply = await self._client.get(self._base_url + path, headers=headers, turns=self._turns)
        self.size += reply.size
        if not 200 <= reply.status < 300:
            raise refusal(reply.status, reply.headers, reply.body, now=self._now, key=self._key)
        return reply.body


def _sendable(key: str | None) -> str:
    """The key as it can stand in a header, or what the user shall do (X1)."""
    key = (key or "").strip()
    if not key:
        raise KeyMissing(f"the owner of this podcast has no X API key; add one with {HOW_TO_SET}")
    if not _KEY.fullmatch(key):
        raise KeyMissing(f"the X API key is no bearer token; set a working one with {HOW_TO_SET}")
    return key


def _last_seen(source: Source) -> tuple[str | None, str | None]:
    """The user's id and the newest post's; None for what is not known yet (X2)."""
    found = _LAST_SEEN.fullmatch(source.last_seen_id or "")
    return (found[1], found[2]) if found else (None, None)


def _window(since_id: str | None, start_time: datetime | None, now: datetime) -> dict[str, str]:
    """Which part of the timeline to ask for; `since_id` is the sharper of the two."""
    if since_id is not None:
        return {"since_id": since_id}
    if start_time is None:
        return {}
    start = max(min(start_time, now - _START_MARGIN), _EARLIEST_START).astimezone(UTC)
    return {"start_time": start.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _newest_first(pages: list[Page]) -> tuple[Entry, ...]:
    """Each post once, by id: two may share a second, and pages may shift while we read."""
    entries = {int(entry.id or 0): entry for page in pages for entry in page.entries}
    return tuple(entries[id_] for id_ in sorted(entries, reverse=True))


async def _off_loop(read: Callable[[], T], body: bytes) -> T:
    """Read a large answer beside the event loop (H2)."""
    return read() if len(body) <= _INLINE_BYTES else await asyncio.to_thread(read)
