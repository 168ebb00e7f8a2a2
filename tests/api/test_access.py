"""Access is denied unless allowed: every route, every kind of caller, every id parameter (U2).

A new route needs a row in TABLE, and every row needs a route.
"""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.api.middleware.authentication import LOGIN_PATH, OPEN_PATHS
from headwater.api.middleware.failed_logins import MOST
from headwater.api.problem_types import ProblemType
from tests.api.access_fixtures import (
    UNKNOWN,
    ApiWithUsers,
    OwnedObjects,
    bare,
    make_template,
    parameters_in,
    routes_in,
    running_api_with_users,
)
from tests.api.conftest import Answer

USER, PODCAST = "/api/users/{u}", "/api/users/{u}/podcasts/{p}"
SOURCE, ARTICLE = PODCAST + "/sources/{s}", PODCAST + "/articles/{a}"
SEARCHES = PODCAST + "/searches"
OWNER, ADMIN, ANYONE, OPEN = "owner", "admin", "anybody", "open"  # who may
WEBHOOK, HOOK = PODCAST + "/webhooks/{w}", {"url": "http://127.66.9.9:1/hook"}
TOPIC = {"channels": [{"kind": "ntfy", "url": "http://127.66.9.9:1/topic"}]}
FEED = {"type": "rss", "url": "http://127.66.9.9:1/new"}
OPML = b'<opml version="2.0"><body><outline xmlUrl="http://127.66.9.9:1/o"/></body></opml>'

CHANGES_NOTHING = ("/preview",)  # routes other than GET without an entry in the audit log

Body = Callable[[OwnedObjects], Any]


@dataclass(frozen=True)
class Row:
    """A route, who may call it, and the expected status."""

    method: str
    path: str
    who: str = OWNER
    ok: int = 200
    body: Body | None = None
    foreign: Body | None = None  # a body from the caller that names objects of another user
    data: bytes | None = None
    queries: tuple[str, ...] = ()  # templates that name objects of another user
    is_list: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _batch(things: OwnedObjects) -> Any:
    return {"action": "disable", "ids": [things.s]}


def _filtered(things: OwnedObjects) -> Any:
    return {"action": "delete", "filter": {"host": things.host}}


def _marked(things: OwnedObjects) -> Any:
    return {"ids": [things.a]}


def _scored(things: OwnedObjects) -> Any:
    return [{"id": things.a, "score": 1}]


