"""`Idempotency-Key`: a repeated POST changes nothing and gets the first response."""

import asyncio
import json
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.api.middleware.idempotency import MAX_RESPONSE_BYTES
from headwater.clock import SystemClock
from headwater.errors import DatabaseUnavailable, TooMany
from headwater.model import User
from headwater.rules.retention import IDEMPOTENCY_KEYS
from headwater.store import Store, open_database
from headwater.store.expired_rows import old_idempotency_keys
from headwater.store.idempotency_keys import LEASE, MAX_KEYS_PER_USER, KeyedRequest
from headwater.store.row_mapping import to_ms
from tests.api.conftest import DEFAULT, OWN, Answer, Served, serving, settings_in
from tests.api.killed_request import BODY, KEY
from tests.store.store_data import a_polled_source, a_post_of, a_success
from tests.system.conftest import feed_site, web_of

ROOT = Path(__file__).resolve().parents[2]
PODCASTS = "/api/users/default/podcasts"
OPML = b'<opml version="2.0"><body><outline xmlUrl="https://example.org/feed"/></body></opml>'


async def repeat(
    served: Served, path: str, body: Any = None, key: str = "k", **more: Any
) -> Answer:
    return await served.post(path, body, headers={"Idempotency-Key": key}, **more)


async def count(store: Store, table: str) -> int:
    ((number,),) = await store.database.fetch(f"SELECT count(*) FROM {table}")
    return int(number)


CREATED: list[tuple[str, dict[str, Any], str]] = [
    ("/api/users", {"body": {"name": "ann"}}, "users"),
    (PODCASTS, {"body": {"name": "morning"}}, "podcasts"),
    (f"{DEFAULT}/sources", {"body": {"type": "rss", "url": "https://example.org/feed"}}, "sources"),
    (f"{DEFAULT}/opml", {"data": OPML}, "sources"),
    (f"{DEFAULT}/articles/aggregate", {}, "articles"),
]


@pytest.mark.parametrize(("path", "sent", "table"), CREATED, ids=[path for path, *_ in CREATED])
async def test_a_repeated_request_gets_the_same_response_and_creates_nothing(
    served_by_each: Served, path: str, sent: dict[str, Any], table: str
):
    served = served_by_each
    first = await repeat(served, path, **sent)
    assert first.status < 300
    assert "Idempotent-Replayed" not in first.headers
    there = await count(served.app.store, table)
    for _ in range(2):
        again = await repeat(served, path, **sent)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["Idempotent-Replayed"] == "true"
        for name in ("Location", "ETag", "Content-Type"):
            assert again.headers.get(name) == first.headers.get(name)
        assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert await count(served.app.store, table) == there
    assert (await repeat(served, path, key="another", **sent)).headers.get(
        "Idempotent-Replayed"
    ) is None


async def test_another_body_or_query_with_the_same_key_is_422(served_by_each: Served):
    served = served_by_each
    path = f"{DEFAULT}/sources"
    assert (
        await repeat(served, path, {"type": "rss", "url": "https://example.org/a"})
    ).status == 201
    other = await repeat(served, path, {"type": "rss", "url": "https://example.org/b"})
    assert (other.status, other.json["type"]) == (422, "/api/problems/idempotency-key-reused")
    assert [one["field"] for one in other.json["errors"]] == ["Idempotency-Key"]
    assert await count(served.app.store, "sources") == 1


async def test_a_key_belongs_to_a_caller_and_a_path(served: Served):
    ann, bob, admin = await served.person("ann"), await served.person("bob"), await served.admin()
    body = {"type": "rss", "url": "https://example.org/feed"}
    for name, token in (("ann", ann), ("bob", bob), ("bob", admin), ("ann", admin)):
        path = f"/api/users/{name}/podcasts/{name}/sources"
        answer = await repeat(served, path, body, token=token)
        assert (answer.status, "Idempotent-Replayed" in answer.headers) == (201, False)
    again = await repeat(served, "/api/users/ann/podcasts/ann/sources", body, token=ann)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert await count(served.app.store, "sources") == 4


async def test_concurrent_requests_with_one_key_create_one_object(served_by_each: Served):
    served = served_by_each
    path, body = f"{DEFAULT}/sources", {"type": "rss", "url": "https://example.org/feed"}
    answers = await asyncio.gather(*(repeat(served, path, body) for _ in range(8)))
    assert await count(served.app.store, "sources") == 1
    ids = {answer.json["id"] for answer in answers if answer.status == 201}
    assert len(ids) == 1
    for answer in answers:
        if answer.status != 201:
            assert (answer.status, answer.json["type"]) == (
                409,
                "/api/problems/request-in-progress",
            )
            assert answer.headers["Retry-After"] == "1"


async def test_a_request_that_failed_without_effect_can_be_repeated(served_by_each: Served):
    served = served_by_each
    refused = await repeat(served, "/api/users", {"name": "default"})
    assert refused.status == 409
    assert (await repeat(served, "/api/users", {"name": "ann"})).status == 201
    assert await count(served.app.store, "idempotency_keys") == 1


