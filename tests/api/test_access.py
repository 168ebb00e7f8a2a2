"""Access is denied unless allowed: every route, every kind of caller, every place for an id (U2).

A new route needs a row in TABLE; a row without its route is as wrong.
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

from headwater.api.attempts import MOST
from headwater.api.callers import LOGIN_PATH, OPEN_PATHS
from tests.api.access_world import (
    UNKNOWN,
    Things,
    World,
    bare,
    make_template,
    places_in,
    routes_in,
    running_world,
)
from tests.api.conftest import Answer

USER, PODCAST = "/api/users/{u}", "/api/users/{u}/podcasts/{p}"
SOURCE, ARTICLE = PODCAST + "/sources/{s}", PODCAST + "/articles/{a}"
OWNER, ADMIN, ANYBODY, OPEN = "owner", "admin", "anybody", "open"  # who may
FEED = {"type": "rss", "url": "http://127.66.9.9:1/new"}
OPML = b'<opml version="2.0"><body><outline xmlUrl="http://127.66.9.9:1/o"/></body></opml>'

Body = Callable[[Things], Any]


@dataclass(frozen=True)
class Row:
    """A route: who may call it, and what they are answered."""

    method: str
    path: str
    who: str = OWNER
    ok: int = 200
    body: Body | None = None
    foreign: Body | None = None  # a body of one's own that names somebody's things
    data: bytes | None = None
    queries: tuple[str, ...] = ()  # that name somebody's things, as templates
    is_list: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _batch(things: Things) -> Any:
    return {"action": "disable", "ids": [things.s]}


def _filtered(things: Things) -> Any:
    return {"action": "delete", "filter": {"host": things.host}}


def _marked(things: Things) -> Any:
    return {"ids": [things.a]}


TABLE = (
    Row("GET", "/api/health", OPEN),
    Row("GET", "/api/ready", OPEN, ok=503),  # no tick yet
    Row("GET", "/api/openapi.json", OPEN),
    Row("GET", "/api", OPEN),
    Row("GET", "/api/docs", OPEN),
    Row("GET", "/api/docs.css", OPEN),
    Row("GET", "/metrics", ADMIN),
    Row("GET", "/api/scheduler", ANYBODY),
    Row("PUT", "/api/scheduler", ADMIN, body=lambda _: {"paused": True}),
    Row("GET", "/api/cluster", ADMIN, ok=404),  # a SQLite file has one poller
    Row("GET", "/api/events", ANYBODY, queries=("podcast={p}", "source={s}")),
    Row("GET", "/api/hosts", ANYBODY, is_list=True),
    Row("GET", "/api/hosts/{host}"),
    Row("GET", "/api/users", ANYBODY, is_list=True),
    Row("POST", "/api/users", ADMIN, ok=201, body=lambda t: {"name": f"new {t.u}"}),
    Row("GET", USER),
    Row("PUT", USER, body=lambda t: {"name": f"renamed {t.u}"}),
    Row("DELETE", USER, ADMIN, ok=204),
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
    Row("POST", PODCAST + "/sources/preview", ok=422, body=lambda t: {"url": t.url}),
    Row("GET", SOURCE),
    Row("PUT", SOURCE, body=lambda _: FEED),
    Row("PATCH", SOURCE, body=lambda _: {"label": "patched"}),
    Row("DELETE", SOURCE, ok=204),
    Row("POST", SOURCE + "/poll"),
    Row("GET", SOURCE + "/explain"),
    Row("GET", SOURCE + "/posts", is_list=True),
    Row("GET", SOURCE + "/polls", is_list=True),
    Row("GET", PODCAST + "/posts", is_list=True),
    Row("POST", PODCAST + "/articles/aggregate"),
    Row("GET", PODCAST + "/articles", is_list=True),
    Row("POST", PODCAST + "/articles/processed", body=_marked, foreign=_marked),
    Row("GET", ARTICLE),
    Row("POST", ARTICLE + "/processed"),
    Row("GET", PODCAST + "/opml"),
    Row("POST", PODCAST + "/opml", data=OPML),
    Row("GET", PODCAST + "/feed.atom"),
    Row("GET", PODCAST + "/feed.json"),
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("world")
    return folder, asyncio.run(make_template(folder))


@pytest.fixture
async def world(template: tuple[Path, dict[str, Any]], tmp_path: Path) -> AsyncIterator[World]:
    folder, content = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    async with running_world(tmp_path, content) as world:
        yield world


async def test_u2_every_route_has_a_row_and_every_row_a_route(world: World):
    api: Any = world.served.api
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
    pages = {LOGIN_PATH}  # the dashboard has a table of its own
    assert {row.path for row in TABLE if row.who == OPEN} == OPEN_PATHS - pages


@pytest.mark.parametrize("first", range(0, len(TABLE), MOST - 1))  # more would have to wait
async def test_u2_without_a_valid_token_nothing_but_open_paths_answers(world: World, first: int):
    before = await world.dump()
    for row in TABLE[first : first + MOST - 1]:
        answers = [await _as(world, caller, row, world.anna) for caller in ("nobody", "revoked")]
        expected = row.ok if row.who == OPEN else 401
        assert [answer.status for answer in answers] == [expected, expected], row
        assert row.who == OPEN or answers[0].body == answers[1].body, row
    assert await world.dump() == before


@pytest.mark.parametrize("row", TABLE, ids=str)
async def test_u2_people_reach_what_is_theirs_and_administrators_everything(world: World, row: Row):
    others = await world.rows_of(world.bert)
    answer = await _as(world, "anna", row, world.anna)
    if row.who == ADMIN:
        assert answer.status == 403
        assert answer.json["detail"] == "this needs an administrator's token"
    else:
        assert answer.status == row.ok, answer.body
        assert _mentioned(world.bert, answer) == []
    assert await world.rows_of(world.bert) == others

    assert (await _as(world, "admin", row, world.bert)).status == row.ok


async def test_u2_foreign_ids_in_a_path_are_as_unknown_as_unknown_ones(world: World):
    before = await world.dump()
    for row in TABLE:
        for stolen, made_up in _swaps(row.path, world.bert):
            answers = [
                await _ask(world, "anna", row, world.anna.path(row.path, **ids), world.anna)
                for ids in (stolen, made_up)
            ]
            expected = 403 if row.who == ADMIN else 404
            assert [answer.status for answer in answers] == [expected, expected], (row, stolen)
            assert _blurred(answers[0], stolen) == _blurred(answers[1], made_up), (row, stolen)
    assert await world.dump() == before


def _swaps(path: str, foreign: Things) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Somebody's ids and names in one place after the other and in all, beside made-up ones."""
    places = [place for place in places_in(path) if place != "provider"]
    if not places:
        return
    for place in places:
        for value in {getattr(foreign, place), foreign.names.get(place)} - {None}:
            yield {place: value}, {place: UNKNOWN}
    yield {place: getattr(foreign, place) for place in places}, dict.fromkeys(places, UNKNOWN)