NEEDS_ADMIN = "this needs an administrator's token"
TABLE = (
    Row("GET", "/api/health", OPEN),
    Row("GET", "/api/ready", OPEN, ok=503),  # no tick yet
    Row("GET", "/api/openapi.json", OPEN),
    Row("GET", "/api", OPEN),
    Row("GET", "/api/docs", OPEN),
    Row("GET", "/api/docs/docs.css", OPEN),
    Row("GET", "/api/docs/docs.js", OPEN),
    Row("GET", "/api/docs/swagger-ui.css", OPEN),
    Row("GET", "/api/docs/swagger-ui.js", OPEN),
    *(Row("GET", kind.uri, OPEN) for kind in ProblemType),
    Row("GET", "/metrics", ADMIN),
    Row("GET", "/api/scheduler", ANYONE),
    Row("PUT", "/api/scheduler", ADMIN, body=lambda _: {"paused": True}),
    Row("GET", "/api/cluster", ADMIN, ok=404),  # a SQLite file has one polling process
    Row("PUT", "/api/cluster/drain", ADMIN, ok=404, body=lambda _: {"worker": "db1"}),
    Row("GET", "/api/events", ANYONE, queries=("podcast={p}", "source={s}")),
    Row("GET", "/api/incidents", ANYONE, is_list=True),
    Row("GET", "/api/incidents/feed.atom", ANYONE),
    Row("GET", "/api/hosts", ANYONE, is_list=True),
    Row("GET", "/api/hosts/{host}"),
    Row("GET", "/api/users", ANYONE, is_list=True),
    Row("POST", "/api/users", ADMIN, ok=201, body=lambda t: {"name": f"new {t.u}"}),
    Row("GET", USER),
    Row("PUT", USER, ADMIN, body=lambda t: {"name": f"renamed {t.u}"}),
    Row("DELETE", USER, ADMIN, ok=204),
    Row("GET", "/api/tokens", ANYONE, is_list=True),
    Row("POST", "/api/tokens", ANYONE, ok=201, body=lambda _: {"name": "new", "scope": "read"}),
    Row("GET", "/api/tokens/{t}"),
    Row("DELETE", "/api/tokens/{t}", ok=204),
    Row("GET", "/api/audit", ADMIN),
    Row("GET", "/api/podcasts", ANYONE, queries=("user={u}",), is_list=True),
    Row("GET", "/api/sources", ANYONE, queries=("user={u}",), is_list=True),
    Row("GET", USER + "/api-keys", is_list=True),
    Row("PUT", USER + "/api-keys/{provider}", body=lambda _: {"apiKey": "new-key"}),
    Row("DELETE", USER + "/api-keys/{provider}", ok=204),
    Row("GET", USER + "/podcasts", is_list=True),
    Row("POST", USER + "/podcasts", ok=201, body=lambda _: {"name": "new"}),
    Row("GET", PODCAST),
    Row("PUT", PODCAST, body=lambda _: {"name": "renamed"}),
    Row("DELETE", PODCAST, ok=204),
    Row("GET", PODCAST + "/sources", is_list=True),
    Row("POST", PODCAST + "/sources", ok=201, body=lambda _: FEED),
    Row("POST", PODCAST + "/sources/batch", body=_batch, foreign=_batch),
    Row("POST", PODCAST + "/filters/preview", body=lambda _: {"block": "bank"}),
    Row("POST", SOURCE + "/filters/preview", body=lambda _: {"block": "bank"}),
    Row("POST", PODCAST + "/sources/preview", ok=422, body=lambda t: {"url": t.url}),
    Row("GET", SOURCE),
    Row("PUT", SOURCE, body=lambda _: FEED),
    Row("PATCH", SOURCE, body=lambda _: {"label": "patched"}),
    Row("DELETE", SOURCE, ok=204),
    Row("POST", SOURCE + "/poll"),
    Row("GET", SOURCE + "/explain"),
    Row("POST", SOURCE + "/suggestions/{n}/accept"),
    Row("POST", SOURCE + "/suggestions/{n}/undo", ok=422),  # it changed no URL
    Row("DELETE", SOURCE + "/suggestions/{n}", ok=204),
    Row("GET", SOURCE + "/posts", is_list=True),
    Row("GET", SOURCE + "/polls", is_list=True),
    Row("GET", SOURCE + "/poll-days"),
    Row("GET", SEARCHES),
    Row("POST", SEARCHES, ok=201, body=lambda _: {"name": "new", "query": "river"}),
    Row("GET", SEARCHES + "/{name}"),
    Row("PUT", SEARCHES + "/{name}", body=lambda _: {"name": "renamed", "query": "river"}),
    Row("DELETE", SEARCHES + "/{name}", ok=204),
    Row("GET", SEARCHES + "/{name}/feed.atom"),
    Row("GET", SEARCHES + "/{name}/feed.json"),
    Row("GET", PODCAST + "/posts", queries=("source={s}",), is_list=True),
    Row("GET", PODCAST + "/posts/{i}"),
    Row("GET", PODCAST + "/posts/{i}/diff"),
    Row("PATCH", PODCAST + "/posts/{i}", body=lambda _: {"score": 1}),
    Row("DELETE", PODCAST + "/posts/{i}/story", ok=204),
    Row("POST", PODCAST + "/articles/aggregate"),
    Row("GET", PODCAST + "/articles", queries=("source={s}",), is_list=True),
    Row("POST", PODCAST + "/articles/processed", body=_marked, foreign=_marked),
    Row("POST", PODCAST + "/articles/unprocessed", body=_marked, foreign=_marked),
    Row("PATCH", PODCAST + "/articles", body=_scored, foreign=_scored),
    Row("GET", PODCAST + "/batches"),
    Row("GET", ARTICLE),
    Row("DELETE", ARTICLE, ok=204),
    Row("PATCH", ARTICLE, body=lambda _: {"score": 1}),
    Row("POST", ARTICLE + "/processed"),
    Row("GET", PODCAST + "/opml"),
    Row("POST", PODCAST + "/opml", data=OPML),
    Row("GET", PODCAST + "/feed.atom"),
    Row("GET", PODCAST + "/feed.json"),
    Row("GET", USER + "/notices"),
    Row("PUT", USER + "/notices", body=lambda _: TOPIC),
    Row("POST", USER + "/notices/test"),
    Row("GET", PODCAST + "/webhooks"),
    Row("POST", PODCAST + "/webhooks", ok=201, body=lambda _: HOOK),
    Row("GET", WEBHOOK),
    Row("PUT", WEBHOOK, body=lambda _: HOOK),
    Row("DELETE", WEBHOOK, ok=204),
    Row("POST", WEBHOOK + "/test", ok=202),
    Row("GET", WEBHOOK + "/deliveries"),
    Row("POST", WEBHOOK + "/deliveries/{d}/resend", ok=202),
    Row("GET", "/api/webhooks", ADMIN),
    Row("POST", "/api/webhooks", ADMIN, ok=201, body=lambda _: HOOK),
    Row("GET", "/api/webhooks/{w}", ADMIN, ok=404),  # these are of podcasts
    Row("PUT", "/api/webhooks/{w}", ADMIN, ok=404, body=lambda _: HOOK),
    Row("DELETE", "/api/webhooks/{w}", ADMIN, ok=404),
    Row("POST", "/api/webhooks/{w}/test", ADMIN, ok=404),
    Row("GET", "/api/webhooks/{w}/deliveries", ADMIN, ok=404),
    Row("POST", "/api/webhooks/{w}/deliveries/{d}/resend", ADMIN, ok=404),
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("template")
    return folder, asyncio.run(make_template(folder))


@pytest.fixture
async def users(
    template: tuple[Path, dict[str, Any]], tmp_path: Path
) -> AsyncIterator[ApiWithUsers]:
    folder, content = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    async with running_api_with_users(tmp_path, content) as users:
        yield users


async def test_u2_every_route_has_a_row_and_every_row_a_route(users: ApiWithUsers):
    api: Any = users.served.api
    there = set(routes_in(api.routes))
    listed = {(row.method, bare(row.path)) for row in TABLE}
    documented = {
        (method.upper(), bare(path))
        for path, methods in api.openapi()["paths"].items()
        for method in methods
    }
    assert there - listed == set(), "add a row for each of these"
    assert listed - there == set(), "there is no such route"
    assert documented <= there
    pages = {LOGIN_PATH}  # the dashboard has its own table
    assert {row.path for row in TABLE if row.who == OPEN} == OPEN_PATHS - pages


@pytest.mark.parametrize(
    "first", range(0, len(TABLE), MOST // 2)
)  # more would be delayed by the login limit
async def test_u2_without_a_valid_token_only_open_paths_are_served(users: ApiWithUsers, first: int):
    before = await users.dump()
    for row in TABLE[first : first + MOST // 2]:
        callers = ("anonymous", "revoked", "expired")
        answers = [await _as(users, caller, row, users.anna) for caller in callers]
        expected = row.ok if row.who == OPEN else 401
        assert [answer.status for answer in answers] == [expected] * 3, row
        assert row.who == OPEN or len({answer.body for answer in answers}) == 1, row
    assert await users.dump() == before


@pytest.mark.parametrize("row", TABLE, ids=str)
async def test_u2_users_reach_their_own_objects_and_administrators_all(
    users: ApiWithUsers, row: Row
):
    others = await users.rows_of(users.bert)
    answer = await _as(users, "anna", row, users.anna)
    if row.who == ADMIN:
        assert answer.status == 403
        needed = "the metrics need a token of no user" if row.path == "/metrics" else NEEDS_ADMIN
        assert answer.json["detail"].startswith(needed)
    else:
        assert answer.status == row.ok, answer.body
        assert _mentioned(users.bert, answer) == []
    assert await users.rows_of(users.bert) == others

    before = await users.audit_actions()
    assert (await _as(users, "admin", row, users.bert)).status == row.ok
    added = (await users.audit_actions())[len(before) :]
    if row.method == "GET" or row.ok >= 400 or row.path.endswith(CHANGES_NOTHING):
        assert added == []
    else:  # U9: a new route describes what it changes
        assert [who for who, _ in added] == ["token admin"], added


async def test_u1_a_token_that_reads_reaches_what_its_user_may_read_and_changes_nothing(
    users: ApiWithUsers,
):
    before = await users.dump()
    for row in TABLE:
        own = await _as(users, "reader", row, users.anna)
        everything = await _as(users, "reader of all", row, users.bert)
        if row.method != "GET":
            assert (own.status, everything.status) == (403, 403), row
            assert own.json["detail"] == "this token permits reading only"
            continue
        assert own.status == (403 if row.who == ADMIN else row.ok), row
        assert _mentioned(users.bert, own) == [], row
        assert everything.status == row.ok, row
        for stolen, _ in _swaps(row.path, users.bert):
            path = users.anna.path(row.path, **stolen)
            expected = 403 if row.who == ADMIN else 404
            assert (await users.send_as("reader", "GET", path)).status == expected, row
    assert await users.dump() == before


async def test_u1_a_metrics_token_permits_the_metrics_only(users: ApiWithUsers):
    before = await users.dump()
    for row in TABLE:
        answer = await _as(users, "metrics", row, users.anna)
        permitted = row.who == OPEN or row.path == "/metrics"
        assert answer.status == (row.ok if permitted else 403), row
    assert (await users.send_as("metrics", "GET", "/")).status == 403
    assert await users.dump() == before


async def test_u2_foreign_ids_in_a_path_get_the_response_of_unknown_ids(users: ApiWithUsers):
    before = await users.dump()
    for row in TABLE:
        for stolen, made_up in _swaps(row.path, users.bert):
            answers = [
                await _send_row(users, "anna", row, users.anna.path(row.path, **ids), users.anna)
                for ids in (stolen, made_up)
            ]
            expected = 403 if row.who == ADMIN else 404
            assert [answer.status for answer in answers] == [expected, expected], (row, stolen)
            assert _blurred(answers[0], stolen) == _blurred(answers[1], made_up), (row, stolen)
    assert await users.dump() == before


def _swaps(path: str, foreign: OwnedObjects) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Ids and names of another user in each parameter and in all, beside invented ones."""
    places = [place for place in parameters_in(path) if place != "provider"]
    if not places:
        return
    for place in places:
        for value in {getattr(foreign, place), foreign.names.get(place)} - {None}:
            yield {place: value}, {place: UNKNOWN}
    yield {place: getattr(foreign, place) for place in places}, dict.fromkeys(places, UNKNOWN)


@pytest.mark.parametrize("row", [row for row in TABLE if row.foreign], ids=str)
async def test_u2_foreign_ids_in_a_body_get_the_response_of_unknown_ids(
    users: ApiWithUsers, row: Row
):
    before = await users.dump()
    path, foreign = users.anna.path(row.path), row.foreign
    assert foreign is not None
    made_up = OwnedObjects.made_up()
    answers = [
        await users.send_as("anna", row.method, path, foreign(things))
        for things in (users.bert, made_up)
    ]
    assert [answer.status for answer in answers] == [404, 404]
    blurred = [
        _blurred(answers[0], {"s": users.bert.s, "a": users.bert.a}),
        _blurred(answers[1], {"s": UNKNOWN}),
    ]
    assert blurred[0] == blurred[1]
    # own ids beside foreign ones change nothing
    mixed = foreign(users.anna)
    if isinstance(mixed, list):
        mixed += foreign(users.bert)
    else:
        mixed["ids"] += foreign(users.bert)["ids"]
    assert (await users.send_as("anna", row.method, path, mixed)).status == 404
    assert await users.dump() == before


@pytest.mark.parametrize("row", [row for row in TABLE if row.queries], ids=str)
async def test_u2_foreign_ids_in_a_query_get_the_response_of_unknown_ids(
    users: ApiWithUsers, row: Row
):
    for query in row.queries:
        (place,) = parameters_in(query)
        names = [users.anna.path(query), users.bert.path(query), query.format(**{place: UNKNOWN})]
        paths = [f"{users.anna.path(row.path)}?{name}" for name in names]
        own, stolen, made_up = [await users.send_as("anna", row.method, path) for path in paths]
        assert [a.status for a in (own, stolen, made_up)] == [row.ok, 404, 404]
        foreign = {place: getattr(users.bert, place)}
        assert _blurred(stolen, foreign) == _blurred(made_up, {place: UNKNOWN})


@pytest.mark.parametrize("row", [row for row in TABLE if row.is_list], ids=str)
async def test_u2_a_cursor_of_another_user_returns_own_items_only(users: ApiWithUsers, row: Row):
    owner = "admin" if row.who == ANYONE else "bert"
    first = await users.send_as(owner, "GET", f"{users.bert.path(row.path)}?limit=1")
    cursor = first.json["nextCursor"]
    assert cursor is not None
    own = users.anna.path(row.path)
    answer = await users.send_as("anna", "GET", f"{own}?cursor={cursor}")
    assert answer.status == 200
    whole = await users.send_as("anna", "GET", own)
    assert _mentioned(users.bert, answer) == []
    ids = [[one.get("id", one) for one in found.json["items"]] for found in (answer, whole)]
    assert all(one in ids[1] for one in ids[0])


async def test_u2_filters_find_no_objects_of_others(users: ApiWithUsers):
    path, bert = users.anna.path(PODCAST + "/sources"), users.bert
    for query in (f"host={bert.host}", "q=bert-label", f"q={bert.s}"):
        assert (await users.send_as("anna", "GET", f"{path}?{query}")).json["items"] == []
    before = await users.rows_of(bert)
    answer = await users.send_as("anna", "POST", path + "/batch", _filtered(bert))
    assert answer.status == 200
    assert _mentioned(bert, answer) == []
    everything = {"action": "delete", "filter": {"all": True}}
    assert (await users.send_as("anna", "POST", path + "/batch", everything)).status == 200
    assert await users.rows_of(bert) == before


async def test_u2_an_import_does_not_reveal_the_sources_of_others(users: ApiWithUsers):
    path = users.anna.path(PODCAST + "/opml")
    file = f'<opml version="2.0"><body><outline xmlUrl="{users.bert.url}"/></body></opml>'
    answer = await users.send_as("anna", "POST", path, data=file.encode())
    (line,) = answer.json["items"]
    assert line["outcome"] == "added"
    assert line["sourceId"] not in users.bert.ids


async def test_u2_a_request_body_cannot_take_over_a_source_of_another_user(users: ApiWithUsers):
    before = await users.rows_of(users.bert)
    path = users.anna.path(SOURCE)
    whole = (await users.send_as("anna", "GET", path)).json
    forged = whole | {"podcastId": users.bert.p, "id": users.bert.s}
    answer = await users.send_as("anna", "PUT", path, forged)
    assert (answer.status, answer.json["podcastId"]) == (200, users.anna.p)
    created = await users.send_as("anna", "POST", users.anna.path(PODCAST + "/sources"), forged)
    assert (created.status, created.json["podcastId"]) == (201, users.anna.p)
    user = await users.send_as(
        "admin", "PUT", users.anna.path(USER), {"name": "x", "id": users.bert.u}
    )
    assert user.json["id"] == users.anna.u
    assert await users.rows_of(users.bert) == before


async def test_u2_users_cannot_find_out_by_renaming_which_names_are_in_use(users: ApiWithUsers):
    names = ("bert", "anna", "free")
    answers = [
        await users.send_as("anna", "PUT", users.anna.path(USER), {"name": name}) for name in names
    ]
    assert [answer.status for answer in answers] == [403] * 3
    assert len({answer.body for answer in answers}) == 1


async def test_u2_a_stream_has_only_events_of_own_sources_including_missed_ones(
    users: ApiWithUsers,
):
    for name, things in (("anna", users.anna), ("bert", users.bert)):
        polled = await users.send_as(name, "POST", things.path(SOURCE + "/poll"))
        assert polled.json["outcome"] == "failed"
    opening = (await users.send_as("anna", "GET", "/api/events")).body.decode()
    (run,) = set(re.findall(r"id: (\d+)-", opening))
    missed = {"Last-Event-ID": f"{run}-0"}
    reported = {
        caller: await users.send_as(caller, "GET", "/api/events", headers=missed)
        for caller in ("anna", "bert", "admin")
    }
    assert users.anna.s.encode() in reported["anna"].body
    assert _mentioned(users.bert, reported["anna"]) == []
    assert users.bert.s.encode() in reported["bert"].body
    assert _mentioned(users.anna, reported["bert"]) == []
    assert all(one.s.encode() in reported["admin"].body for one in (users.anna, users.bert))


async def test_u3_reading_changes_nothing(users: ApiWithUsers):
    before = await users.dump()
    for row in TABLE:
        if row.method == "GET":
            for caller in ("anna", "admin"):
                await _as(users, caller, row, users.anna)
            assert await users.dump() == before, row


async def _as(users: ApiWithUsers, caller: str, row: Row, things: OwnedObjects) -> Answer:
    return await _send_row(users, caller, row, things.path(row.path), things)


async def _send_row(
    users: ApiWithUsers, caller: str, row: Row, path: str, things: OwnedObjects
) -> Answer:
    body = None if row.body is None else row.body(things)
    return await users.send_as(caller, row.method, path, body, data=row.data)


def _mentioned(things: OwnedObjects, answer: Answer) -> list[str]:
    """The objects of a user that a response mentions."""
    text = answer.body.decode()
    return [one for one in things.ids if one in text]


def _blurred(answer: Answer, ids: dict[str, str]) -> Any:
    """A problem document without the requested ids."""
    text = answer.body.decode()
    for value in ids.values():
        text = text.replace(value, "…")
    return json.loads(text)
