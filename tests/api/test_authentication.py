"""Valid, invalid and too many tokens; without a known user access is denied (U1, U2)."""

import base64
import io
import ipaddress
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from headwater import logs
from headwater.api.middleware.authentication import OPEN_PATHS, Authentication, Caller
from headwater.api.middleware.client_address import address_behind
from headwater.api.middleware.failed_logins import (
    MOST,
    MOST_ADDRESSES,
    WINDOW_SECONDS,
    FailedLogins,
)
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoHost, DemoWeb, Reply, Request
from headwater.demo.x_api import XApi
from headwater.model import TokenScope
from headwater.operations.tokens import add_token, revoke_token
from tests.api.access_fixtures import assert_security_headers
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.store.store_data import StoreClock

FEED = f"{DEFAULT}/feed.atom"


def basic(password: str, user: str = "anybody") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def test_without_tokens_loopback_is_open_and_with_one_it_is_not(served: Served):
    assert (await served.get("/api/users")).status == 200
    admin = await served.admin()
    assert (await served.get("/api/users")).status == 401
    assert (await served.get("/api/users", token=admin)).status == 200
    await revoke_token(served.app.store, "admin")
    assert (await served.get("/api/users")).status == 200


async def test_u1_a_user_whose_token_was_the_last_one_does_not_become_an_administrator(
    served: Served,
):
    anna = await served.person("anna")
    await revoke_token(served.app.store, "anna")
    assert (await served.get("/api/users", token=anna)).status == 401
    assert (await served.get("/metrics", token=anna)).status == 401


async def test_u1_a_token_is_the_bearer_and_for_feeds_the_password(served: Served):
    anna, admin = await served.person("anna"), await served.admin()
    for header in (f"Bearer {anna}", f"bearer  {anna}"):
        answer = await served.get("/api/users", headers={"Authorization": header})
        assert [user["name"] for user in answer.json["items"]] == ["anna"], header
    feed = "/api/users/anna/podcasts/anna/feed.atom"
    for header in (basic(anna), basic(anna, ""), basic(anna, "admin")):
        assert (await served.get(feed, headers={"Authorization": header})).status == 200
    # browsers resend a password automatically: only feeds accept one (U3)
    remembered = {"Authorization": basic(admin)}
    assert (await served.get("/metrics", headers=remembered)).status == 401
    assert (await served.post("/api/users", {"name": "x"}, headers=remembered)).status == 401


async def test_u1_a_token_whose_user_is_being_deleted_is_refused(served: Served, tmp_path: Path):
    anna = await served.person("anna")
    # foreign keys are off: as if the user was deleted after the token was read
    with closing(sqlite3.connect(tmp_path / "test.db")) as database, database:
        database.execute("DELETE FROM users WHERE name = 'anna'")
    assert (await served.post(f"{DEFAULT}/sources", {}, token=anna)).status == 401


async def test_u1_all_invalid_tokens_get_the_same_response(served: Served):
    anna = await served.person("anna")
    gone = (await add_token(served.app.store, None, "gone", served.app.clock.now())).secret
    await revoke_token(served.app.store, "gone")
    wrong = [
        f"Bearer {gone}",
        f"Bearer {anna[:-1]}",
        f"Bearer {anna}x",
        "Bearer hw_" + "A" * 43,
        "Bearer",
        "Bearer ",
        "Bearer " + "x" * 5000,
        f"Token {anna}",
        anna,
        f"Bearer {anna} {anna}",
        basic(gone),
        basic("", anna),  # as the user name it would appear in logs
        "Basic " + base64.b64encode(anna.encode()).decode(),
        "Basic !!!",
        "Basic /w==",
    ]
    assert len(wrong) < MOST
    plain = await served.get("/api/users")
    assert "send `Authorization: Bearer TOKEN`" in plain.json["detail"]
    for header in wrong:
        answer = await served.get("/api/users", headers={"Authorization": header})
        assert (answer.status, answer.body) == (401, plain.body), header
        own = {"Date": "", "X-Request-ID": ""}  # as aiohttp spells it
        assert {**answer.headers, **own} == {**plain.headers, **own}
        assert_security_headers(answer, "/api/users")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_two_different_tokens_in_one_request_are_refused(served: Served):
    admin = await served.admin()
    headers = [("Authorization", f"Bearer {admin}"), ("Authorization", f"Bearer {admin}")]
    async with served.session.get(served.url + "/api/users", headers=headers) as answer:
        assert answer.status == 401


