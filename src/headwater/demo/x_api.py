"""Simulates the two calls of the X API v2 that Headwater uses."""

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape

from headwater.demo import documents, invented_news
from headwater.demo.demo_web import Reply, Request
from headwater.model import EPOCH

_ID_EPOCH_MS = 1_288_834_974_657  # ids count milliseconds from here, in their upper bits
_USER_BITS = 22
_DEFAULT_RESULTS = 10
_MAX_RESULTS = 100
_LONG_EVERY = 5  # every fifth post is long: cut in `text`, complete in `note_tweet`
_THREAD_POSTS = 3  # consecutive posts that are one conversation


@dataclass
class XApi:
    """Users with timelines that gain a post every few seconds, behind a bearer token."""

    users: Sequence[str]
    every_seconds: float = 60
    posts: int = 250
    requests: int = 300
    window_seconds: float = 900
    _window: int = field(default=-1, init=False)
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        first_id = 1_700_000_000_000_000_000
        self._ids = {str(first_id + zlib.crc32(user.encode())): user for user in self.users}

    async def __call__(self, request: Request) -> Reply:
        """Reply to one request."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return _problem(401, "Unauthorized", {})
        limits = self._counted(request)
        if self._count > self.requests:
            return _problem(429, "Too Many Requests", limits)
        match request.path.strip("/").split("/"):
            case ["2", "users", "by", "username", name]:
                return self._user(name, limits)
            case ["2", "users", user_id, "tweets"]:
                return self._tweets(user_id, request, limits)
        return _problem(404, "Not Found", limits)

    def _counted(self, request: Request) -> dict[str, str]:
        """Count this request; returns the rate-limit headers of X."""
        seconds = (request.clock.now() - EPOCH).total_seconds()
        window = math.floor(seconds / self.window_seconds)
        if window != self._window:
            self._window, self._count = window, 0
        self._count += 1
        return {
            "x-rate-limit-limit": str(self.requests),
            "x-rate-limit-remaining": str(max(0, self.requests - self._count)),
            "x-rate-limit-reset": str(math.ceil((window + 1) * self.window_seconds)),
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
        """The numbers of the posts after `since_id` and `start_time`, newest first."""
        newest = documents.newest_number(request.clock.now(), self.every_seconds)
        since_id = int(request.query.get("since_id", "0"))
        start_time = request.query.get("start_time")
        earliest = datetime.fromisoformat(start_time) if start_time else EPOCH
        return [
            number
            for number in range(newest, newest - self.posts, -1)
            if self._tweet_id(user, number) > since_id and self._moment(number) >= earliest
        ]

    def _tweet(
        self, user: str, user_id: str, number: int, fields: Sequence[str]
    ) -> dict[str, object]:
        is_long = number % _LONG_EVERY == 0
        text = escape(
            "\n".join(invented_news.sentences(user, number, 8 if is_long else 2)), quote=False
        )
        tweet_id = str(self._tweet_id(user, number))
        moment = f"{self._moment(number):%Y-%m-%dT%H:%M:%S.000Z}"
        first = number - number % _THREAD_POSTS
        optional = {
            "created_at": moment,
            "author_id": user_id,
            "conversation_id": str(self._tweet_id(user, first)),
            "in_reply_to_user_id": None if number == first else user_id,
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
        return documents.moment_of(number, self.every_seconds)


def _json(
    document: object, limits: dict[str, str], *, status: int = 200, kind: str = "json"
) -> Reply:
    body = json.dumps(document, ensure_ascii=False).encode()
    content_type = f"application/{kind}; charset=utf-8"
    return Reply(status=status, body=body, content_type=content_type, headers=limits)


def _unknown(parameter: str, value: str, limits: dict[str, str]) -> Reply:
    """The reply of X for an unknown user: 200 with errors and no data."""
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


def _problem(status: int, title: str, limits: dict[str, str], *, detail: str = "") -> Reply:
    problem = {"title": title, "detail": detail or title, "type": "about:blank", "status": status}
    return _json(problem, limits, status=status, kind="problem+json")
