"""Pages are denied unless allowed: every route, every kind of caller, every place for an id (U2).

A new page needs a row in PAGES; a row without its route is as wrong.
"""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from headwater.api.callers import COOKIE, LOGIN_PATH
from headwater.api.pages import cursor_for
from headwater.operations.sessions import log_in
from headwater.operations.tokens import add_token, list_tokens, revoke_token
from headwater.web.factory import add_pages
from tests.api.access_world import (
    UNKNOWN,
    Things,
    World,
    assert_dressed,
    bare,
    make_template,
    places_in,
    routes_in,
    running_world,
)
from tests.api.conftest import Answer
from tests.api.test_access import ADMIN, ANYBODY, OPEN, OPML, OWNER, TABLE
from tests.web.conftest import Fields
from tests.web.test_importing import EDGE, body_of
from tests.web.test_login import FORM, OURS

PODCAST, SOURCE = "/podcasts/{p}", "/podcasts/{p}/sources/{s}"
USER = "/accounts/users/{u}"
SURE: Fields = {"sure": "yes"}
NEW = "http://127.66.9.9:1/new"
UPLOAD = {"Content-Type": f"multipart/form-data; boundary={EDGE}"}
FOREIGN: Sequence[Mapping[str, str]] = (  # what does not prove that a form is our own
    {},
    {"Origin": "null"},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
)

Form = Callable[[Things], Fields]


@dataclass(frozen=True)
class Page:
    """A route: who may use it, and what they are answered."""

    method: str
    path: str
    who: str = OWNER
    ok: int = 200
    outside: int | None = None  # what others are answered where it is open to them, if not that
    form: Form = lambda _: {}
    upload: bytes | None = None
    foreign: tuple[Form, ...] = ()  # forms for a page of one's own that name somebody's things
    refused: int = 404  # how those are answered
    queries: tuple[tuple[str, int], ...] = ()  # that name somebody's things, and their answers
    cursor: Callable[[Things], str] | None = None  # the query for a place among somebody's things
    leads_on: bool = False  # to a page that looks at the ids itself, whatever they are
    changes: bool = True  # something, if it is a form

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_form(self) -> bool:
        return self.method != "GET"


def _settings(things: Things) -> Fields:
    named = {"label": "renamed", "url": things.url, "type": "rss", "aggregate": "auto"}
    return {**named, "poll_interval_minutes": "7"}


def _url(things: Things) -> Fields:
    return {"url": things.url}


def _disable(things: Things) -> Fields:
    return {"action": "disable", "id": [things.s]}


def _delete(things: Things) -> Fields:
    return {"action": "delete", "id": [things.s]}


def _mark(things: Things) -> Fields:
    return {"article": [things.a]}


def _behind_host(things: Things) -> str:
    return f"cursor={cursor_for((things.host,))}"


def _behind_article(things: Things) -> str:
    return f"cursor={cursor_for((things.a,))}"


def _behind_url(things: Things) -> str:
    return f"sort=url&cursor={cursor_for(('url', json.dumps(things.url), things.s))}"