async def test_feed_readers_are_asked_for_a_password(served: Served):
    admin = await served.admin()
    for path in (FEED, f"{DEFAULT}/feed.json"):
        async with served.session.get(served.url + path) as answer:
            asked = answer.headers.getall("WWW-Authenticate")
        assert (answer.status, asked[0]) == (401, "Bearer")
        assert asked[1] == 'Basic realm="Headwater", charset="UTF-8"'
        found = await served.get(path, headers={"Authorization": basic(admin)})
        assert found.status == 200


async def test_u1_wrong_tokens_are_limited_and_valid_ones_still_work(served: Served):
    anna, late = await served.person("anna"), await served.person("late")
    assert (await served.get("/api/users", token=anna)).status == 200
    for number in range(MOST):
        assert (await served.get("/api/users", token=f"hw_{number}")).status == 401
    for header in (basic("hw_x"), "Bearer hw_y", "Token z", "Basic !!!"):
        answer = await served.get("/api/users", headers={"Authorization": header})
        assert answer.status == 429
        assert 0 < int(answer.headers["Retry-After"]) <= WINDOW_SECONDS + 1
        assert_security_headers(answer, "/api/users")
    # clients behind a proxy share its address: valid tokens work, also on their first use
    assert (await served.get("/api/users", token=anna)).status == 200
    assert (await served.get("/api/users", token=late)).status == 200
    assert (await served.get("/api/users")).status == 401
    assert (await served.get("/api/health", token="hw_x")).status == 200
    await revoke_token(served.app.store, "anna")
    assert (await served.get("/api/users", token=anna)).status == 429


def fail(failed_logins: FailedLogins, address: str, times: int = MOST) -> None:
    for _ in range(times):
        assert failed_logins.failed(address) is None


def test_u1_a_limited_address_waits_until_the_minute_is_over():
    clock = StoreClock()
    failed_logins = FailedLogins(clock)
    fail(failed_logins, "192.0.2.1", MOST)
    clock.seconds += 10
    assert failed_logins.failed("192.0.2.1") == {"Retry-After": str(int(WINDOW_SECONDS) - 10)}
    assert failed_logins.failed("192.0.2.2") is None
    clock.seconds += WINDOW_SECONDS - 10
    fail(failed_logins, "192.0.2.1", MOST)
    assert failed_logins.failed("192.0.2.1") is not None


def test_u1_wrong_tokens_are_logged_once_per_address_and_minute_with_their_number(
    lines: io.StringIO,
):
    logs.configure(stream=lines)
    clock = StoreClock()
    failed_logins = FailedLogins(clock)
    for _ in range(30):
        failed_logins.failed("192.0.2.1")
    failed_logins.failed("192.0.2.2")
    clock.seconds += WINDOW_SECONDS
    failed_logins.failed("192.0.2.1")
    logged = [line.partition("[API] ")[2].split() for line in lines.getvalue().splitlines()]
    assert logged == [
        ["wrong", "tokens", "address=192.0.2.1", "count=1"],
        ["wrong", "tokens", "address=192.0.2.2", "count=1"],
        ["wrong", "tokens", "address=192.0.2.1", "count=30"],
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("", "", True),
        ("somewhere", "elsewhere", False),
    ],
)
def test_u1_addresses_of_one_network_count_together(one: str, other: str, same: bool):
    failed_logins = FailedLogins(StoreClock())
    fail(failed_logins, one)
    assert (failed_logins.failed(other) is not None) is same


def test_u1_the_number_of_remembered_addresses_is_limited():
    failed_logins = FailedLogins(StoreClock())
    fail(failed_logins, "192.0.2.1")
    for number in range(3 * MOST_ADDRESSES):
        failed_logins.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert failed_logins.failed("192.0.2.1") is None  # evicted


PROXIES = [ipaddress.ip_network(text) for text in ("10.0.0.0/24", "192.0.2.9", "fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.1, 198.51.100.7"], "198.51.100.7"),  # the client sent the first
        ("10.0.0.1", ["203.0.113.1", "198.51.100.7 , 192.0.2.9"], "198.51.100.7"),  # two proxies
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["nonsense, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7,"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2"], "10.0.0.1"),
        ("10.0.1.1", ["198.51.100.7"], "10.0.1.1"),  # not a proxy of ours
        ("elsewhere", ["198.51.100.7"], "elsewhere"),
    ],
)
def test_u1_only_trusted_proxies_name_the_address_of_a_client(
    peer: str, forwarded: list[str], client: str
):
    assert address_behind(peer, forwarded, PROXIES) == client


