"""Tokens over the API: created, listed and revoked; scope, expiry and last use (U1, U2)."""

from datetime import timedelta
from typing import Any

import pytest

from headwater.operations.tokens import add_token
from headwater.store.tokens import MAX_TOKENS_PER_USER
from tests.api.conftest import DEFAULT, Served

TOKENS = "/api/tokens"
NEVER = {"expiresAt": None, "lastUsedAt": None}


async def create(served: Served, token: str | None = None, **body: Any) -> Any:
    answer = await served.post(TOKENS, {"name": "x"} | body, token=token)
    assert answer.status == 201, answer.body
    return answer.json


async def test_u1_a_secret_is_returned_once_and_gives_access(served_by_each: Served):
    served = served_by_each
    answer = await served.post(TOKENS, {"name": "laptop", "scope": "admin"})
    made = answer.json
    assert (answer.status, answer.headers["Cache-Control"]) == (201, "no-store")
    secret = made.pop("token")
    assert (await served.get(TOKENS)).status == 401  # it was the first one
    served.token = secret
    found = await served.get(answer.headers["Location"])
    listed = await served.get(TOKENS)
    assert secret.encode() not in found.body + listed.body
    assert listed.json["nextCursor"] is None
    await served.app.store.token_uses.flush()
    (item,) = (await served.get(TOKENS)).json["items"]
    assert item.pop("lastUsedAt") is not None
    assert item == {
        "id": made["id"], "name": "laptop", "scope": "admin", "user": None, "userId": None,
        "createdAt": made["createdAt"], "expiresAt": None,
    }  # fmt: skip
    assert (await served.delete(f"{TOKENS}/{made['id']}")).status == 204
    assert (await served.get(TOKENS)).status == 401  # a revoked token is refused on loopback too


async def test_u1_tokens_of_every_scope(served_by_each: Served):
    served = served_by_each
    served.token = await served.admin()
    await served.person("anna")
    for scope, user, expected in (
        ("admin", None, None), ("user", "anna", "anna"), ("user", None, "default"),
        ("read", None, None), ("read", "anna", "anna"), ("metrics", None, None),
    ):  # fmt: skip
        made = await create(served, scope=scope, user=user)
        assert (made["scope"], made["user"]) == (scope, expected)
    first = (await served.get(f"{TOKENS}?limit=5")).json
    rest = (await served.get(f"{TOKENS}?limit=5&cursor={first['nextCursor']}")).json
    assert len(first["items"] + rest["items"]) == 8
    assert rest["nextCursor"] is None


async def test_u1_a_metrics_token_reads_the_metrics(served: Served):
    served.token = await served.admin()
    metrics = (await create(served, scope="metrics"))["token"]
    assert (await served.get("/metrics", token=metrics)).status == 200
    for path in ("/api/users", TOKENS, "/api/scheduler", DEFAULT):
        assert (await served.get(path, token=metrics)).status == 403


async def test_u1_a_read_token_reads_posts_and_feeds_and_cannot_write(served: Served):
    served.token = await served.admin()
    anna = await served.person("anna")
    reader = (await create(served, token=anna, scope="read"))["token"]
    assert (await served.get("/api/users/anna/podcasts/anna/feed.atom", token=reader)).status == 200
    assert (await served.get(f"{DEFAULT}/posts", token=reader)).status == 404
    for method, path in (("POST", TOKENS), ("PUT", "/api/scheduler"), ("DELETE", DEFAULT)):
        answer = await served.call(method, path, {"name": "x", "scope": "read"}, token=reader)
        assert (answer.status, answer.json["title"]) == (403, "Forbidden")


async def test_u2_users_manage_the_tokens_for_their_own_data(served_by_each: Served):
    served = served_by_each
    admin, anna, bert = (
        await served.admin(),
        await served.person("anna"),
        await served.person("bert"),
    )
    made = await create(served, token=anna, scope="user")
    assert made["user"] == "anna"
    names = [one["name"] for one in (await served.get(TOKENS, token=anna)).json["items"]]
    assert names == ["anna", "x"]
    for body, status in (
        ({"scope": "admin"}, 403),
        ({"scope": "metrics"}, 403),
        ({"scope": "read", "user": "bert"}, 404),
        ({"scope": "user", "user": "nobody"}, 404),
    ):
        assert (await served.post(TOKENS, {"name": "y"} | body, token=anna)).status == status
    for path in (f"{TOKENS}/{made['id']}", f"{TOKENS}/unknown"):
        assert (await served.delete(path, token=bert)).status == 404
        assert (await served.get(path, token=bert)).status == 404
    assert (await served.delete(f"{TOKENS}/{made['id']}", token=anna)).status == 204
    assert (await served.get(TOKENS, token=made["token"])).status == 401
    assert len((await served.get(TOKENS, token=admin)).json["items"]) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "root"}, "scope"),
        ({}, "scope"),
        ({"scope": "admin", "user": "default"}, "user"),
        ({"scope": "metrics", "user": "default"}, "user"),
        ({"scope": "read", "expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"scope": "read", "expiresAt": "2099-01-01T00:00:00"}, "expiresAt"),
        ({"scope": "read", "expiresAt": "9999-12-31T23:59:59-23:00"}, "expiresAt"),
        ({"scope": "read", "expiresAt": 4070908800}, "expiresAt"),
        ({"scope": "read", "name": ""}, "name"),
        ({"scope": "read", "secret": "mine"}, "secret"),
    ],
)
async def test_a_wrong_token_request_is_refused(served: Served, body: Any, field: str):
    answer = await served.post(TOKENS, {"name": "x"} | body)
    assert answer.status == 422
    assert [error["field"] for error in answer.json["errors"]] == [field]
    assert not await served.app.store.tokens.exist()


async def test_u1_an_expired_token_is_refused(served: Served):
    served.token = await served.admin()
    past = served.app.clock.now() - timedelta(days=2)
    expires_at = past + timedelta(days=1)
    old = await add_token(served.app.store, None, "old", past, expires_at=expires_at)
    answer = await served.get(TOKENS, token=old.secret)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    made = await create(served, scope="read", expiresAt="2099-01-01T01:00:00+01:00")
    assert made["expiresAt"] == "2099-01-01T00:00:00.000Z"
    assert (await served.get(TOKENS, token=made["token"])).status == 200


async def test_u8_too_many_tokens_of_a_user_are_422(served: Served):
    anna = await served.person("anna")
    for _ in range(MAX_TOKENS_PER_USER - 1):
        await create(served, anna, scope="read")
    refused = await served.post(TOKENS, {"name": "x", "scope": "read"}, token=anna)
    assert (refused.status, refused.json["detail"]) == (
        422,
        "a user may have 100 tokens; revoke one first",
    )
