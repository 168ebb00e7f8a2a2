"""Servers that echo credentials wherever they might be logged or stored."""

import base64

from tests.hostile.documents import GOOD, good, rss
from tests.hostile.exchange import Exchange, answer, redirect
from tests.hostile.table import (
    Failed,
    Misbehaviour,
    ObservedRequests,
    Outcome,
    Rejected,
    Stored,
    row,
)

FEED = answer(rss(good()))
KEPT = Stored(1, (GOOD,))


def with_password(name: str, ids: str, talk, *outcomes: Outcome, **more) -> Misbehaviour:
    """A source with user name and password in its URL; neither may appear anywhere."""
    password = f"hunter{abs(sum(map(ord, name)))}"
    basic = base64.b64encode(f"agent:{password}".encode()).decode()
    url = more.pop("url", "http://agent:PASSWORD@{netloc}/feed").replace("PASSWORD", password)
    return row(name, ids, talk, *outcomes, url=url, secrets=(password, basic), **more)


def with_token(name: str, ids: str, talk, *outcomes: Outcome, **more) -> Misbehaviour:
    """A source with a token in its query; it may not appear anywhere."""
    token = f"tok{abs(sum(map(ord, name)))}en"
    url = more.pop("url", "{origin}/feed?api_key=TOKEN&page=1").replace("TOKEN", token)
    return row(name, ids, talk, *outcomes, url=url, secrets=(token,), **more)


def password_of(ex: Exchange) -> str:
    """The password that the client sent."""
    _, _, encoded = (ex.header("Authorization") or "").partition(" ")
    return base64.b64decode(encoded).decode().partition(":")[2]


def token_of(ex: Exchange) -> str:
    """The token that the client sent."""
    return ex.target.partition("=")[2].partition("&")[0]


def echo_in_body(ex: Exchange) -> bytes:
    body = f"Bad login: {ex.header('Authorization')} {password_of(ex)}"
    return answer(body.encode(), status="401 Unauthorized")


def echo_in_reason(ex: Exchange) -> bytes:
    return answer(b"", status=f"500 No {password_of(ex)} {ex.header('Authorization')}")


def echo_in_header(ex: Exchange) -> bytes:
    return answer(rss(good()), f"X-Echo: {ex.header('Authorization')}", f"ETag: {ex.target}")


def echo_in_bad_header(ex: Exchange) -> bytes:
    return answer(rss(good()), f"Bad {password_of(ex)}: x", f"no colon {password_of(ex)}")


def echo_in_location(ex: Exchange) -> bytes:
    return redirect(f"ftp://agent:{password_of(ex)}@files.example/{password_of(ex)}")


def echo_in_path(ex: Exchange) -> bytes:
    if ex.target == "/feed":
        return redirect(f"/login/{password_of(ex)}")
    return answer(b"", status="403 Forbidden")


def echo_in_good_path(ex: Exchange) -> bytes:
    return redirect(f"/in/{password_of(ex)}") if ex.target == "/feed" else FEED


def echo_in_root(ex: Exchange) -> bytes:
    return answer(f"<{password_of(ex)}><x/></{password_of(ex)}>".encode())


def echo_token_in_root(ex: Exchange) -> bytes:
    return answer(f"<{token_of(ex)}><x/></{token_of(ex)}>".encode())


def echo_token_in_path(ex: Exchange) -> bytes:
    if ex.target.startswith("/feed"):
        return redirect(f"/error/{token_of(ex)}")
    return answer(b"", status="500 Oops")


def echo_token_in_query(ex: Exchange) -> bytes:
    if ex.target.startswith("/feed"):
        return redirect(f"/x?return={token_of(ex)}&access_token={token_of(ex)}")
    return answer(b"", status="404 Not Found")


def echo_token_in_name(ex: Exchange) -> bytes:
    return redirect(f"http://{token_of(ex)}.invalid/")


def echo_in_encoding(ex: Exchange) -> bytes:
    return answer(b"x", f"Content-Encoding: {password_of(ex)}")


def echo_in_chunk(ex: Exchange) -> bytes:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return start + password_of(ex).encode() + b"\r\nx\r\n"


def asked_with_password(sight: ObservedRequests) -> bool:
    """The password did reach its own host."""
    return "authorization: basic" in sight.requests[0].lower()


async def silent(ex: Exchange) -> None:
    await ex.silence()


ROWS = (
    with_password("password, good feed", "U6 N6", FEED, KEPT, sight=asked_with_password),
    with_password("password echoed in a body", "U6", echo_in_body, Failed("401", "permanent")),
    with_password("password echoed in a reason", "U6", echo_in_reason, Failed("500")),
    with_password("password echoed in headers", "U6", echo_in_header, KEPT),
    with_password("password echoed in a broken header", "U6", echo_in_bad_header,
                  Failed("broken body")),
    with_password("password echoed in a bad location", "U6", echo_in_location, Failed("redirect")),
    with_password("password echoed in the path of an error", "U6", echo_in_path,
                  Failed("403", "permanent")),
    with_password("password echoed in the path of a feed", "U6", echo_in_good_path, KEPT),
    with_password("password echoed as an element", "U6", echo_in_root, Failed("parse")),
    with_password("password echoed as an encoding", "U6", echo_in_encoding, Failed("broken body")),
    with_password("password echoed as a chunk size", "U6", echo_in_chunk, Failed("broken body")),
    with_password("password and silence", "U6", silent, Failed("timeout")),
    with_password("password and no server", "U6", silent, Failed("connection"),
                  listens="closed"),
    with_password("password and a bad certificate", "U6", FEED, Failed("TLS"),
                  listens="tls, self-signed", url="https://agent:PASSWORD@{netloc}/feed"),
    with_password("password for a name that does not exist", "U6 F1", FEED,
                  Failed("DNS", "permanent"), url="http://agent:PASSWORD@nowhere.invalid/feed"),
    with_password("password for a refused address", "J2 U6 N3", FEED, Rejected(),
                  url="http://agent:PASSWORD@{refused}/feed"),
    with_token("token, good feed", "U6", FEED, KEPT),
    with_token("token and an error", "U6", answer(b"", status="404 Not Found"),
               Failed("404", "permanent")),
    with_token("token echoed as an element", "U6", echo_token_in_root, Failed("parse")),
    with_token("token echoed in the path of an error", "U6", echo_token_in_path, Failed("500")),
    with_token("token echoed in a query", "U6", echo_token_in_query, Failed("404", "permanent")),
    with_token("token echoed in a name", "U6", echo_token_in_name, Failed("DNS", "permanent")),
)  # fmt: skip