@pytest.mark.parametrize("trusted", [[], ["127.0.0.0/8"]])
async def test_u1_clients_behind_a_trusted_proxy_have_limits_of_their_own(
    tmp_path: Path, trusted: list[str]
):
    options = {"app.server.trusted-proxies": trusted}
    async with serving(settings_in(tmp_path, **options)) as served:
        await served.admin()

        async def attempt(address: str) -> int:
            headers = {"X-Forwarded-For": address}
            return (await served.get("/api/users", token="hw_x", headers=headers)).status

        assert [await attempt("192.0.2.1") for _ in range(MOST + 1)] == [401] * MOST + [429]
        assert await attempt("192.0.2.2") == (401 if trusted else 429)


class RemoteAccess:
    """The Access middleware of a program that listens on a reachable address."""

    def __init__(self, served: Served) -> None:
        self.seen: list[Caller | None] = []
        failed_logins = FailedLogins(served.app.clock)
        self.access = Authentication(self._app, served.app, failed_logins, on_loopback=False)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope.get("caller"))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def request(self, path: str, token: str | None = None) -> int:
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        # PUT: a GET of a page would be redirected to the login
        scope = {"type": "http", "method": "PUT", "path": path, "headers": headers}
        client = {"client": ("192.0.2.1", 9)}
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        await self.access(scope | client, receive, send)
        status: Any = sent[0]["status"]
        return int(status)


async def test_u2_remote_access_needs_a_token_even_when_there_is_none(
    served: Served,
):
    elsewhere = RemoteAccess(served)
    assert await elsewhere.request("/api/users") == 401
    admin = await served.admin()
    assert await elsewhere.request("/api/users", admin) == 200
    await revoke_token(served.app.store, "admin")
    assert await elsewhere.request("/api/users", admin) == 401
    assert await elsewhere.request("/api/users") == 401
    assert [caller and caller.scope for caller in elsewhere.seen] == [TokenScope.ADMIN]
    for path in OPEN_PATHS:
        assert await elsewhere.request(path) == 200
        assert await elsewhere.request(path + "/") == 401
        assert await elsewhere.request("/" + path) == 401


async def test_k5_without_the_database_access_is_denied(served: Served):
    admin = await served.admin()
    sql = "ALTER TABLE tokens RENAME TO lost"
    await served.app.store.database.write(lambda session: session.execute(sql))
    assert await RemoteAccess(served).request("/api/users", admin) == 503
    for token in (admin, None):
        answer = await served.get("/api/users", token=token)
        assert (answer.status, answer.json["detail"]) == (503, "the database is not available")


class KeyRecorder:
    """The X API, recording the key of each request."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._api = XApi(["weirwatch"], every_seconds=600, posts=5)

    async def __call__(self, request: Request) -> Reply:
        self.keys.add(request.headers.get("authorization", ""))
        return await self._api(request)


async def test_x1_adding_a_key_makes_that_users_waiting_sources_due(tmp_path: Path):
    x = KeyRecorder()
    async with DemoWeb([DemoHost("x.demo", "the X API", x)], clock=SystemClock()) as web:
        options = {"app.x.base-url": web.url("x.demo", "")}
        async with serving(settings_in(tmp_path, **options)) as served:
            anna, bert = await served.person("anna"), await served.person("bert")
            annas = await waiting_source(served, "anna", anna)
            berts = await waiting_source(served, "bert", bert)
            assert x.keys == set()  # without a key no request is sent

            key = {"apiKey": "annas-key"}
            stored = await served.put("/api/users/anna/api-keys/x", key, token=anna)
            assert stored.json == {"provider": "x", "sourcesRequested": 1}
            await served.service.tick()
            await served.service.lanes.emptied(served.service.lanes.names())

            polled = (await served.get(annas, token=anna)).json
            assert (polled["health"], polled["postCount"]) == ("ok", 5)
            other = (await served.get(berts, token=bert)).json
            assert (other["health"], other["consecutiveFailures"]) == ("failing", 1)
            assert x.keys == {"Bearer annas-key"}


async def waiting_source(served: Served, name: str, token: str) -> str:
    """A timeline whose first poll failed because its owner has no key."""
    sources = f"/api/users/{name}/podcasts/{name}/sources"
    body = {"type": "twitter", "url": "@weirwatch", "includeHistory": True}
    path = f"{sources}/{(await served.post(sources, body, token=token)).json['id']}"
    polled = (await served.post(f"{path}/poll", token=token)).json
    assert (polled["outcome"], polled["failureType"]) == ("failed", "transient")
    assert "API key" in polled["error"]
    return path
