"""Tokens, wrong ones and too many of those; nobody comes in where nobody is known (U1, U2)."""

import base64
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from headwater.api.attempts import MOST, MOST_ADDRESSES, WINDOW_SECONDS, Attempts
from headwater.api.callers import OPEN_PATHS, Access, Caller
from headwater.clock import SystemClock
from headwater.demo import DemoHost, DemoWeb, Reply, Request
from headwater.demo.x_api import XApi
from headwater.operations.tokens import add_token, revoke_token
from tests.api.access_world import assert_dressed
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.store.pieces import StoreClock

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
    # a browser remembers a password and sends it by itself: nothing else takes one (U3)
    remembered = {"Authorization": basic(admin)}
    assert (await served.get("/metrics", headers=remembered)).status == 401
    assert (await served.post("/api/users", {"name": "x"}, headers=remembered)).status == 401


async def test_u1_whatever_is_no_valid_token_is_answered_alike(served: Served):
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
        basic("", anna),  # as the user name it would end in logs
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
        assert {**answer.headers, "Date": ""} == {**plain.headers, "Date": ""}
        assert_dressed(answer, "/api/users")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_two_tokens_at_once_are_none(served: Served):
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


async def test_u1_wrong_tokens_are_limited_and_right_ones_go_on(served: Served):
    anna, late = await served.person("anna"), await served.person("late")
    assert (await served.get("/api/users", token=anna)).status == 200
    for number in range(MOST):
        assert (await served.get("/api/users", token=f"hw_{number}")).status == 401
    for header in (basic("hw_x"), "Bearer hw_y", "Token z", "Basic !!!"):
        answer = await served.get("/api/users", headers={"Authorization": header})
        assert answer.status == 429
        assert 0 < int(answer.headers["Retry-After"]) <= WINDOW_SECONDS + 1
        assert_dressed(answer, "/api/users")
    # whoever has worked here before does so still, and nobody can tell a right guess
    assert (await served.get("/api/users", token=anna)).status == 200
    assert (await served.get("/api/users", token=late)).status == 429
    assert (await served.get("/api/users")).status == 401
    assert (await served.get("/api/health", token="hw_x")).status == 200
    await revoke_token(served.app.store, "anna")
    assert (await served.get("/api/users", token=anna)).status == 401
    assert (await served.get("/api/users", token=anna)).status == 429


def attempts_of(address: str, attempts: Attempts, count: int) -> None:
    for number in range(count):
        attempts.failed(address, f"wrong {number}")


def test_u1_an_address_waits_until_the_minute_is_over():
    clock = StoreClock()
    attempts = Attempts(clock)
    attempts_of("192.0.2.1", attempts, MOST - 1)
    assert attempts.seconds_to_wait("192.0.2.1", "x") == 0
    clock.seconds += 10
    attempts_of("192.0.2.1", attempts, 1)
    assert attempts.seconds_to_wait("192.0.2.1", "x") == WINDOW_SECONDS - 10
    assert attempts.seconds_to_wait("192.0.2.2", "x") == 0
    clock.seconds += WINDOW_SECONDS - 10
    assert attempts.seconds_to_wait("192.0.2.1", "x") == 0
    attempts_of("192.0.2.1", attempts, 1)
    assert attempts.seconds_to_wait("192.0.2.1", "x") == 0


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
def test_u1_addresses_of_one_household_count_together(one: str, other: str, same: bool):
    attempts = Attempts(StoreClock())
    attempts_of(one, attempts, MOST)
    assert (attempts.seconds_to_wait(other, "x") > 0) is same


def test_u1_what_is_remembered_of_addresses_and_secrets_has_a_limit():
    attempts = Attempts(StoreClock())
    attempts_of("192.0.2.1", attempts, MOST)
    for number in range(3 * MOST_ADDRESSES):
        attempts.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "x")
        attempts.succeeded(f"secret {number}")
    assert len(attempts._failed) <= MOST_ADDRESSES
    assert len(attempts._known) <= MOST_ADDRESSES


class Elsewhere:
    """What lies behind Access when the program listens where others reach it."""

    def __init__(self, served: Served) -> None:
        self.seen: list[Caller | None] = []
        self.access = Access(self._app, served.app, on_loopback=False)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope.get("caller"))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask(self, path: str, token: str | None = None) -> int:
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {"type": "http", "path": path, "headers": headers, "client": ("192.0.2.1", 9)}
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        await self.access(scope, receive, send)
        status: Any = sent[0]["status"]
        return int(status)


async def test_u2_elsewhere_nobody_comes_in_without_a_token_not_even_when_there_is_none(
    served: Served,
):
    elsewhere = Elsewhere(served)
    assert await elsewhere.ask("/api/users") == 401
    admin = await served.admin()
    assert await elsewhere.ask("/api/users", admin) == 200
    await revoke_token(served.app.store, "admin")
    assert await elsewhere.ask("/api/users", admin) == 401
    assert await elsewhere.ask("/api/users") == 401
    assert elsewhere.seen == [Caller(None)]
    for path in OPEN_PATHS:
        assert await elsewhere.ask(path) == 200
        assert await elsewhere.ask(path + "/") == 401
        assert await elsewhere.ask("/" + path) == 401


async def test_k5_a_database_that_cannot_be_asked_lets_nobody_in(served: Served):
    admin = await served.admin()
    sql = "ALTER TABLE tokens RENAME TO lost"
    await served.app.store.database.write(lambda session: session.execute(sql))
    assert await Elsewhere(served).ask("/api/users", admin) == 503
    for token in (admin, None):
        answer = await served.get("/api/users", token=token)
        assert (answer.status, answer.json["detail"]) == (503, "the database cannot be asked now")


class Listening:
    """The X API, with an ear for whose key it is asked with."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._api = XApi(["weirwatch"], every_seconds=600, posts=5)

    async def __call__(self, request: Request) -> Reply:
        self.keys.add(request.headers.get("authorization", ""))
        return await self._api(request)


async def test_x1_adding_a_key_makes_that_users_waiting_sources_due(tmp_path: Path):
    x = Listening()
    async with DemoWeb([DemoHost("x.demo", "the X API", x)], clock=SystemClock()) as web:
        options = {"app.x.base-url": web.url("x.demo", "")}
        async with serving(settings_in(tmp_path, **options)) as served:
            anna, bert = await served.person("anna"), await served.person("bert")
            annas = await waiting_source(served, "anna", anna)
            berts = await waiting_source(served, "bert", bert)
            assert x.keys == set()  # without a key nobody is asked

            key = {"apiKey": "annas-key"}
            stored = await served.put("/api/users/anna/api-keys/x", key, token=anna)
            assert stored.json == {"provider": "x", "sourcesRequested": 1}
            await served.service.tick()
            await served.service.lanes.wait_until_idle()

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