PAGES = (
    Page("GET", "/static/{name}", OPEN),
    Page("GET", LOGIN_PATH, OPEN, ok=303, outside=200),
    Page("POST", LOGIN_PATH, OPEN, ok=401, changes=False),  # without a token in it
    Page("POST", "/logout", ANYBODY, ok=303),
    Page("GET", "/", ANYBODY),
    Page("POST", "/scheduler", ADMIN, ok=303, form=lambda _: {"switch": "pause"}),
    Page(
        "GET",
        "/hosts",
        ANYBODY,
        queries=(("host={host}", 200),),
        cursor=_behind_host,
    ),
    Page("GET", "/hosts/{host}"),
    Page("GET", "/accounts", ANYBODY, queries=(("user={u}", 404),)),
    Page("GET", "/accounts/{rest}", ANYBODY, ok=303, leads_on=True),
    Page("POST", "/accounts/users", ADMIN, ok=303, form=lambda t: {"name": f"new {t.u}"}),
    Page("POST", USER + "/rename", ADMIN, ok=303, form=lambda t: {"name": f"renamed {t.u}"}),
    Page("POST", USER + "/delete", ADMIN, ok=303, form=lambda _: SURE),
    Page("POST", USER + "/podcasts", ok=303, form=lambda _: {"name": "new"}),
    Page("POST", USER + "/key", ok=303, form=lambda _: {"apiKey": "new-key"}),
    Page("POST", USER + "/key/delete", ok=303, form=lambda _: SURE),
    Page("POST", "/accounts/podcasts/{p}", ok=303, form=lambda _: {"name": "renamed"}),
    Page("POST", "/accounts/podcasts/{p}/delete", ok=303, form=lambda _: SURE),
    Page("POST", "/accounts/tokens", ADMIN, form=lambda t: {"name": "new", "user": t.u}),
    Page("POST", "/accounts/tokens/{t}/revoke", ADMIN, ok=303, form=lambda _: SURE),
    Page(
        "GET",
        PODCAST + "/posts",
        queries=(("source={s}", 404),),
        cursor=_behind_article,
    ),
    Page("GET", PODCAST + "/articles", cursor=_behind_article),
    Page("GET", PODCAST + "/articles/{rest}", ok=303, leads_on=True),
    Page("POST", PODCAST + "/articles/aggregate", ok=303),
    Page(
        "POST",
        PODCAST + "/articles/processed",
        ok=303,
        form=_mark,
        foreign=(_mark, lambda t: {"only": t.a}),
        refused=422,
    ),
    Page("GET", PODCAST + "/add"),
    Page("GET", PODCAST + "/add/{step}", ok=303, leads_on=True),
    Page("POST", PODCAST + "/add", ok=422, form=_url, changes=False),
    Page("POST", PODCAST + "/add/search", ok=422, form=_url, changes=False),
    Page("POST", PODCAST + "/add/save", ok=303, form=lambda _: {"url": NEW, "type": "rss"}),
    Page("GET", PODCAST + "/import"),
    Page("POST", PODCAST + "/import", upload=body_of({"file": OPML})),
    Page(
        "GET",
        PODCAST + "/sources",
        queries=(("host={host}", 200), ("q={host}", 200)),
        cursor=_behind_url,
    ),
    Page(
        "POST",
        PODCAST + "/sources",
        ok=303,
        form=_disable,
        foreign=(_disable, _delete, lambda t: {**_delete(t), **SURE}),
    ),
    Page("GET", SOURCE),
    Page("GET", SOURCE + "/settings", ok=303, leads_on=True),
    Page("POST", SOURCE + "/settings", ok=303, form=_settings),
    Page("POST", SOURCE + "/poll", ok=303),
    Page("POST", SOURCE + "/enable", ok=303, changes=False),  # it is
    Page("POST", SOURCE + "/disable", ok=303),
    Page("POST", SOURCE + "/delete", ok=303),
)
FORMS = [page for page in PAGES if page.is_form]


@dataclass
class Visitors:
    """The dashboard with people in it who have logged in, and what else its paths can name."""

    world: World
    cookies: dict[str, str | None]
    others: dict[str, str]

    async def ask(
        self,
        caller: str,
        page: Page,
        things: Things,
        *,
        fields: Fields | None = None,
        query: str = "",
        proof: Mapping[str, str] = OURS,
        ids: Mapping[str, str] = {},
    ) -> Answer:
        """Open a page or send its form in somebody's browser; redirects are not followed."""
        headers = dict(proof)
        if cookie := self.cookies[caller]:
            headers["Cookie"] = f"{COOKIE}={cookie}"
        data = None
        if page.is_form:
            headers |= FORM if page.upload is None else UPLOAD
            sent = page.form(things) if fields is None else fields
            data = page.upload or urlencode(sent, doseq=True).encode()
        path = self._path(page.path, things, ids) + (f"?{query}" if query else "")
        answer = await self.world.served.call(page.method, path, data=data, headers=headers)
        assert_dressed(answer, path)
        return answer

    def _path(self, template: str, things: Things, ids: Mapping[str, str]) -> str:
        places = places_in(template)
        values = {n: self.others[n] if n in self.others else getattr(things, n) for n in places}
        return template.format(**{**values, **ids})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("pages")
    return folder, asyncio.run(make_template(folder))


@pytest_asyncio.fixture(loop_scope="module")
async def visitors(
    template: tuple[Path, dict[str, Any]], tmp_path: Path
) -> AsyncIterator[Visitors]:
    folder, content = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    async with running_world(tmp_path, content, add_pages) as world:
        store, now = world.served.app.store, world.served.app.clock.now()
        anna = await store.people.user(world.anna.u)
        left = (await add_token(store, anna, "left", now)).secret
        secrets = {name: world.tokens[name] for name in ("anna", "bert", "admin")}
        cookies: dict[str, str | None] = {"nobody": None, "stranger": "x" * 43}
        for name, secret in (secrets | {"revoked": left}).items():
            session = await log_in(store, secret or "", now)
            assert session is not None
            cookies[name] = session.cookie
        await revoke_token(store, "left")
        (his,) = [t.id for t in await list_tokens(store) if t.user_id == world.bert.u]
        others = {"name": "style.css", "step": "save", "rest": "x", "t": his}
        yield Visitors(world, cookies, others)


