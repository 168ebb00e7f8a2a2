"""A request to a simulated host and its reply, as little of HTTP/1.1 as that takes."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.clock import Clock


@dataclass(frozen=True, slots=True)
class Request:
    """What a simulated host is asked; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    base_url: str  # of the host that is asked: http://127.80.0.1:8000
    clock: Clock
    locate: Callable[[str, str], str]  # host name and path -> URL, anywhere in this web


@dataclass(frozen=True, slots=True)
class Reply:
    """What a simulated host answers."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


# No reply at all means: the host hangs up without a word.
Site = Callable[[Request], Awaitable[Reply | None]]


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request as it stands on the wire."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    keep_alive: bool


def read_head(head: bytes) -> Head:
    """Take the head of a request apart; raise ValueError where that is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    url = urlsplit(target)
    closes = headers.get("connection", "").lower() == "close"
    return Head(
        method=method,
        path=unquote(url.path),
        query=dict(parse_qsl(url.query)),
        headers=headers,
        keep_alive=version == "HTTP/1.1" and not closes,
    )


def write_reply(reply: Reply, *, now: datetime, keep_alive: bool, with_body: bool) -> bytes:
    """Put a reply into the bytes that go over the wire."""
    headers = {"Date": http_date(now), "Connection": "keep-alive" if keep_alive else "close"}
    if reply.status != HTTPStatus.NOT_MODIFIED:
        headers |= {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
    headers |= reply.headers
    lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + reply.body if with_body and reply.status != HTTPStatus.NOT_MODIFIED else head


def conditional(request: Request, reply: Reply, *, modified_at: datetime) -> Reply:
    """Give a reply its validators, and make it a 304 if the client has it already (P8)."""
    etag = f'"{hashlib.sha256(reply.body).hexdigest()[:20]}"'
    validators = {"ETag": etag, "Last-Modified": http_date(modified_at)}
    if _is_known(request, etag, modified_at):
        return Reply(status=304, headers={**reply.headers, **validators})
    return replace(reply, headers={**reply.headers, **validators})


def http_date(moment: datetime) -> str:
    """A moment as HTTP writes it, in whole seconds."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def _is_known(request: Request, etag: str, modified_at: datetime) -> bool:
    known = request.headers.get("if-none-match")
    if known is not None:  # beats the date, as RFC 9110 has it
        return etag in (tag.strip().removeprefix("W/") for tag in known.split(","))
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return modified_at.replace(microsecond=0) <= parsedate_to_datetime(since)
    except (TypeError, ValueError):
        return False


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
