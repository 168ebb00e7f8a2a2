"""Entry point of X timelines: a user's posts since the last poll, over API v2 (X1-X4)."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlencode

from headwater.errors import KeyMissing
from headwater.fetch.x.x_responses import HOW_TO_SET, TimelinePage, read_page, read_user_id, refusal
from headwater.model import Answer, Entry, Source
from headwater.rules.x_users import user_name

if TYPE_CHECKING:
    from headwater.fetch.net.http_client import PoliteVisit
    from headwater.fetch.net.http_response import Response

MAX_PAGES = 10
POSTS_PER_PAGE = 100

_EARLIEST_START = datetime(2010, 11, 6, 0, 0, 1, tzinfo=UTC)  # X refuses anything before
_START_MARGIN = timedelta(seconds=30)  # X refuses a start in the future of its own clock
_INLINE_BYTES = 65536  # parsed faster than a thread starts
_FIELDS = {
    "max_results": str(POSTS_PER_PAGE),
    "tweet.fields": "created_at,note_tweet,referenced_tweets,conversation_id,in_reply_to_user_id",
    "expansions": "referenced_tweets.id",  # includes the full text of a repost
}
_LAST_SEEN = re.compile(r"([0-9]{1,19}):([0-9]{1,19})?")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")

T = TypeVar("T")


class HttpGetter(Protocol):
    """Sends HTTP requests."""

    async def get(
        self, url: str, *, headers: Mapping[str, str], visit: "PoliteVisit | None"
    ) -> "Response":
        """The response with any status; raises FetchError if there is none."""
        ...


class XTimelines:
    """Fetches the timelines of X users."""

    def __init__(self, client: HttpGetter, *, base_url: str) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")

    async def fetch(
        self,
        source: Source,
        key: str | None,
        *,
        start_time: datetime | None,
        now: datetime,
        visit: "PoliteVisit | None" = None,
    ) -> Answer:
        """The posts since the last poll, newest first, or all since `start_time` (X2)."""
        name = user_name(source.url)
        session = _Session(self._client, self._base_url, _sendable(key), now, visit)
        user_id, since_id = _last_seen(source)
        if user_id is None:
            user_id = await session.read(read_user_id, f"/2/users/by/username/{name}")
        if since_id is None and start_time is None and source.last_seen_id is not None:
            # The first poll found nothing; older posts stay out all the same (D3).
            start_time = None if source.include_history else source.created_at
        pages = await session.pages(user_id, name, _window(since_id, start_time, now))
        newest = max((page.newest_id for page in pages if page.newest_id), default=0)
        newest = max(newest, int(since_id or 0))
        return Answer(
            status=200,
            entries=_newest_first(pages),
            last_seen_id=f"{user_id}:{newest or ''}",
            size=session.size,
        )


@dataclass(slots=True)
class _Session:
    """The requests of one poll."""

    client: HttpGetter
    base_url: str
    key: str
    now: datetime
    visit: "PoliteVisit | None"
    size: int = 0

    async def read(self, reader: Callable[..., T], path: str, **options: str) -> T:
        """Request a path and parse the response, a large one in a thread (H2)."""
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json"}
        response = await self.client.get(self.base_url + path, headers=headers, visit=self.visit)
        self.size += response.size
        body = response.body
        if not 200 <= response.status < 300:
            raise refusal(response.status, response.headers, body, now=self.now, key=self.key)
        if len(body) <= _INLINE_BYTES:
            return reader(body, key=self.key, **options)
        return await asyncio.to_thread(reader, body, key=self.key, **options)

    async def pages(self, user_id: str, name: str, window: Mapping[str, str]) -> list[TimelinePage]:
        """All pages or none: a failed page must not hide its posts forever (X2)."""
        pages: list[TimelinePage] = []
        query = {**_FIELDS, **window}
        while len(pages) < MAX_PAGES:
            path = f"/2/users/{user_id}/tweets?{urlencode(query, safe=',')}"
            page = await self.read(read_page, path, name=name, user_id=user_id)
            pages.append(page)
            if page.next_token is None:
                break
            query["pagination_token"] = page.next_token
        return pages


def _sendable(key: str | None) -> str:
    """The key as a header value; raises KeyMissing with advice if there is none (X1)."""
    key = (key or "").strip()
    if not key:
        raise KeyMissing(f"the owner of this podcast has no X API key; add one with {HOW_TO_SET}")
    if not _KEY.fullmatch(key):
        raise KeyMissing(
            f"the X API key is not a bearer token; set a working one with {HOW_TO_SET}"
        )
    return key


def _last_seen(source: Source) -> tuple[str | None, str | None]:
    """The user's id and the newest post's; None if unknown (X2)."""
    found = _LAST_SEEN.fullmatch(source.last_seen_id or "")
    return (found[1], found[2]) if found else (None, None)


def _window(since_id: str | None, start_time: datetime | None, now: datetime) -> dict[str, str]:
    """The part of the timeline to request; `since_id` is the more precise of the two."""
    if since_id is not None:
        return {"since_id": since_id}
    if start_time is None:
        return {}
    start = max(min(start_time, now - _START_MARGIN), _EARLIEST_START).astimezone(UTC)
    return {"start_time": start.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _newest_first(pages: list[TimelinePage]) -> tuple[Entry, ...]:
    """Each post once, by id: two may share a second, and pages may shift between requests."""
    entries = {int(entry.id or 0): entry for page in pages for entry in page.entries}
    return tuple(entries[id_] for id_ in sorted(entries, reverse=True))