async def test_a_failed_visit_to_a_new_source_does_not_use_up_the_key(served_by_each: Served):
    served = served_by_each
    refused = await repeat(served, f"{DEFAULT}/sources", {"url": f"http://{OWN}:9/"})
    assert (refused.status, refused.json["type"]) == (422, "/api/problems/fetch-failed")
    assert await count(served.app.store, "idempotency_keys") == 0


async def test_a_new_source_that_is_visited_is_added_once(served_by_each: Served):
    served = served_by_each
    async with web_of(site=feed_site()) as web:
        body = {"url": web.url("site")}
        first, again = [await repeat(served, f"{DEFAULT}/sources", body) for _ in range(2)]
    assert (first.status, again.status, again.body) == (201, 201, first.body)
    assert await count(served.app.store, "sources") == 1


async def test_an_unexpected_error_releases_the_key(served: Served):
    failures = [RuntimeError("broken")]

    async def fails_once() -> dict[str, str]:
        if failures:
            raise failures.pop()
        return {"done": "yes"}

    served.api.add_api_route("/api/odd", fails_once, methods=["POST"], include_in_schema=False)
    assert (await repeat(served, "/api/odd")).status == 500
    assert (await repeat(served, "/api/odd")).json == {"done": "yes"}


async def test_an_error_after_a_change_is_not_repeated(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    now = served.app.clock.now()

    async def add_and_fail() -> None:
        number = await count(store, "users")
        await store.accounts.add_user(User(f"u{number}", f"u{number}", now))
        raise RuntimeError("broken")

    served.api.add_api_route("/api/odd", add_and_fail, methods=["POST"], include_in_schema=False)
    assert (await repeat(served, "/api/odd")).status == 500
    again = await repeat(served, "/api/odd")
    assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")
    assert await count(store, "users") == 2


async def test_an_error_after_a_source_with_many_posts_is_not_repeated(
    served_by_each: Served, monkeypatch: pytest.MonkeyPatch
):
    served, store = served_by_each, served_by_each.app.store
    monkeypatch.setattr("headwater.store.POSTS_PER_COMMIT", 2)

    async def add_and_fail() -> None:
        source = a_polled_source(last_polled=None)
        outcome = a_success(source, [a_post_of(source, f"post {n}") for n in range(5)])
        await store.add_source(source, urls=[source.url], most=10, outcome=outcome)
        raise RuntimeError("broken")

    served.api.add_api_route("/api/odd", add_and_fail, methods=["POST"], include_in_schema=False)
    assert (await repeat(served, "/api/odd")).status == 500
    again = await repeat(served, "/api/odd")
    assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")
    assert await count(store, "sources") == 1


@pytest.mark.parametrize(
    ("error", "status"), [(TooMany("later"), 429), (DatabaseUnavailable("later"), 503)]
)
async def test_a_temporary_error_is_not_replayed(
    served_by_each: Served, error: Exception, status: int
):
    served, store = served_by_each, served_by_each.app.store
    now = served.app.clock.now()

    async def add_and_refuse(user: str = "") -> None:
        if user:
            await store.accounts.add_user(User(user, user, now))
        raise error

    served.api.add_api_route("/api/odd", add_and_refuse, methods=["POST"], include_in_schema=False)
    for _ in range(2):  # without effect: it runs again
        answer = await repeat(served, "/api/odd")
        assert (answer.status, "Idempotent-Replayed" in answer.headers) == (status, False)
    assert await count(store, "idempotency_keys") == 0
    assert (await repeat(served, "/api/odd?user=ann")).status == status
    again = await repeat(served, "/api/odd?user=ann")
    assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_a_process_that_is_killed_after_its_commit_creates_one_object(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
):
    url = f"sqlite:///{tmp_path / 'test.db'}"
    if kind == "postgres":
        url = request.getfixturevalue("migrated_postgres_url")
    command = (sys.executable, "-m", "tests.api.killed_request", url, str(tmp_path))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await process.wait() == -signal.SIGKILL
    async with serving(settings_in(tmp_path, **{"app.database-url": url})) as served:
        again = await repeat(served, "/api/users", BODY, KEY)
        assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")
        assert await count(served.app.store, "users") == 2  # default, and the new one


async def test_a_request_whose_process_died_before_its_commit_can_be_repeated(
    served_by_each: Served,
):
    served, store = served_by_each, served_by_each.app.store
    first = asyncio.create_task(_stuck_request(served))
    sql = "SELECT count(*) FROM idempotency_keys WHERE NOT has_written"
    while await store.database.fetch(sql) != [(1,)]:
        await asyncio.sleep(0.01)
    busy = await repeat(served, "/api/odd")
    assert (busy.status, busy.json["type"]) == (409, "/api/problems/request-in-progress")

    age = LEASE // timedelta(milliseconds=1)
    await store.database.execute(f"UPDATE idempotency_keys SET created_at = created_at - {age}")
    served.api.state.released.set()  # the second one does not wait
    assert (await repeat(served, "/api/odd")).status == 200
    served.api.state.go_on.set()
    late = await first
    assert (late.status, late.json["type"]) == (409, "/api/problems/request-in-progress")
    assert await count(store, "users") == 2  # the late one was rolled back


async def _stuck_request(served: Served) -> Answer:
    """Send a request that waits before its first change, until it is told to go on."""
    store, now = served.app.store, served.app.clock.now()
    served.api.state.released, served.api.state.go_on = asyncio.Event(), asyncio.Event()

    async def wait_and_add() -> dict[str, str]:
        if not served.api.state.released.is_set():
            await served.api.state.go_on.wait()
        number = await count(store, "users")
        await store.accounts.add_user(User(f"u{number}", f"u{number}", now))
        return {"done": "yes"}

    served.api.add_api_route("/api/odd", wait_and_add, methods=["POST"], include_in_schema=False)
    return await repeat(served, "/api/odd")


async def test_keys_expire_after_a_day_and_are_cleaned_up(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    body = {"type": "rss", "url": "https://example.org/feed"}
    first = await repeat(served, f"{DEFAULT}/sources", body)
    now = served.app.clock.now()
    before = now + IDEMPOTENCY_KEYS - timedelta(hours=1)
    assert await store.clean(old_idempotency_keys(), before, 9) == 0
    age = IDEMPOTENCY_KEYS // timedelta(milliseconds=1)
    await store.database.execute(f"UPDATE idempotency_keys SET created_at = created_at - {age}")
    second = await repeat(served, f"{DEFAULT}/sources", body)  # before any cleanup
    assert (second.status, second.json["id"] == first.json["id"]) == (201, False)
    assert await store.clean(old_idempotency_keys(), now + 2 * IDEMPOTENCY_KEYS, 9) == 1
    assert await count(store, "idempotency_keys") == 0


async def test_u1_the_secret_of_a_new_token_is_not_stored(served: Served):
    admin = await served.admin()
    body = {"name": "reports", "scope": "read"}
    made = await repeat(served, "/api/tokens", body, token=admin)
    assert made.status == 201
    again = await repeat(served, "/api/tokens", body, token=admin)
    assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")
    rows = await served.app.store.database.fetch("SELECT * FROM idempotency_keys")
    assert made.json["token"] not in json.dumps(rows)


async def test_a_response_that_is_too_large_is_not_stored(served: Served):
    async def large() -> dict[str, str]:
        return {"text": "x" * MAX_RESPONSE_BYTES}

    served.api.add_api_route("/api/large", large, methods=["POST"], include_in_schema=False)
    assert (await repeat(served, "/api/large")).status == 200
    again = await repeat(served, "/api/large")
    assert (again.status, again.json["type"]) == (409, "/api/problems/response-lost")


@pytest.mark.parametrize("key", ["", "x" * 256, "two words", "ü"])
async def test_an_invalid_key_is_422(served: Served, key: str):
    answer = await repeat(served, "/api/users", {"name": "ann"}, key)
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert (await repeat(served, "/api/users", {"name": "ann"}, "x" * 255)).status == 201


async def test_other_methods_ignore_the_key(served: Served):
    for name in ("one", "two"):
        body, headers = {"name": name}, {"Idempotency-Key": "k"}
        assert (await served.put("/api/users/default", body, headers=headers)).json["name"] == name
    assert await count(served.app.store, "idempotency_keys") == 0


async def test_u8_a_user_has_a_limited_number_of_keys(served_by_each: Served):
    served = served_by_each
    ann, admin = await served.person("ann"), await served.admin()
    store, now = served.app.store, served.app.clock.now()
    user = await store.accounts.user("ann")
    expired, fresh = (
        [
            {"id": f"{at} {n}", "user_id": user.id, "fingerprint": "", "attempt": "",
                "created_at": to_ms(at)}
            for n in range(MAX_KEYS_PER_USER - 1)
        ]
        for at in (now - IDEMPOTENCY_KEYS, now)
    )  # fmt: skip
    await store.database.write(
        lambda session: session.insert_rows("idempotency_keys", expired + fresh)
    )
    path, body = (
        "/api/users/ann/podcasts/ann/sources",
        {"type": "rss", "url": "https://example.org/feed"},
    )
    assert (await repeat(served, path, body, "last", token=ann)).status == 201
    refused = await repeat(served, path, body, token=ann)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3600")
    replayed = await repeat(served, path, body, "last", token=ann)
    assert (replayed.status, replayed.headers["Idempotent-Replayed"]) == (201, "true")
    assert (await repeat(served, path, body, token=admin)).status == 201
    await store.accounts.remove_user(user.id)
    assert await count(store, "idempotency_keys") == 1
    assert await store.idempotency_keys.reserve(KeyedRequest("x", None, "", ""), now) is None


@pytest.mark.postgres
async def test_of_two_servers_only_one_reserves_a_key(migrated_postgres_url: str):
    now = SystemClock().now()
    async with (
        Store(open_database(migrated_postgres_url), SystemClock()) as one,
        Store(open_database(migrated_postgres_url), SystemClock()) as other,
    ):
        for number in range(20):
            key = f"key {number}"
            found = await asyncio.gather(
                *(
                    store.idempotency_keys.reserve(KeyedRequest(key, None, "", f"{n}"), now)
                    for n, store in enumerate((one, other))
                )
            )
            assert found.count(None) == 1
