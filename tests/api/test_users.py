"""Users and API keys over the API."""

from typing import Any

import pytest

from headwater.operations.rate_limits import POLL_SECONDS, VisitLimits
from tests.api.conftest import Served
from tests.api.scripted_hosts import watch
from tests.store.store_data import StoreClock


async def test_users_are_created_shown_renamed_and_deleted(served_by_each: Served):
    served = served_by_each
    made = await served.post("/api/users", {"name": "Ada"})
    assert made.status == 201
    user = made.json
    assert made.headers["Location"] == f"/api/users/{user['id']}"
    assert set(user) == {"id", "name", "createdAt"}
    assert (await served.get("/api/users/Ada")).json == user

    renamed = await served.put(f"/api/users/{user['id']}", user | {"name": "Ada L."})
    assert (renamed.status, renamed.json["name"]) == (200, "Ada L.")
    assert (await served.get("/api/users/Ada")).status == 404

    names = [user["name"] for user in (await served.get("/api/users")).json["items"]]
    assert names == ["default", "Ada L."]
    assert (await served.delete(f"/api/users/{user['id']}")).status == 204
    assert (await served.get(f"/api/users/{user['id']}")).status == 404


async def test_an_unknown_field_is_an_error_that_names_it(served: Served):
    answer = await served.post("/api/users", {"name": "Ada", "colour": "red"})
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["errors"][0]["field"] == "colour"


async def test_users_are_paged_and_new_ones_do_not_disturb_pages(served: Served):
    for name in ("a", "b", "c"):
        await served.post("/api/users", {"name": name})
    first = (await served.get("/api/users?limit=2")).json
    await served.post("/api/users", {"name": "d"})
    second = (await served.get(f"/api/users?limit=2&cursor={first['nextCursor']}")).json
    third = (await served.get(f"/api/users?limit=2&cursor={second['nextCursor']}")).json
    names = [[user["name"] for user in page["items"]] for page in (first, second, third)]
    assert names == [["default", "a"], ["b", "c"], ["d"]]
    assert third["nextCursor"] is None


async def test_u5_a_key_is_stored_and_never_shown(served: Served):
    stored = await served.put("/api/users/default/api-keys/x", {"apiKey": "AAAA-secret"})
    assert (stored.status, stored.json) == (200, {"provider": "x", "sourcesRequested": 0})
    listed = await served.get("/api/users/default/api-keys")
    assert listed.json == {
        "items": [{"provider": "x", "sourcesRequested": None}],
        "nextCursor": None,
    }
    assert (await served.delete("/api/users/default/api-keys/x")).status == 204
    assert (await served.delete("/api/users/default/api-keys/x")).status == 404


async def test_s9_y8_a_key_requests_polls_also_after_manual_ones_but_once_in_ten_seconds(
    served_by_each: Served,
):
    served, clock = served_by_each, StoreClock()
    served.app.visit_limits = VisitLimits(clock)
    ann, admin = await served.person("ann"), await served.admin()
    place, key = "/api/users/ann/podcasts/ann", "/api/users/ann/api-keys/x"
    polled = await watch(served, "@ann", place=place, token=ann, type="twitter")
    await watch(served, "@bob", place=place, token=ann, type="twitter")
    id_ = polled.rpartition("/")[2]
    batch = {"action": "poll", "ids": [id_]}
    assert (await served.post(f"{place}/sources/batch", batch, token=ann)).status == 200
    before = await served.app.store.sources.get(id_)

    requested = []
    for token, seconds in ((ann, 0), (ann, 0), (ann, POLL_SECONDS), (ann, 0), (admin, 0)):
        clock.seconds += seconds
        stored = await served.put(key, {"apiKey": "AAAA-secret"}, token=token)
        requested.append((stored.status, stored.json["sourcesRequested"]))
        after = await served.app.store.sources.get(id_)
        assert (after.requested_at != before.requested_at) == bool(stored.json["sourcesRequested"])
        assert after.generation > before.generation, "a poll with the old key is discarded (D4)"
        before = after
        # without a key for a moment, the same holds
        assert (await served.delete(key, token=token)).status == 204
    assert requested == [(200, 2), (200, 0), (200, 2), (200, 0), (200, 2)]
    assert (await served.post(f"{polled}/poll", token=ann)).status == 429


async def test_keys_are_paged_like_every_list(served: Served):
    user, now = await served.app.store.accounts.user("default"), served.app.clock.now()
    for provider in ("x", "a", "m"):
        sealed = served.app.vault.seal("secret", user_id=user.id, provider=provider)
        await served.app.store.api_keys.set(user.id, provider, sealed, now)
    path, query, found = "/api/users/default/api-keys", "?limit=2", []
    while True:
        page = (await served.get(path + query)).json
        found.append([one["provider"] for one in page["items"]])
        if page["nextCursor"] is None:
            break
        query = f"?limit=2&cursor={page['nextCursor']}"
    assert found == [["a", "m"], ["x"]]
    for query, field in (("limit=0", "limit"), ("limit=501", "limit"), ("cursor=x", "cursor")):
        refused = await served.get(f"{path}?{query}")
        assert (refused.status, refused.json["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/api/users/default/api-keys/y", {"apiKey": "a"}, "provider"),
        ("PUT", "/api/users/default/api-keys/x", {"apiKey": "a b"}, "apiKey"),
        ("DELETE", "/api/users/default", None, "id"),
        ("DELETE", "/api/users/default/podcasts/default", None, "id"),
        ("PUT", "/api/users/default", None, "body"),
        ("POST", "/api/users", {"name": "a/b"}, "name"),
        ("PUT", "/api/users/default", {"name": ".."}, "name"),
    ],
)
async def test_invalid_input_is_named(
    served: Served, method: str, path: str, body: Any, field: str
) -> None:
    answer = await served.call(method, path, body)
    assert answer.status == 422
    assert [one["field"] for one in answer.json["errors"]] == [field]
