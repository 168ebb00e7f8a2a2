"""How many posts and errors of the X API samples have the expected result.

Example: python -m bench.scores.x ../corpus
"""

import asyncio
import html
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from headwater.fetch.net.http_response import Response
from headwater.fetch.x.timeline import XTimelines
from headwater.model import Entry, FailureType, Source, SourceType
from headwater.rules.failure_kinds import classify
from headwater.rules.urls import parse_url

RESET = datetime.fromtimestamp(1794787200, UTC)  # x-rate-limit-reset of all samples
NOW = RESET - timedelta(minutes=14)
KEY = "AAAA-bearer-token"

T, P = FailureType.TRANSIENT, FailureType.PERMANENT
REFUSALS: dict[str, tuple[FailureType, str, float | None]] = {
    "error_200_truncated.json": (T, "broken body", None),
    "error_401.json": (P, "401", None),
    "error_402_credits.json": (T, "402", 3600),
    "error_403_client_not_enrolled.json": (P, "403", None),
    "error_403_unsupported_authentication.json": (P, "403", None),
    "error_404.json": (P, "404", None),
    "error_429_code88.json": (T, "429", 840),
    "error_429_no_headers.json": (T, "429", 600),
    "error_429_rate_limit.json": (T, "429", 840),
    "error_429_reset_in_past.json": (T, "429", 600),
    "error_429_usage_cap.json": (T, "429", 86400),
    "error_502_html.json": (T, "502", None),
    "error_503.json": (T, "503", None),
    "tweets_400_pagination_token.json": (T, "400", None),
    "tweets_400_since_id.json": (T, "400", None),
    "tweets_protected_200.json": (P, "403", None),
    "tweets_user_gone_200.json": (P, "404", None),
    "user_by_username_400_invalid.json": (T, "400", None),
    "user_by_username_not_found_200.json": (P, "404", None),
    "user_by_username_suspended_200.json": (P, "404", None),
}


@dataclass(frozen=True)
class Score:
    posts_right: int
    posts: int
    refusals_right: int
    refusals: int
    wrong: tuple[str, ...] = field(default=())


class Replay:
    """Responds from samples: one for all, or each by its path and position in the timeline."""

    def __init__(self, exchanges: Mapping[object, Response], default: Response | None = None):
        self.exchanges = exchanges
        self.default = default

    async def get(self, url: str, *, headers: Mapping[str, str], visit: object) -> Response:  # noqa: ARG002
        assert headers["Authorization"] == f"Bearer {KEY}"
        parts = urlsplit(url)
        return self.default or self.exchanges[place(parts.path, parts.query)]


def place(path: str, query: str) -> object:
    """The part of a request that identifies it, without the requested fields."""
    asked = parse_qs(query)
    marks = (tuple(asked.get(n, ())) for n in ("since_id", "pagination_token", "exclude"))
    return path, *marks


def read_exchange(path: Path) -> tuple[object, Response]:
    sample = json.loads(path.read_text())
    target = urlsplit(sample["request"].removeprefix("GET "))
    text = sample["body_text"] if "body_text" in sample else json.dumps(sample["body"])
    body = text.encode()
    url = parse_url("https://api.example")
    exchange = Response(sample["status"], sample["headers"], body, url, size=len(body))
    return place(target.path, target.query), exchange


def score(corpus: Path) -> Score:
    """Poll the sample timeline to its end and receive every error once."""
    return asyncio.run(scored(corpus / "xapi"))


async def scored(folder: Path) -> Score:
    expected = json.loads((folder / "expected.json").read_text())["posts"]
    found = {entry.id: entry for entry in await polled_timeline(folder)}
    wrong = [post["id"] for post in expected if not is_right(found.get(post["id"]), post)]
    posts_right = len(expected) - len(wrong)
    refusals = {name: await refused(folder / name) for name in REFUSALS}
    wrong += [name for name, failure in refusals.items() if failure != REFUSALS[name]]
    return Score(
        posts_right=posts_right,
        posts=len(expected),
        refusals_right=sum(refusals[name] == REFUSALS[name] for name in REFUSALS),
        refusals=len(REFUSALS),
        wrong=tuple(wrong),
    )


async def polled_timeline(folder: Path) -> list[Entry]:
    """The entries of three polls: the whole timeline, later posts, and nothing."""
    samples = [read_exchange(path) for path in sorted(folder.glob("[tu]*_200.json"))]
    timelines = XTimelines(Replay(dict(samples)), base_url="https://api.example")
    entries: list[Entry] = []
    last_seen_id = None
    for _ in range(3):
        source = a_source("@riverbank_obs", last_seen_id)
        answer = await timelines.fetch(source, KEY, start_time=None, now=NOW)
        entries += answer.entries
        last_seen_id = answer.last_seen_id
    return entries


async def refused(path: Path) -> tuple[FailureType, str, float | None] | None:
    """The failure of a poll whose first response is this error."""
    _, exchange = read_exchange(path)
    timelines = XTimelines(Replay({}, default=exchange), base_url="https://api.example")
    last_seen_id = None if path.name.startswith("user_") else "1700000000000000042:1"
    try:
        await timelines.fetch(a_source("river", last_seen_id), KEY, start_time=None, now=NOW)
    except Exception as error:
        failure = classify(error)
        return failure.type, failure.kind, failure.hold_seconds
    return None


def is_right(entry: Entry | None, post: dict[str, str]) -> bool:
    text = html.unescape(post["full_text"])
    line = " ".join(text.split())
    return entry is not None and (
        entry.url == post["url"]
        and entry.author == f"@{post['author']}"
        and entry.published_at == datetime.fromisoformat(post["published"])
        and entry.body == text
        and entry.title == (line if len(line) <= 100 else line[:100] + "...")
    )


def a_source(url: str, last_seen_id: str | None) -> Source:
    return Source(
        id="s",
        podcast_id="p",
        type=SourceType.TWITTER,
        url=url,
        created_at=NOW,
        last_seen_id=last_seen_id,
    )


def main() -> None:
    result = score(Path(sys.argv[1]))
    print(f"posts     {result.posts_right}/{result.posts}")
    print(f"refusals  {result.refusals_right}/{result.refusals}")
    for name in result.wrong:
        print(f"wrong     {name}")


if __name__ == "__main__":
    main()
