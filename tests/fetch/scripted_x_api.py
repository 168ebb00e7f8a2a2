"""A scripted HTTP client that plays the X API, and polls over it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headwater.errors import FetchError
from headwater.fetch.net.http_response import Response
from headwater.fetch.x.timeline import XTimelines
from headwater.model import Answer, Source, SourceType
from headwater.rules.urls import parse_url

NOW = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)
KEY = "AAAAAAAAAAAA%2Fsecret-bearer-token%3D"
USER = {"data": {"id": "42", "name": "River", "username": "river"}}
NOTHING_NEW = {"meta": {"result_count": 0}}
PROBLEMS = "https://api.x.com/2/problems/"


@dataclass
class Reply:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Script:
    """An HTTP client that returns responses in a given order and records the requests."""

    replies: list[Any]
    urls: list[str] = field(default_factory=list)
    sent: list[Mapping[str, str]] = field(default_factory=list)

    async def get(self, url: str, *, headers: Mapping[str, str], visit: object) -> Response:
        self.urls.append(url)
        self.sent.append(headers)
        reply = self.replies[len(self.urls) - 1]
        if isinstance(reply, Exception):
            raise reply
        reply = reply if isinstance(reply, Reply) else Reply(json.dumps(reply).encode())
        size = len(reply.body)
        return Response(reply.status, reply.headers, reply.body, parse_url(url), size=size)

    @property
    def paths(self) -> list[str]:
        return [urlsplit(url).path for url in self.urls]

    @property
    def queries(self) -> list[dict[str, str]]:
        return [{k: v[0] for k, v in parse_qs(urlsplit(u).query).items()} for u in self.urls]


def an_x_source(**changes: Any) -> Source:
    source = Source(id="s", podcast_id="p", type=SourceType.TWITTER, url="@river", created_at=NOW)
    return replace(source, **changes)


def an_x_post(id_: int, text: str = "text", **more: Any) -> dict[str, Any]:
    return {"id": str(id_), "text": text, "created_at": "2026-02-16T07:00:00.000Z", **more}


def a_page(*posts: Any, next_token: str | None = None, **more: Any) -> dict[str, Any]:
    meta = {"result_count": len(posts)} | ({"next_token": next_token} if next_token else {})
    return {"data": list(posts), "meta": meta, **more}


async def fetched(
    *replies: Any, start_time: datetime | None = None, **changes: Any
) -> tuple[Answer, Script]:
    script = Script(list(replies))
    timelines = XTimelines(script, base_url="https://api.example/")
    source = an_x_source(**{"last_seen_id": "42:7", **changes})
    return await timelines.fetch(source, KEY, start_time=start_time, now=NOW), script


async def refused(reply: Any, **changes: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetched(reply, **changes)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def problem(kind: str, **more: Any) -> dict[str, Any]:
    return {"errors": [{"type": PROBLEMS + kind, "detail": "said so", **more}]}