async def test_u2_every_page_has_a_row_and_every_row_a_page(visitors: Visitors):
    api: Any = visitors.world.served.api
    there = set(routes_in(api.routes))
    for_programs = {(row.method, bare(row.path)) for row in TABLE}
    listed = {(page.method, bare(page.path)) for page in PAGES}
    assert there - for_programs - listed == set(), "add a row for each of these"
    assert listed - there == set(), "there is no such page"
    assert {page.path for page in PAGES if page.who == OPEN} == {LOGIN_PATH, "/static/{name}"}


@pytest.mark.parametrize("caller", ["nobody", "stranger", "revoked"])
async def test_u2_without_a_session_every_page_leads_to_the_login(visitors: Visitors, caller: str):
    world = visitors.world
    before = await world.dump()
    for page in PAGES:
        answer = await visitors.ask(caller, page, world.anna)
        if page.who == OPEN:
            assert answer.status == (page.outside or page.ok), page
            continue
        assert (answer.status, answer.body) == (303, b""), page
        to = answer.headers["Location"]
        assert to == LOGIN_PATH if page.is_form else to.startswith(f"{LOGIN_PATH}?next="), page
    assert await world.dump() == before


async def test_u2_people_see_what_is_theirs_and_administrators_everything(visitors: Visitors):
    for page in PAGES:
        if not page.is_form:
            await _reaches_own_things(visitors, page)


@pytest.mark.parametrize("page", FORMS, ids=str)
async def test_u2_people_change_what_is_theirs_and_administrators_everything(
    visitors: Visitors, page: Page
):
    await _reaches_own_things(visitors, page)


async def _reaches_own_things(visitors: Visitors, page: Page) -> None:
    world = visitors.world
    before, others = await world.dump(), await world.rows_of(world.bert)
    answer = await visitors.ask("anna", page, world.anna)
    changed = await world.dump() != before
    if page.who == ADMIN:
        assert answer.status == 403, page
        assert not changed, page
    else:
        assert answer.status == page.ok, (page, answer.body)
        assert changed == (page.is_form and page.changes), page
        assert _mentioned(world.bert, answer) == [], page
        assert page.path == "/logout" or _leads_in(answer), page
    assert await world.rows_of(world.bert) == others, page

    before = await world.dump()
    answer = await visitors.ask("admin", page, world.bert)
    assert answer.status == page.ok, (page, answer.body)
    assert (await world.dump() != before) == (page.is_form and page.changes), page
    assert page.path == "/logout" or _leads_in(answer), page


async def test_u2_foreign_ids_in_an_address_are_as_unknown_as_unknown_ones(visitors: Visitors):
    world = visitors.world
    before = await world.dump()
    for page in PAGES:
        for stolen, made_up in _swaps(page.path, world.bert):
            forms: list[Fields | None] = [None, {}] if page.is_form else [None]
            for fields in forms:  # one that is in order, and one with nothing in it
                answers = [
                    await visitors.ask("anna", page, world.anna, fields=fields, ids=ids)
                    for ids in (stolen, made_up)
                ]
                expected = 403 if page.who == ADMIN else 303 if page.leads_on else 404
                assert [a.status for a in answers] == [expected] * 2, (page, stolen)
                assert _blurred(answers[0], stolen) == _blurred(answers[1], made_up), page
    assert await world.dump() == before


def _swaps(path: str, foreign: Things) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Somebody's ids and names in one place after the other and in all, beside made-up ones."""
    places = [place for place in places_in(path) if hasattr(foreign, place)]
    for place in places:
        for value in {getattr(foreign, place), foreign.names.get(place)} - {None}:
            yield {place: value}, {place: UNKNOWN}
    if len(places) > 1:
        yield {place: getattr(foreign, place) for place in places}, dict.fromkeys(places, UNKNOWN)