@pytest.mark.parametrize("row", [row for row in TABLE if row.foreign], ids=str)
async def test_u2_foreign_ids_in_a_body_are_as_unknown_as_unknown_ones(world: World, row: Row):
    before = await world.dump()
    path, foreign = world.anna.path(row.path), row.foreign
    assert foreign is not None
    made_up = Things(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, {}, ())
    answers = [
        await world.ask("anna", row.method, path, foreign(things))
        for things in (world.bert, made_up)
    ]
    assert [answer.status for answer in answers] == [404, 404]
    blurred = [
        _blurred(answers[0], {"s": world.bert.s, "a": world.bert.a}),
        _blurred(answers[1], {"s": UNKNOWN}),
    ]
    assert blurred[0] == blurred[1]
    # one's own beside them do not make it better
    mixed = foreign(world.anna)
    mixed["ids"] += foreign(world.bert)["ids"]
    assert (await world.ask("anna", row.method, path, mixed)).status == 404
    assert await world.dump() == before


@pytest.mark.parametrize("row", [row for row in TABLE if row.queries], ids=str)
async def test_u2_foreign_ids_in_a_query_are_as_unknown_as_unknown_ones(world: World, row: Row):
    for query in row.queries:
        (place,) = places_in(query)
        asked = f"{row.path}?{query}"
        own = await world.ask("anna", row.method, world.anna.path(asked))
        stolen = await world.ask("anna", row.method, world.bert.path(asked))
        made_up = await world.ask("anna", row.method, asked.format(**{place: UNKNOWN}))
        assert [a.status for a in (own, stolen, made_up)] == [row.ok, 404, 404]
        foreign = {place: getattr(world.bert, place)}
        assert _blurred(stolen, foreign) == _blurred(made_up, {place: UNKNOWN})


