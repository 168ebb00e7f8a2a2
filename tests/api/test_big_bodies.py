"""No request body blocks other requests or gets a long response (U8, H2)."""

import asyncio
import gc
import io
import json
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from headwater.api.middleware.body_limit import BodyLimit
from tests.api.conftest import DEFAULT, OWN, Answer, Served, serving, settings_in

USERS, BATCH = "/api/users", f"{DEFAULT}/sources/batch"
PROCESSED = f"{DEFAULT}/articles/processed"
LONGEST_PAUSE = 1.0  # seconds of work, four times the limit of H2: this machine may be slow
JSON = {"Content-Type": "application/json"}


def with_ids(ids: Iterable[bytes]) -> bytes:
    return b'{"action":"enable","ids":[' + b",".join(ids) + b"]}"


def with_keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%x":1' % n for n in range(count)) + b"}"


BODIES = [
    # the largest accepted size
    pytest.param(USERS, with_keys(7_000), 422, "more than 100 fields", id="fields"),
    pytest.param(
        USERS, b'{"name":[' + b"[]," * 21_000 + b"[]]}", 422, "wrong input: name", id="lists"
    ),
    pytest.param(
        PROCESSED, b'{"ids":[' + b"1," * 10_900 + b"1]}", 422, "wrong input: ids", id="wrong ids"
    ),
    pytest.param(BATCH, with_keys(100_000), 422, "more than 100 fields", id="fields of a batch"),
    pytest.param(BATCH, b'{"ids":' + b"[" * 100_000, 422, "'field': 'body'", id="deep"),
    pytest.param(BATCH, b'{"ids":' + b"1" * 5_000_000, 422, "'field': 'body'", id="long number"),
    pytest.param(
        BATCH, with_ids(b'"%s"' % str(uuid.uuid4()).encode() for _ in range(100_000)), 404, "",
        id="as many ids as may be",
    ),
    # slightly larger
    pytest.param(USERS, with_keys(10_000), 413, "65,536 bytes", id="more fields"),
    pytest.param(PROCESSED, b"[" + b"1," * 500_000, 413, "11,000 values", id="more wrong ids"),
    pytest.param(BATCH, with_ids([b"[]"] * 1_700_000), 413, "101,000 values", id="lists for ids"),
    # the largest size a client could send
    pytest.param(USERS, with_keys(900_000), 413, "65,536 bytes", id="900,000 fields"),
    pytest.param(
        PROCESSED, with_ids([b"1"] * 4_000_000), 413, "1,048,576 bytes", id="4,000,000 wrong ids"
    ),
    pytest.param(
        USERS, b'{"name":[' + b"[]," * 3_000_000 + b"[]]}", 413, "65,536 bytes", id="more lists"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status", "reported"), BODIES)
async def test_h2_a_large_body_delays_no_other_request(
    served: Served, path: str, body: bytes, status: int, reported: str
) -> None:
    async with LoopStalls() as pauses:
        sent = io.BytesIO(body)
        async with served.session.post(served.url + path, data=sent, headers=JSON) as found:
            answer = Answer(found.status, found.headers, await found.read())
    assert answer.status == status
    assert reported in f"{answer.json['detail']} {answer.json['errors']}"
    assert len(answer.json["errors"]) <= 1
    assert len(answer.body) < 1000
    assert pauses.longest < LONGEST_PAUSE
    assert (await served.get("/api/health")).status == 200


class LoopStalls:
    """How long the event loop worked without running other ready callbacks."""

    longest = 0.0

    async def __aenter__(self) -> "LoopStalls":
        gc.freeze()  # collect the garbage of other tests first, outside the measurement
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # the last stall counts as well
        self._task.cancel()
        gc.unfreeze()

    async def _watch(self) -> None:
        last = time.thread_time()  # waiting for a processor does not count
        while True:
            await asyncio.sleep(0.005)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now


async def test_unknown_field_names_are_shortened_in_the_report(served: Served) -> None:
    answer = await served.post(USERS, {"name": "a", "n" * 50_000: 1, "line\nbreak": 2})
    fields = [one["field"] for one in answer.json["errors"]]
    assert (answer.status, fields) == (422, ["n" * 99 + "…", "line�break"])
    answer = await served.post(USERS, {"name": "a", "\ud800": 1})
    assert (answer.status, answer.json["status"]) == (422, 422)
    answer = await served.get(f"/api/users?{'q' * 5000}=1")
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "q" * 99 + "…")
    assert len(answer.body) < 2000


async def test_the_detail_names_the_first_of_many_wrong_fields(served: Served) -> None:
    answer = await served.post(USERS, {f"f{n}": n for n in range(100)})
    assert answer.status == 422
    assert answer.json["detail"].endswith("f7, f8 and 91 more")  # `name` is missing as well
    assert len(answer.json["errors"]) == 100


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (None, {}),
        (b"", JSON),
        (b"{", JSON),
        (b'{"name": "a"}}', JSON),
        (b"\xff", JSON),
        (b"[]", JSON),
        (b"null", JSON),
        (b'{"name": "a"}', {"Content-Type": "text/plain"}),
        (b'{"name": "a"}', {"Content-Type": "application/octet-stream"}),
    ],
)
async def test_a_missing_or_invalid_json_body_is_reported_as_body(
    served: Served, data: bytes | None, headers: dict[str, str]
) -> None:
    answer = await served.post(USERS, data=data, headers=headers)
    assert answer.status == 422
    assert [one["field"] for one in answer.json["errors"]] == ["body"]


async def test_u8_only_the_paths_for_large_bodies_accept_them(served: Served) -> None:
    body = json.dumps({"name": "a"}).encode().ljust(70_000)
    for method, path in (
        ("PUT", "/api/users/default/podcasts/opml"),
        ("PUT", f"{DEFAULT}/sources/batch"),
        ("PATCH", f"{DEFAULT}/sources/batch"),
        ("POST", "/api/users/a/b/podcasts/c/opml"),
    ):
        assert (await served.call(method, path, data=body, headers=JSON)).status == 413, path
    outline = b'<outline xmlUrl="https://example.org/feed"/>'
    opml = (b'<opml version="2.0"><body>' + outline + b"</body></opml>").ljust(70_000)
    assert (await served.post(f"{DEFAULT}/opml", data=opml)).status == 200
    assert (await served.post("/login", data=b"x" * 140_000)).status == 413


async def test_u8_a_body_that_stalls_times_out(tmp_path: Path) -> None:
    def short_timeout(api: FastAPI, *_: Any) -> None:
        api.add_middleware(BodyLimit, most=1000, idle_seconds=0.2)

    async with serving(settings_in(tmp_path), add=short_timeout) as served:
        reader, writer = await asyncio.open_connection(OWN, served.port)
        head = f"POST /api/users HTTP/1.1\r\nHost: {OWN}\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b'Content-Length: 13\r\n\r\n{"name"')
        async with asyncio.timeout(60):
            answered = await reader.read()
        writer.close()
        users = await served.app.store.accounts.users()
    first, _, body = answered.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 408 ")
    assert Answer(408, {}, body).json["detail"] == "the body did not arrive in time"
    assert len(users) == 1