@pytest.mark.parametrize("page", [page for page in PAGES if page.foreign], ids=str)
async def test_u2_foreign_ids_in_a_form_are_as_unknown_as_unknown_ones(
    visitors: Visitors, page: Page
):
    world = visitors.world
    before = await world.dump()
    made_up = Things(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, {}, ())
    for form in page.foreign:
        forms = [form(world.bert), form(made_up), _mixed(form(world.anna), form(world.bert))]
        answers = [await visitors.ask("anna", page, world.anna, fields=one) for one in forms]
        assert [a.status for a in answers] == [page.refused] * 3, forms[0]
        his = {"s": world.bert.s, "a": world.bert.a}
        assert _blurred(answers[0], his) == _blurred(answers[1], {"s": UNKNOWN})
        assert b"bert-" not in answers[2].body
    assert await world.dump() == before


def _mixed(own: Fields, foreign: Fields) -> Fields:
    """One's own things beside somebody's, which do not make it better."""
    both = {
        name: [*value, *foreign[name]] for name, value in own.items() if isinstance(value, list)
    }
    return {**foreign, **both}


@pytest.mark.parametrize("page", [page for page in PAGES if page.queries], ids=str)
async def test_u2_foreign_ids_in_a_query_are_as_unknown_as_unknown_ones(
    visitors: Visitors, page: Page
):
    world = visitors.world
    for query, status in page.queries:
        (place,) = places_in(query)
        his = {place: getattr(world.bert, place)}
        stolen, made_up = [
            await visitors.ask("anna", page, world.anna, query=query.format(**ids))
            for ids in (his, {place: UNKNOWN})
        ]
        assert [stolen.status, made_up.status] == [status] * 2
        assert _blurred(stolen, his) == _blurred(made_up, {place: UNKNOWN})
        own = {place: getattr(world.anna, place)}
        found = await visitors.ask("anna", page, world.anna, query=query.format(**own))
        assert _blurred(found, own) != _blurred(made_up, {place: UNKNOWN})


@pytest.mark.parametrize("page", [page for page in PAGES if page.cursor], ids=str)
async def test_u2_a_place_among_somebodys_things_leads_to_ones_own_only(
    visitors: Visitors, page: Page
):
    world = visitors.world
    assert page.cursor is not None
    answer = await visitors.ask("anna", page, world.anna, query=page.cursor(world.bert))
    assert answer.status == 200
    assert _mentioned(world.bert, answer) == []


async def test_u2_what_is_done_to_all_that_match_is_done_to_ones_own_only(visitors: Visitors):
    world = visitors.world
    (page,) = [page for page in FORMS if page.path == PODCAST + "/sources"]
    before = await world.rows_of(world.bert)
    fields: Fields = {"action": "delete", "scope": "matching", **SURE}
    for query in (f"host={world.bert.host}", ""):
        answer = await visitors.ask("anna", page, world.anna, fields=fields, query=query)
        assert answer.status == 303
    assert await world.rows_of(world.bert) == before
    assert world.anna.s not in str((await world.dump())["sources"])


@pytest.mark.parametrize("proof", FOREIGN, ids=str)
async def test_u3_no_form_changes_anything_without_proof_that_it_is_ours(
    visitors: Visitors, proof: Mapping[str, str]
):
    world = visitors.world
    before = await world.dump()
    for page in FORMS:
        for caller in ("anna", "admin"):
            answer = await visitors.ask(caller, page, world.anna, proof=proof)
            assert answer.status == 403, (page, caller)
            assert "Set-Cookie" not in answer.headers
    assert await world.dump() == before


async def test_u3_opening_pages_changes_nothing(visitors: Visitors):
    world = visitors.world
    before = await world.dump()
    for page in PAGES:
        if not page.is_form:
            for caller in ("anna", "admin"):
                await visitors.ask(caller, page, world.anna)
    assert await world.dump() == before


def _mentioned(things: Things, answer: Answer) -> list[str]:
    """What an answer says of somebody's things."""
    text = f"{answer.headers.get('Location', '')} {answer.body.decode()}"
    return [one for one in things.ids if one in text]


def _leads_in(answer: Answer) -> bool:
    """Whether somebody stays inside, and is not led to where one logs in."""
    return not answer.headers.get("Location", "").startswith(LOGIN_PATH)


def _blurred(answer: Answer, ids: Mapping[str, str]) -> str:
    """An answer without the ids that were asked for, and without moments."""
    text = f"{answer.headers.get('Location', '')} {answer.body.decode()}"
    for value in ids.values():
        text = text.replace(value, "…")
    return re.sub(r'(?s)<time\b.*?</time>|data-now="[^"]+"', "…", text)
