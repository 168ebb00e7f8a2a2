"""A look-alike of the two calls of the X API v2 that Headwater makes."""

import json
import math
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from headwater.demo import pages, prose
from headwater.demo.exchange import Reply, Request
from headwater.model import EPOCH

_ID_EPOCH_MS = 1_288_834_974_657  # ids count milliseconds from here, in their upper bits
_USER_BITS = 22
_DEFAULT_RESULTS = 10
_MAX_RESULTS = 100
_LONG_EVERY = 5  # every fifth post is a long one, cut in `text` and whole in `note_tweet`


class XApi:
    """Users with timelines that gain a post every so many seconds, behind a bearer token."""

    def __init__(
        self,
        users: Sequence[str],
        *,
        every_seconds: float = 60,
        posts: int = 250,
        requests: int = 300,
        window_seconds: float = 900,
    ) -> None:
        self._ids = {str(1_700_000_000_000_000_000 + zlib.crc32(u.encode())): u for u in users}
        self._every_seconds = every_seconds
        self._posts = posts
        self._requests = requests
        self._window_seconds = window_seconds
        self._window = -1
        self._count = 0

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return _problem(401, "Unauthorized")
        limits = self._counted(request)
        if self._count > self._requests:
            return _problem(429, "Too Many Requests", limits)
        match request.path.strip("/").split("/"):
            case ["2", "users", "by", "username", name]:
                return self._user(name, limits)
            case ["2", "users", user_id, "tweets"]:
                return self._tweets(user_id, request, limits)
        return _problem(404, "Not Found", limits)

    def _counted(self, request: Request) -> dict[str, str]:
        """Count this request and tell how many are left, in the words of X."""
        seconds = (request.clock.now() - EPOCH).total_seconds()
        window = math.floor(seconds / self._window_seconds)
        if window != self._window:
            self._window, self._count = window, 0
        self._count += 1
        return {
            "x-rate-limit-limit": str(self._requests),
            "x-rate-limit-remaining": str(max(0, self._requests - self._count)),
            "x-rate-limit-reset": str(math.ceil((window + 1) * self._window_seconds)),
        }

    def _user(self, name: str, limits: dict[str, str]) -> Reply:
        for user_id, user in self._ids.items():
            if user.lower() == name.lower():
                return _json({"data": {"id": user_id, "name": user, "username": user}}, limits)
        return _unknown("username", name, limits)

    def _tweets(self, user_id: str, request: Request, limits: dict[str, str]) -> Reply:
        user = self._ids.get(user_id)
        if user is None:
            return _unknown("id", user_id, limits)
        try:
            numbers = self._wanted(user, request)
            size = min(int(request.query.get("max_results", _DEFAULT_RESULTS)), _MAX_RESULTS)
            start = int(request.query.get("pagination_token", "0"))
        except ValueError as error:
            return _problem(400, "Invalid Request", limits, detail=str(error))
        fields = request.query.get("tweet.fields", "").split(",")
        page = [self._tweet(user, user_id, n, fields) for n in numbers[start : start + size]]
        if not page:
            return _json({"meta": {"result_count": 0}}, limits)
        meta = {"result_count": len(page), "newest_id": page[0]["id"], "oldest_id": page[-1]["id"]}
        if start + size < len(numbers):
            meta["next_token"] = str(start + size)
        return _json({"data": page, "meta": meta}, limits)

    def _wanted(self, user: str, request: Request) -> list[int]:
        """The numbers of the posts that `since_id` and `start_time` leave, newest first."""
        newest = pages.newest_number(request.clock.now(), self._every_seconds)
        since_id = int(request.query.get("since_id", "0"))
        start_time = request.query.get("start_time")
        earliest = datetime.fromisoformat(start_time) if start_time else EPOCH
        return [
            number
            for number in range(newest, newest - self._posts, -1)
            if self._tweet_id(user, number) > since_id and self._moment(number) >= earliest
        ]

    def _tweet(
        self, user: str, user_id: str, number: int, fields: Sequence[str]
    ) -> dict[str, object]:
        is_long = number % _LONG_EVERY == 0
        text = escape("\n".join(prose.sentences(user, number, 8 if is_long else 2)), quote=False)
        tweet_id = str(self._tweet_id(user, number))
        moment = f"{self._moment(number):%Y-%m-%dT%H:%M:%S.000Z}"
        optional = {
            "created_at": moment,
            "author_id": user_id,
            "note_tweet": {"text": text} if is_long else None,
        }
        shown = {k: v for k, v in optional.items() if k in fields and v is not None}
        cut = f"{text[:270]}…" if is_long else text
        return {"id": tweet_id, "text": cut, "edit_history_tweet_ids": [tweet_id], **shown}

    def _tweet_id(self, user: str, number: int) -> int:
        milliseconds = (self._moment(number) - EPOCH) // timedelta(milliseconds=1)
        low_bits = zlib.crc32(user.encode()) % (1 << _USER_BITS)
        return (milliseconds - _ID_EPOCH_MS) << _USER_BITS | low_bits

    def _moment(self, number: int) -> datetime:
        return pages.moment_of(number, self._every_seconds)


def _json(document: object, limits: dict[str, str]) -> Reply:
    body = json.dumps(document, ensure_ascii=False).encode()
    return Reply(body=body, content_type="application/json; charset=utf-8", headers=limits)


def _unknown(parameter: str, value: str, limits: dict[str, str]) -> Reply:
    """What X says of a user that does not exist: 200, errors, and no data."""
    error = {
        "value": value,
        "detail": f"Could not find user with {parameter}: [{value}].",
        "title": "Not Found Error",
        "resource_type": "user",
        "parameter": parameter,
        "resource_id": value,
        "type": "https://api.twitter.com/2/problems/resource-not-found",
    }
    return _json({"errors": [error]}, limits)


def _problem(
    status: int, title: str, limits: dict[str, str] | None = None, *, detail: str | None = None
) -> Reply:
    problem = {"title": title, "detail": detail or title, "type": "about:blank", "status": status}
    body = json.dumps(problem).encode()
    content_type = "application/problem+json"
    return Reply(status=status, body=body, content_type=content_type, headers=limits or {})
