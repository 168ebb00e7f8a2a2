"""Checks before every route: site guard, body limit, headers, and responses to odd requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from tests.api.access_fixtures import assert_security_headers
from tests.api.conftest import DEFAULT, OWN, Answer, Served, serving, settings_in

MOST = 1000


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Served]:
    """An API that accepts bodies of up to MOST bytes and has configured host names."""
    options = {
        "app.limits.max-request-bytes": MOST,
        "app.server.allowed-hosts": ["feeds.example"],
    }
    async with serving(settings_in(tmp_path, **options)) as running:
        yield running


class Raw:
    """A connection that can send arbitrary bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, body

    async def is_closed(self) -> bool:
        """Whether the server closes the connection within a moment."""
        try:
            async with asyncio.timeout(60):
                return await self.reader.read() == b""
        except ConnectionError:
            return True


@pytest.fixture
async def raw(small: Served) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection(OWN, small.port)
    yield Raw(reader, writer)
    writer.close()


# what a page of another site can make a browser on this machine send
SITES = [
    ({}, True),
    ({"Origin": "http://{host}"}, True),
    ({"Origin": "HTTP://{host}"}, True),
    ({"Origin": "https://{host}"}, True),  # behind a proxy that terminates TLS
    ({"Origin": "null"}, False),
    ({"Origin": ""}, False),
    ({"Origin": "http://evil.example"}, False),
    ({"Origin": "http://{name}"}, False),  # the same machine, another port
    ({"Origin": "http://{name}:1"}, False),
    ({"Origin": "http://{host}.evil.example"}, False),
    ({"Origin": "http://evil.example@{host}"}, False),
    ({"Origin": "ftp://{host}"}, False),
    ({"Origin": "http://{host} http://evil.example"}, False),
    ({"Sec-Fetch-Site": "same-origin"}, True),
    ({"Sec-Fetch-Site": "none"}, True),
    ({"Sec-Fetch-Site": "same-site"}, False),  # another port of this machine is the same site
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": "SAME-ORIGIN"}, False),
    ({"Sec-Fetch-Site": ""}, False),
    ({"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"}, False),
    ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
]


@pytest.mark.parametrize(("headers", "fine"), SITES, ids=lambda value: str(value))
async def test_u3_only_our_own_pages_may_send_requests(
    small: Served, headers: dict[str, str], fine: bool
):
    host = f"{OWN}:{small.port}"
    given = {name: value.format(host=host, name=OWN) for name, value in headers.items()}
    for method, path, body in (
        ("GET", "/api/users", None),
        ("POST", "/api/users", {"name": "someone"}),
        ("GET", "/api/health", None),
    ):
        answer = await small.call(method, path, body, headers=given)
        assert (answer.status != 403) is fine, path
        assert_security_headers(answer, path)
        if not fine:
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert "another site" in answer.json["detail"]
    users = await small.app.store.accounts.users()
    assert (len(users) == 2) is fine


async def test_u3_the_origin_of_a_configured_name_is_accepted(small: Served):
    name = f"feeds.example:{small.port}"
    for origin, status in ((f"http://{name}", 201), (f"http://{OWN}:{small.port}", 403)):
        headers = {"Host": name, "Origin": origin}
        assert (await small.post("/api/users", {"name": "a"}, headers=headers)).status == status


async def test_u3_a_foreign_host_is_refused_before_anything_else_is_read(small: Served):
    answer = await small.get("/api/users", headers={"Host": "evil.example"})
    assert answer.status == 403
    assert "app.server.allowed-hosts" in answer.json["detail"]
    assert_security_headers(answer, "/api/users")


