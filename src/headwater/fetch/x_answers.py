"""What the X API v2 answers, read: users, pages of a timeline, refusals (X2-X4). No I/O."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from headwater.errors import BadStatus, BrokenBody, FetchError, TooExpensive
from headwater.fetch.dates import parse_date
from headwater.fetch.storable import storable_line, storable_text
from headwater.fetch.x_refusals import Problem, is_usage_cap, usage_capped
from headwater.model import Entry

MAX_TITLE_CHARACTERS = 100  # X3
# Far above any page of 100 posts. Python reads JSON in one go, with the event loop at a stand
# whatever thread it runs in, so a flood of tiny values must be met before (H1, H2).
_MAX_CONTAINERS = 50_000
_MAX_COMMAS = 500_000
_MAX_TEXT = 5_000_000  # characters of all posts of a page, twice what the longest may have

_ID = re.compile(r"[0-9]{1,19}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}")
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'"}
_ESCAPE = re.compile(f"&({'|'.join(_ESCAPES)});")
_STATUS_OF_PROBLEM = {"resource-not-found": 404, "not-authorized-for-resource": 403}  # X4

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a timeline; `newest_id` counts posts too that could not be read."""

    entries: tuple[Entry, ...]
    newest_id: int | None
    next_token: str | None


def read_user_id(body: bytes, *, key: str) -> str:
    """The id of the user that was asked for by name."""
    document = _document(body, key)
    user_id = _object(document.get("data")).get("id")
    if not _is_id(user_id):
        raise BrokenBody("X answered without the id of the user")
    return user_id


def read_page(body: bytes, *, name: str, key: str) -> Page:
    """The posts of one page in X's order; an odd one is skipped, an odd page refused (M4)."""
    document = _document(body, key)
    posts = document.get("data")
    posts = [] if posts is None else posts
    meta = document.get("meta")
    if not isinstance(posts, list) or not (posts or isinstance(meta, dict)):
        raise BrokenBody("X answered with something that is no timeline")
    posts = [post for post in posts if isinstance(post, dict) and _is_id(post.get("id"))]
    originals = _originals(document)
    return Page(
        entries=tuple(_entries(posts, originals, name)),
        newest_id=max((int(post["id"]) for post in posts), default=None),
        next_token=_next_token(_object(meta)),
    )


def _document(body: bytes, key: str) -> Document:
    """The JSON object of an answer, unless it says that there is nothing for us (X4)."""
    if body.count(b"{") + body.count(b"[") > _MAX_CONTAINERS or body.count(b",") > _MAX_COMMAS:
        raise TooExpensive("X answered with far more than a page of posts")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenBody("X answered with something that is not JSON, or cut short") from error
    if not isinstance(document, dict):
        raise BrokenBody("X answered with JSON that is no object")
    if not document.get("data"):
        _refuse_errors(document, key)
    return document


def _refuse_errors(document: Document, key: str) -> None:
    """Raise what the errors of an answer without data mean for the account."""
    errors = document.get("errors")
    if not isinstance(errors, list):
        return
    # A post that is gone says nothing about the account that mentioned it.
    errors = [e for e in errors if isinstance(e, dict) and e.get("resource_type") != "tweet"]
    if not errors:
        return
    problems = [Problem.of(error) for error in errors]
    for problem in problems:
        if is_usage_cap(problem):
            raise usage_capped(problem, key)
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
    posts: list[dict[str, object]], originals: Mapping[str, Document], name: str
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
        )


def _whole_text(post: Document, originals: Mapping[str, Document]) -> str | None:
    """The text before X cut it: of a long post, or of the original that was reposted."""
    original = originals.get(_reposted_id(post))
    for source in (original, post):
        if source is None:
            continue
        for text in (_object(source.get("note_tweet")).get("text"), source.get("text")):
            if isinstance(text, str) and text:
                return text
    return None


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