@pytest.mark.parametrize("row", [row for row in TABLE if row.is_list], ids=str)
async def test_u2_a_cursor_of_somebody_else_leads_to_ones_own_things_only(world: World, row: Row):
    owner = "admin" if row.who == ANYBODY else "bert"
    first = await world.ask(owner, "GET", f"{world.bert.path(row.path)}?limit=1")
    cursor = first.json["nextCursor"]
    assert cursor is not None
    own = world.anna.path(row.path)
    answer = await world.ask("anna", "GET", f"{own}?cursor={cursor}")
    assert answer.status == 200
    whole = await world.ask("anna", "GET", own)
    assert _mentioned(world.bert, answer) == []
    assert all(item in whole.json["items"] for item in answer.json["items"])


async def test_u2_filters_find_nothing_of_others(world: World):
    path, bert = world.anna.path(PODCAST + "/sources"), world.bert
    for query in (f"host={bert.host}", "q=bert-label", f"q={bert.s}"):
        assert (await world.ask("anna", "GET", f"{path}?{query}")).json["items"] == []
    before = await world.rows_of(bert)
    answer = await world.ask("anna", "POST", path + "/batch", _filtered(bert))
    assert answer.status == 200
    assert _mentioned(bert, answer) == []
    everything = {"action": "delete", "filter": {"all": True}}
    assert (await world.ask("anna", "POST", path + "/batch", everything)).status == 200
    assert await world.rows_of(bert) == before


async def test_u2_an_import_says_nothing_of_what_others_watch(world: World):
    path = world.anna.path(PODCAST + "/opml")
    file = f'<opml version="2.0"><body><outline xmlUrl="{world.bert.url}"/></body></opml>'
    answer = await world.ask("anna", "POST", path, data=file.encode())
    (line,) = answer.json["items"]
    assert line["outcome"] == "added"
    assert line["sourceId"] not in world.bert.ids


async def test_u2_somebody_elses_source_cannot_be_taken_over_by_a_body(world: World):
    before = await world.rows_of(world.bert)
    path = world.anna.path(SOURCE)
    whole = (await world.ask("anna", "GET", path)).json
    forged = whole | {"podcastId": world.bert.p, "id": world.bert.s}
    answer = await world.ask("anna", "PUT", path, forged)
    assert (answer.status, answer.json["podcastId"]) == (200, world.anna.p)
    created = await world.ask("anna", "POST", world.anna.path(PODCAST + "/sources"), forged)
    assert (created.status, created.json["podcastId"]) == (201, world.anna.p)
    user = await world.ask("anna", "PUT", world.anna.path(USER), {"name": "x", "id": world.bert.u})
    assert user.json["id"] == world.anna.u
    assert await world.rows_of(world.bert) == before


async def test_u2_a_stream_tells_of_ones_own_sources_only_also_what_was_missed(world: World):
    for name, things in (("anna", world.anna), ("bert", world.bert)):
        polled = await world.ask(name, "POST", things.path(SOURCE + "/poll"))
        assert polled.json["outcome"] == "failed"
    opening = (await world.ask("anna", "GET", "/api/events")).body.decode()
    (run,) = set(re.findall(r"id: (\d+)-", opening))
    missed = {"Last-Event-ID": f"{run}-0"}
    told = {
        caller: await world.ask(caller, "GET", "/api/events", headers=missed)
        for caller in ("anna", "bert", "admin")
    }
    assert world.anna.s.encode() in told["anna"].body
    assert _mentioned(world.bert, told["anna"]) == []
    assert world.bert.s.encode() in told["bert"].body
    assert _mentioned(world.anna, told["bert"]) == []
    assert all(one.s.encode() in told["admin"].body for one in (world.anna, world.bert))


async def test_u3_reading_changes_nothing(world: World):
    before = await world.dump()
    for row in TABLE:
        if row.method == "GET":
            for caller in ("anna", "admin"):
                await _as(world, caller, row, world.anna)
            assert await world.dump() == before, row


async def _as(world: World, caller: str, row: Row, things: Things) -> Answer:
    return await _ask(world, caller, row, things.path(row.path), things)


async def _ask(world: World, caller: str, row: Row, path: str, things: Things) -> Answer:
    body = None if row.body is None else row.body(things)
    return await world.ask(caller, row.method, path, body, data=row.data)


def _mentioned(things: Things, answer: Answer) -> list[str]:
    """What an answer says of somebody's things."""
    text = answer.body.decode()
    return [one for one in things.ids if one in text]


def _blurred(answer: Answer, ids: dict[str, str]) -> Any:
    """A problem document without the ids that were asked for."""
    text = answer.body.decode()
    for value in ids.values():
        text = text.replace(value, "…")
    return json.loads(text)