async def test_u4_internal_errors_have_all_security_headers(small: Served):
    async def broken() -> None:
        raise RuntimeError("hw_secret detail")

    small.api.add_api_route("/api/broken", broken)
    answer = await small.get("/api/broken")
    assert answer.status == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert b"secret" not in answer.body
    assert_security_headers(answer, "/api/broken")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/api/", 404),
        ("/api/nothing", 404),
        ("/api/users/", 404),
        ("/api/users/nobody", 404),
        ("/api/users/default/nothing", 404),
        ("//api/users", 404),
        ("/api/users?limit=0", 422),
        ("/api/users?limit=x", 422),
        ("/api/users?cursor=x", 422),
    ],
)
async def test_u4_errors_are_problem_documents_with_security_headers(
    small: Served, path: str, status: int
):
    answer = await small.get(path)
    assert answer.status == status
    assert_problem(answer, status)
    assert_security_headers(answer, path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/api/users", {"GET", "HEAD", "POST"}),
        ("POST", "/api/users/default", {"GET", "HEAD", "PUT", "DELETE"}),
        ("PUT", f"{DEFAULT}/sources", {"GET", "HEAD", "POST"}),
        ("POST", f"{DEFAULT}/sources/x", {"GET", "HEAD", "PUT", "PATCH", "DELETE"}),
        ("DELETE", "/api/health", {"GET", "HEAD"}),
        ("POST", "/api/openapi.json", {"GET", "HEAD"}),
        ("OPTIONS", "/api/users", {"GET", "HEAD", "POST"}),
        ("TRACE", "/api/users", {"GET", "HEAD", "POST"}),
        ("BREW", "/api/users", {"GET", "HEAD", "POST"}),
    ],
)
async def test_a_wrong_method_gets_the_list_of_allowed_ones(
    small: Served, method: str, path: str, allowed: set[str]
):
    answer = await small.call(method, path)
    assert_problem(answer, 405)
    assert_security_headers(answer, path)
    assert set(answer.headers["Allow"].split(", ")) == allowed
    assert answer.json["detail"].startswith(f"this path does not take {method}; it takes ")


async def test_head_returns_the_headers_of_get_without_the_body(small: Served):
    for path in ("/api/users", "/api/health", f"{DEFAULT}/opml", f"{DEFAULT}/feed.atom"):
        asked, headed = await small.get(path), await small.call("HEAD", path)
        assert (headed.status, headed.body) == (200, b"")
        for name in ("Content-Type", "Content-Length"):
            assert headed.headers.get(name) == asked.headers.get(name), (path, name)
    assert (await small.call("HEAD", "/api/users/nobody")).status == 404
    endless = await small.call("HEAD", "/api/events")
    assert (endless.status, endless.headers["Allow"]) == (405, "GET")
    await small.admin()
    assert (await small.call("HEAD", "/api/users")).status == 401


@pytest.mark.parametrize(
    ("path", "words"),
    [("/api/nothing", "/api/docs shows what there is"), ("/api/users/", "ends with a slash")],
)
async def test_an_unknown_path_refers_to_the_docs(small: Served, path: str, words: str):
    answer = await small.get(path)
    assert_problem(answer, 404)
    assert words in answer.json["detail"]


async def test_the_root_of_the_api_refers_to_its_docs(small: Served):
    answer = await small.get("/api")
    assert answer.status == 200
    for path in answer.json.values():
        assert (await small.get(path)).status == 200


async def test_an_unreadable_request_gets_a_problem_document(raw: Raw):
    await raw.send("GET /api/users?q=ü HTTP/1.1", f"Host: {OWN}")
    status, headers, body = await raw.answer()
    document = json.loads(body)
    assert (status, document["status"]) == (400, 400)
    assert headers["content-type"] == "application/problem+json"
    assert "%C3%BC" in document["detail"]
    assert await raw.is_closed()


async def test_a_parameter_that_is_given_twice_is_refused(small: Served):
    answer = await small.get("/api/users?limit=1&limit=2")
    assert_problem(answer, 422)
    (error,) = answer.json["errors"]
    assert error == {"field": "limit", "message": "the parameter 'limit' is given more than once"}
    unknown = await small.get("/api/users?page=2")
    assert "there are: cursor, limit" in unknown.json["detail"]


