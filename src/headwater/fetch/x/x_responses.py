"""Parses responses of the X API v2: users, pages of a timeline, errors and their holds (X2-X4)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard
from urllib.parse import unquote

from headwater.errors import BadStatus, BrokenBody, FetchError, TooExpensive
from headwater.fetch.feed.dates import parse_date
from headwater.fetch.net.http_response import MAX_HOLD_SECONDS, retry_after_seconds
from headwater.fetch.text.sanitize import storable_line, storable_text
from headwater.model import Completeness, Entry
from headwater.rules.markdown_text import markdown_of_text

MAX_TITLE_CHARACTERS = 100  # X3
# Far above any page of 100 posts. Parsing JSON blocks the event loop from any thread, so a flood of
# tiny values is refused before (H1, H2).
_MAX_CONTAINERS = 50_000
_MAX_COMMAS = 500_000
_MAX_TEXT = 5_000_000  # characters of all posts of a page, twice the possible maximum

_ID = re.compile(r"[0-9]{1,19}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}")
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'"}
_ESCAPE = re.compile(f"&({'|'.join(_ESCAPES)});")
_STATUS_OF_PROBLEM = {"resource-not-found": 404, "not-authorized-for-resource": 403}  # X4
CREDITS_HOLD_SECONDS = 3600.0  # short enough that polls resume soon after a payment
HOW_TO_SET = "`headwater keys set x --user NAME` or PUT /api/users/NAME/api-keys/x"
USAGE_CAP_HOLD_SECONDS = 86400.0  # monthly caps: the rate-limit reset does not apply

_MAX_DETAIL = 200
_UNIX_SECONDS = re.compile(r"[0-9]{1,12}")
_DAILY_LIMITS = ("x-app-limit-24hour", "x-user-limit-24hour")
_SENTENCES = {
    401: f"X does not accept the API key; set a working one with {HOW_TO_SET}",
    402: "X asks for payment: the API account has no credits left",
    403: "X does not allow this with the API key",
    404: "X has no such timeline",
    429: "X asks for fewer requests",
}

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _XProblem:
    """An error as X describes it; `kind` is the last part of its type URL."""

    kind: str = ""
    title: str = ""
    detail: str = ""

    @classmethod
    def of(cls, document: object) -> "_XProblem":
        """Parse a problem document or a member of `errors`; missing fields are empty."""
        if not isinstance(document, dict):
            return cls()
        type_, title = document.get("type"), document.get("title")
        detail = document.get("detail") or document.get("message")
        return cls(
            kind=type_.rstrip("/").rpartition("/")[2].lower() if isinstance(type_, str) else "",
            title=title if isinstance(title, str) else "",
            detail=detail if isinstance(detail, str) else "",
        )

    def sentence(self, ours: str, key: str) -> str:
        """Our sentence and X's own, unless that contains the key (U6)."""
        detail = storable_line(self.detail or self.title)
        if not detail or any(key in text for text in (detail, unquote(detail))):
            return ours
        return f"{ours} ({storable_line(detail, _MAX_DETAIL)})"


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A page of a timeline; `newest_id` includes posts that could not be parsed."""

    entries: tuple[Entry, ...]
    newest_id: int | None
    next_token: str | None


def read_user_id(body: bytes, *, key: str) -> str:
    """The id of the requested user."""
    document = _document(body, key)
    user_id = _object(document.get("data")).get("id")
    if not _is_id(user_id):
        raise BrokenBody("X answered without the id of the user")
    return user_id


def read_page(body: bytes, *, name: str, user_id: str, key: str) -> TimelinePage:
    """The posts of one page in X's order; an invalid post is skipped, not an invalid page (M4).

    `name` and `user_id` are those of the user whose timeline it is.
    """
    document = _document(body, key)
    posts = document.get("data")
    posts = [] if posts is None else posts
    meta = document.get("meta")
    if not isinstance(posts, list) or not (posts or isinstance(meta, dict)):
        raise BrokenBody("X answered with something that is not a timeline")
    posts = [post for post in posts if isinstance(post, dict) and _is_id(post.get("id"))]
    originals = _originals(document)
    return TimelinePage(
        entries=tuple(_entries(posts, originals, name, user_id)),
        newest_id=max((int(post["id"]) for post in posts), default=None),
        next_token=_next_token(_object(meta)),
    )


def _document(body: bytes, key: str) -> Document:
    """The JSON object of a response; raises its error if it has no data (X4)."""
    if body.count(b"{") + body.count(b"[") > _MAX_CONTAINERS or body.count(b",") > _MAX_COMMAS:
        raise TooExpensive("X answered with far more than a page of posts")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenBody("X answered with something that is not JSON, or cut short") from error
    if not isinstance(document, dict):
        raise BrokenBody("X answered with JSON that is not an object")
    if not document.get("data"):
        _raise_errors(document, key)
    return document


def _raise_errors(document: Document, key: str) -> None:
    """Raise the error of a response without data."""
    errors = document.get("errors")
    if not isinstance(errors, list):
        return
    # A deleted post says nothing about the account that mentioned it.
    errors = [e for e in errors if isinstance(e, dict) and e.get("resource_type") != "tweet"]
    if not errors:
        return
    problems = [_XProblem.of(error) for error in errors]
    for problem in problems:
        if _is_usage_cap(problem):
            raise _usage_capped(problem, key)
        if problem.kind in _STATUS_OF_PROBLEM:
            status = _STATUS_OF_PROBLEM[problem.kind]
            raise BadStatus(status, problem.sentence("X has no such timeline for us", key))
    raise FetchError(problems[0].sentence("X answered with an error", key))


def _originals(document: Document) -> dict[str, Document]:
    posts = _object(document.get("includes")).get("tweets")
    if not isinstance(posts, list):
        return {}
    return {p["id"]: p for p in posts if isinstance(p, dict) and _is_id(p.get("id"))}


def _entries(
    posts: list[dict[str, object]], originals: Mapping[str, Document], name: str, user_id: str
) -> Iterator[Entry]:
    length = 0
    for post in posts:
        text = _whole_text(post, originals)
        if text is None:
            continue
        length += len(text)
        if length > _MAX_TEXT:  # many posts may repeat one long text
            raise TooExpensive("X answered with far more than a page of posts")
        body = storable_text(_ESCAPE.sub(lambda found: _ESCAPES[found[1]], text))
        created_at = post.get("created_at")
        yield Entry(
            id=str(post["id"]),
            title=_title(body),
            url=f"https://x.com/{name}/status/{post['id']}",
            published_at=parse_date(created_at) if isinstance(created_at, str) else None,
            author=f"@{name}",
            body=body,
            markdown=markdown_of_text(body),
            completeness=Completeness.FULL,
            conversation_id=_conversation_id(post, user_id),
        )


def _whole_text(post: Document, originals: Mapping[str, Document]) -> str | None:
    """The full text of a long post, or of the original of a repost."""
    original = originals.get(_reposted_id(post))
    for source in (original, post):
        if source is None:
            continue
        for text in (_object(source.get("note_tweet")).get("text"), source.get("text")):
            if isinstance(text, str) and text:
                return text
    return None


def _conversation_id(post: Document, user_id: str) -> str | None:
    """The conversation of a post, unless it is a reply to another user (E3)."""
    replied_to, conversation = post.get("in_reply_to_user_id"), post.get("conversation_id")
    stands_alone = replied_to is not None and replied_to != user_id
    return conversation if _is_id(conversation) and not stands_alone else None


def _reposted_id(post: Document) -> str:
    references = post.get("referenced_tweets")
    for reference in references if isinstance(references, list) else ():
        if _object(reference).get("type") == "retweeted":
            return str(_object(reference).get("id"))
    return ""


def _title(body: str) -> str:
    line = storable_line(body)
    return line if len(line) <= MAX_TITLE_CHARACTERS else f"{line[:MAX_TITLE_CHARACTERS]}..."


def _next_token(meta: Document) -> str | None:
    token = meta.get("next_token")
    if token is None or token == "":
        return None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise BrokenBody("X answered with a page token that cannot be sent back")
    return token


def _object(value: object) -> Document:
    return value if isinstance(value, dict) else {}


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, now: datetime, key: str
) -> BadStatus:
    """The error for a response without success, with the hold that X requests (P9)."""
    problem = _problem(body)
    if _is_usage_cap(problem):
        return _usage_capped(problem, key)
    ours = _SENTENCES.get(status, f"X answered {status}")
    return BadStatus(
        status,
        f"{problem.sentence(ours, key)} [HTTP {status}]",
        hold_seconds=_hold_seconds(status, headers, now),
    )


def _is_usage_cap(problem: _XProblem) -> bool:
    """Whether a daily or monthly cap is reached."""
    return problem.kind == "usage-capped" or problem.title == "UsageCapExceeded"


def _usage_capped(problem: _XProblem, key: str) -> BadStatus:
    """The error for a reached cap: transient with a long hold, for any status."""
    ours = "the usage cap of the X API key is reached"
    return BadStatus(429, problem.sentence(ours, key), hold_seconds=USAGE_CAP_HOLD_SECONDS)


def _problem(body: bytes) -> _XProblem:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):  # a gateway's HTML, or a truncated body (N9)
        return _XProblem()
    errors = document.get("errors") if isinstance(document, dict) else None
    if isinstance(errors, list) and errors and not document.get("detail"):
        return _XProblem.of(errors[0])
    return _XProblem.of(document)


def _hold_seconds(status: int, headers: Mapping[str, str], now: datetime) -> float | None:
    if status == 402:
        return CREDITS_HOLD_SECONDS
    until_reset = _seconds_to_reset(headers, now) if status == 429 else None
    if until_reset is not None:
        return until_reset
    if status in (429, 503):
        return retry_after_seconds(headers.get("retry-after"), now=now)
    return None


def _seconds_to_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until the limit resets; a daily limit was hit if it has 0 requests left."""
    hit = [name for name in _DAILY_LIMITS if headers.get(f"{name}-remaining", "").strip() == "0"]
    waits = [_seconds_until(headers.get(f"{name}-reset"), now) for name in (*hit, "x-rate-limit")]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds_until(reset: str | None, now: datetime) -> float | None:
    """Seconds from now to a moment in Unix seconds; None for garbage or the past (N13)."""
    reset = (reset or "").strip()
    if not _UNIX_SECONDS.fullmatch(reset):
        return None
    seconds = int(reset) - now.timestamp()
    return min(seconds, MAX_HOLD_SECONDS) if seconds > 0 else None
