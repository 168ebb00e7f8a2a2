"""The audit log over the API: who did what, logins, and no secrets (U9)."""

from typing import Any

import pytest

from headwater.api.middleware.failed_logins import MOST_ENTRIES
from headwater.errors import DatabaseUnavailable
from headwater.operations.tokens import log_in
from tests.api.conftest import DEFAULT, Served
from tests.store.store_data import a_polled_source

AUDIT = "/api/audit"


async def entries(served: Served, query: str = "", **options: Any) -> list[dict[str, str]]:
    answer = await served.get(f"{AUDIT}{query}", **options)
    assert answer.status == 200
    found: list[dict[str, str]] = answer.json["items"]
    return found


async def test_u9_changes_are_listed_with_who_made_them(served_by_each: Served):
    served = served_by_each
    source = (
        await served.post(f"{DEFAULT}/sources", {"type": "rss", "url": "http://u:p@127.0.0.1:9/a"})
    ).json
    admin, anna = await served.admin(), await served.person("anna")
    await served.patch(
        f"{DEFAULT}/sources/{source['id']}", {"pollIntervalMinutes": 9, "label": "x"}, token=admin
    )
    await served.put("/api/users/anna/api-keys/x", {"apiKey": "secret-key"}, token=anna)
    made = await served.post("/api/tokens", {"name": "r", "scope": "read"}, token=anna)
    found = await entries(served, token=admin)
    assert set(found[0]) == {"at", "who", "action", "target", "detail"}
    said = [(one["who"], one["action"], one["target"], one["detail"]) for one in found]
    user, target = (await served.app.store.accounts.user("anna")).id, f"source {source['id']}"
    hers, url = "token anna of anna", "http://127.0.0.1:9/a"
    token = f"token {made.json['id']}"
    assert said == [
        (hers, "token.add", token, f"name=r, scope=read, user={user}"),
        (hers, "key.set", f"user {user}", "provider=x"),
        ("token admin", "source.edit", target, "label=changed, pollIntervalMinutes=9"),
        ("loopback", "source.add", target, f"url={url}, type=rss, podcast=default"),
    ]  # fmt: skip
    text = str(found)
    for secret in ("secret-key", made.json["token"], admin, anna, "u:p"):
        assert secret not in text


async def test_u9_a_batch_is_one_entry_with_the_number_of_sources(served_by_each: Served):
    served = served_by_each
    for number in range(3):
        await served.post(
            f"{DEFAULT}/sources", {"type": "rss", "url": f"http://127.0.0.1:9/{number}"}
        )
    batch = {"action": "update", "filter": {"all": True}, "set": {"pollIntervalMinutes": 7}}
    assert (await served.post(f"{DEFAULT}/sources/batch", batch)).status == 200
    newest, *others = await entries(served)
    assert newest["action"] == "sources.update"
    assert newest["target"] == "podcast default"
    assert newest["detail"] == "sources=3, pollIntervalMinutes=7"
    assert len(others) == 3


@pytest.mark.parametrize("error", [DatabaseUnavailable("later"), RuntimeError("broken")])
async def test_u9_a_batch_that_fails_halfway_has_the_number_of_changed_sources(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    served, sources = served_by_each, served_by_each.app.store.sources
    await sources.add_many([a_polled_source() for _ in range(300)])
    edit_many, results = sources.edit_many, [error]

    async def failing_later(*args: Any) -> Any:
        if not results:
            raise error
        results.clear()
        return await edit_many(*args)

    monkeypatch.setattr(sources, "edit_many", failing_later)
    batch = {"action": "disable", "filter": {"all": True}}
    assert (await served.post(f"{DEFAULT}/sources/batch", batch)).status >= 500
    (entry,) = await entries(served)
    assert (entry["action"], entry["detail"]) == ("sources.disable", "sources=250")


async def test_u9_a_setting_that_is_reset_is_shown_as_default(served_by_each: Served):
    for days in (9, None):
        body = {"name": "default", "maxArticleAgeDays": days}
        answer = await served_by_each.put(DEFAULT, body)
        assert answer.status == 200
    details = [entry["detail"] for entry in await entries(served_by_each)]
    assert details == ["maxArticleAgeDays=default", "maxArticleAgeDays=9"]


async def test_u9_what_fails_has_no_entry(served: Served):
    for method, path, body in (
        ("POST", "/api/users", {"name": "default"}),
        ("DELETE", "/api/users/default", None),
        ("DELETE", f"{DEFAULT}/sources/unknown", None),
        ("POST", f"{DEFAULT}/sources", {"url": "ftp://127.0.0.1/"}),
    ):
        assert (await served.call(method, path, body)).status >= 400
    assert await entries(served) == []


async def test_u9_the_log_comes_in_pages_and_from_a_time_on(served: Served):
    for name in ("a", "b", "c"):
        await served.post("/api/users", {"name": name})
    first = (await served.get(f"{AUDIT}?limit=2")).json
    rest = await entries(served, f"?limit=2&cursor={first['nextCursor']}")
    names = [one["detail"] for one in (*first["items"], *rest)]
    assert names == ["name=c", "name=b", "name=a"]
    assert await entries(served, "?since=2099-01-01T00:00:00Z") == []
    assert (await served.get(f"{AUDIT}?since=yesterday")).status == 422
    assert (await served.get(f"{AUDIT}?cursor=x")).status == 422


async def test_u9_logins_are_listed(served_by_each: Served):
    served = served_by_each
    anna = await served.person("anna")
    served.token = await served.admin()
    store, now = served.app.store, served.app.clock.now()
    assert await log_in(store, anna, now) is not None
    for _ in range(3):
        assert (await served.get("/api/users", token="hw_wrong")).status == 401
    failed, login = await entries(served)
    assert (login["who"], login["action"]) == ("token anna of anna", "login")
    assert (failed["who"], failed["action"]) == ("address 127.0.0.1", "login.failed")
    assert failed["detail"] == "count=1"  # the others follow with the next window


async def test_u9_failed_logins_from_many_addresses_have_few_entries(served: Served):
    for number in range(MOST_ENTRIES + 5):
        await served.api.state.failed_logins.record(f"192.0.2.{number}")
    assert len(await entries(served)) == MOST_ENTRIES