@pytest.mark.parametrize("path", ["articles/aggregate", "articles/x/processed", "sources/x/poll"])
async def test_an_unexpected_body_is_refused(small: Served, path: str):
    answer = await small.post(f"{DEFAULT}/{path}", {"limit": 5})
    assert_problem(answer, 422)
    assert answer.json["errors"] == [{"field": "body", "message": "this call takes no body"}]
    for empty in (b"", b"{}", b"\n"):
        assert (await small.post(f"{DEFAULT}/{path}", data=empty)).status in (200, 404)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"name": NaN}', b"\xff", b'{"name": "\\ud800"}']
)
async def test_u4_a_body_that_is_no_object_is_invalid_input(small: Served, body: bytes):
    headers = {"Content-Type": "application/json"}
    answer = await small.call("POST", "/api/users", data=body, headers=headers)
    assert_problem(answer, 422)
    assert_security_headers(answer, "/api/users")


async def test_u8_a_body_up_to_the_limit_is_accepted(small: Served):
    for size, status in ((MOST, 201), (MOST + 1, 413)):
        body = json.dumps({"name": f"user {size}"}).encode().ljust(size)
        headers = {"Content-Type": "application/json"}
        answer = await small.call("POST", "/api/users", data=body, headers=headers)
        assert answer.status == status
    assert_problem(answer, 413)
    assert_security_headers(answer, "/api/users")
    assert f"{MOST:,} bytes" in answer.json["detail"]


@pytest.mark.parametrize("path", ["/api/users", f"{DEFAULT}/opml"])
async def test_u8_a_body_of_unknown_length_is_cut_off_at_the_limit(small: Served, path: str):
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * MOST

    headers = {"Content-Type": "application/json"}
    async with small.session.post(small.url + path, data=parts(), headers=headers) as found:
        answer = Answer(found.status, found.headers, await found.read())
    assert_problem(answer, 413)
    assert_security_headers(answer, path)


async def test_u8_an_endless_sender_gets_a_response_and_is_cut_off(raw: Raw):
    await raw.send(*_head("Transfer-Encoding: chunked"), body=_chunk(2 * MOST))
    status, headers, body = await raw.answer()
    assert (status, headers["connection"]) == (413, "close")
    assert json.loads(body)["status"] == 413
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(60):
            while True:
                await raw.send(body=_chunk(MOST))
                await asyncio.sleep(0.01)


async def test_u8_a_sender_that_stalls_is_cut_off(raw: Raw):
    await raw.send(*_head("Transfer-Encoding: chunked"), body=_chunk(2 * MOST))
    assert (await raw.answer())[0] == 413
    assert await raw.is_closed()


async def test_u8_a_declared_length_over_the_limit_is_refused_at_the_header(raw: Raw):
    await raw.send(*_head("Content-Length: 99999999999999999999"))
    assert (await raw.answer())[0] == 413
    assert await raw.is_closed()


async def test_u8_an_expect_header_gets_a_refusal_before_the_body(raw: Raw):
    await raw.send(*_head(f"Content-Length: {MOST + 1}", "Expect: 100-continue"))
    assert (await raw.answer())[0] == 413


@pytest.mark.parametrize(
    "length", [["-1"], ["1x"], ["5", "6"], ["５"], ["5", "5"], [""]], ids=" and ".join
)
async def test_u8_an_invalid_length_is_refused(raw: Raw, length: list[str]):
    await raw.send(*_head(*(f"Content-Length: {one}" for one in length)), body=b"{}   ")
    status, _, _ = await raw.answer()
    assert status in (400, 413, 422)


async def test_u8_a_body_that_was_read_completely_leaves_the_connection_open(raw: Raw):
    for name in ("a", "b"):
        body = json.dumps({"name": name}).encode()
        await raw.send(*_head(f"Content-Length: {len(body)}"), body=body)
        assert (await raw.answer())[0] == 201


def _head(*lines: str) -> Iterable[str]:
    first = ("POST /api/users HTTP/1.1", f"Host: {OWN}", "Content-Type: application/json")
    return (*first, *lines)


def _chunk(size: int) -> bytes:
    return f"{size:x}\r\n".encode() + b"x" * size + b"\r\n"


def assert_problem(answer: Answer, status: int) -> None:
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    document = answer.json
    assert {"type", "title", "status", "detail", "errors"} <= set(document)
    assert document["status"] == status
