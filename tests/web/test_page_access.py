"""Pages are denied unless allowed: every route, every kind of caller, every id parameter (U2).

A new page needs a row in PAGES, and every row needs a route.
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

from headwater.api.middleware.authentication import COOKIE, LOGIN_PATH
from headwater.api.schemas.pagination import cursor_for
from headwater.operations.tokens import add_token, log_in, revoke_token
from headwater.web.factory import add_pages
from tests.api.access_fixtures import (
    UNKNOWN,
    ApiWithUsers,
    OwnedObjects,
    assert_security_headers,
    bare,
    make_template,
    parameters_in,
    routes_in,
    running_api_with_users,
)
from tests.api.conftest import Answer
from tests.api.test_access import ADMIN, ANYONE, HOOK, OPEN, OPML, OWNER, TABLE
from tests.web.conftest import Fields
from tests.web.test_import_page import EDGE, body_of
from tests.web.test_login_page import FORM, OURS

PODCAST, SOURCE = "/podcasts/{p}", "/podcasts/{p}/sources/{s}"
USER = "/accounts/users/{u}"
NOTICES = "/users/{u}/notices"
TOPIC: Fields = {"kind": "ntfy", "target": "http://127.66.9.9:1/topic", "when": "now"}
SURE: Fields = {"sure": "yes"}
ENDPOINT: Fields = {**HOOK, "event": ["source.disabled"], "enabled": "yes"}
NEW = "http://127.66.9.9:1/new"
UPLOAD = {"Content-Type": f"multipart/form-data; boundary={EDGE}"}
FOREIGN: Sequence[Mapping[str, str]] = (  # headers that do not prove a same-origin form
    {},
    {"Origin": "null"},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
)

Form = Callable[[OwnedObjects], Fields]


@dataclass(frozen=True)
class Page:
    """A route, who may use it, and the expected status."""

    method: str
    path: str
    who: str = OWNER
    ok: int = 200
    outside: int | None = None  # the status for other users if it is open to them, if different
    form: Form = lambda _: {}
    upload: bytes | None = None
    foreign: tuple[Form, ...] = ()  # forms for an own page that name objects of another user
    refused: int = 404  # their expected status
    queries: tuple[
        tuple[str, int], ...
    ] = ()  # queries that name objects of another user, and their expected status
    cursor: Callable[[OwnedObjects], str] | None = (
        None  # the query for a cursor at an object of another user
    )
    leads_on: bool = False  # for a page that checks the ids itself
    changes: bool = True  # a form body, if it is a form

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_form(self) -> bool:
        return self.method != "GET"


def _settings(things: OwnedObjects) -> Fields:
    named = {"label": "renamed", "url": things.url, "type": "rss", "aggregate": "auto"}
    return {**named, "poll_interval_minutes": "7"}


def _url(things: OwnedObjects) -> Fields:
    return {"url": things.url}


def _disable(things: OwnedObjects) -> Fields:
    return {"action": "disable", "id": [things.s]}


def _delete(things: OwnedObjects) -> Fields:
    return {"action": "delete", "id": [things.s]}


def _mark(things: OwnedObjects) -> Fields:
    return {"article": [things.a]}


def _behind_host(things: OwnedObjects) -> str:
    return f"cursor={cursor_for((things.host,))}"


def _behind_article(things: OwnedObjects) -> str:
    return f"cursor={cursor_for((things.a,))}"


def _behind_url(things: OwnedObjects) -> str:
    return f"sort=url&cursor={cursor_for(('url', json.dumps(things.url), things.s))}"


_FILTERS: Fields = {"keep": "", "block": "nothing", "do": "save"}
PAGES = (
    Page("GET", "/static/{name}", OPEN),
    Page("GET", LOGIN_PATH, OPEN, ok=303, outside=200),
    Page("POST", LOGIN_PATH, OPEN, ok=401, changes=False),  # without a token in it
    Page("POST", "/logout", ANYONE, ok=303),
    Page("GET", "/", ANYONE),
    Page("POST", "/scheduler", ADMIN, ok=303, form=lambda _: {"switch": "pause"}),
    Page(
        "GET",
        "/hosts",
        ANYONE,
        queries=(("host={host}", 200),),
        cursor=_behind_host,
    ),
    Page("GET", "/hosts/{host}"),
    Page("GET", "/accounts", ANYONE, queries=(("user={u}", 404),)),
    Page("GET", "/accounts/{rest}", ANYONE, ok=303, leads_on=True),
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
    Page("GET", NOTICES),
    Page("POST", NOTICES, ok=303, form=lambda _: TOPIC),
    Page("POST", NOTICES + "/remove", ok=303, form=lambda t: {"target": f"http://{t.host}:1/t"}),
    Page("POST", NOTICES + "/test", ok=303),
    Page("GET", PODCAST + "/webhooks"),
    Page("POST", PODCAST + "/webhooks", form=lambda _: ENDPOINT),
    Page("GET", PODCAST + "/webhooks/{w}", cursor=lambda _: f"cursor={cursor_for((10**9,))}"),
    Page("POST", PODCAST + "/webhooks/{w}", ok=303, form=lambda _: ENDPOINT),
    Page("POST", PODCAST + "/webhooks/{w}/test", ok=303),
    Page("POST", PODCAST + "/webhooks/{w}/delete", ok=303, form=lambda _: SURE),
    Page("POST", PODCAST + "/webhooks/{w}/deliveries/{d}/resend", ok=303),
    Page("GET", "/webhooks", ADMIN),
    Page("POST", "/webhooks", ADMIN, form=lambda _: ENDPOINT),
    # these are of podcasts; test_webhooks_page.py uses those of all podcasts
    Page("GET", "/webhooks/{w}", ADMIN, ok=404),
    Page("POST", "/webhooks/{w}", ADMIN, ok=404, form=lambda _: ENDPOINT, changes=False),
    Page("POST", "/webhooks/{w}/test", ADMIN, ok=404, changes=False),
    Page("POST", "/webhooks/{w}/delete", ADMIN, ok=404, form=lambda _: SURE, changes=False),
    Page("POST", "/webhooks/{w}/deliveries/{d}/resend", ADMIN, ok=404, changes=False),
    Page(
        "GET",
        PODCAST + "/posts",
        queries=(("source={s}", 404),),
        cursor=_behind_article,
    ),
    Page("GET", PODCAST + "/arrivals", queries=(("source={s}", 404),)),
    Page("GET", PODCAST + "/posts/{i}/diff"),
    Page("GET", PODCAST + "/posts/{i}"),
    Page("POST", PODCAST + "/posts/{i}/story/undo", ok=303, changes=False),  # it has none
    Page("GET", "/searching", ANYONE),
    Page("POST", PODCAST + "/searches", ok=303, form=lambda _: {"name": "new", "q": "news"}),
    Page("POST", PODCAST + "/searches/remove", ok=303, form=lambda t: {"name": t.name}),
    Page("GET", PODCAST + "/filters"),
    Page("POST", PODCAST + "/filters", ok=303, form=lambda _: _FILTERS),
    Page("GET", SOURCE + "/filters"),
    Page("POST", SOURCE + "/filters", ok=303, form=lambda _: _FILTERS),
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
    Page(
        "POST",
        PODCAST + "/articles/unprocessed",
        ok=303,
        form=lambda t: {"batch": f"{t.names['u']}-batch"},
        foreign=(lambda t: {"marked": [t.a]},),
        refused=422,
    ),
    Page("POST", PODCAST + "/articles/{a}/delete", ok=303),
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
    Page("GET", SOURCE + "/days"),
    Page("GET", SOURCE + "/settings", ok=303, leads_on=True),
    Page("POST", SOURCE + "/settings", ok=303, form=_settings),
    Page("POST", SOURCE + "/poll", ok=303),
    Page("POST", SOURCE + "/suggestions/{n}/accept", ok=303),
    Page("POST", SOURCE + "/suggestions/{n}/dismiss", ok=303),
    Page("POST", SOURCE + "/suggestions/{n}/undo", ok=422, changes=False),  # it changed no URL
    Page("GET", SOURCE + "/watch", ok=303, leads_on=True),
    Page("POST", SOURCE + "/watch", ok=422, changes=False),  # a feed has no parts
    Page("POST", SOURCE + "/watch/save", ok=422, form=lambda _: {"ignore": "#:#"}, changes=False),
    Page("POST", SOURCE + "/enable", ok=303, changes=False),  # it is
    Page("POST", SOURCE + "/disable", ok=303),
    Page("POST", SOURCE + "/delete", ok=303),
)
FORMS = [page for page in PAGES if page.is_form]


@dataclass
class Visitors:
    """The dashboard with logged-in users, and the other objects that its paths can name."""

    users: ApiWithUsers
    cookies: dict[str, str | None]
    others: dict[str, str]

    async def send_as(
        self,
        caller: str,
        page: Page,
        things: OwnedObjects,
        *,
        fields: Fields | None = None,
        query: str = "",
        proof: Mapping[str, str] = OURS,
        ids: Mapping[str, str] = {},
    ) -> Answer:
        """Open a page or send its form in a user's browser; redirects are not followed."""
        headers = dict(proof)
        if cookie := self.cookies[caller]:
            headers["Cookie"] = f"{COOKIE}={cookie}"
        data = None
        if page.is_form:
            headers |= FORM if page.upload is None else UPLOAD
            sent = page.form(things) if fields is None else fields
            data = page.upload or urlencode(sent, doseq=True).encode()
        path = self._path(page.path, things, ids) + (f"?{query}" if query else "")
        answer = await self.users.served.call(page.method, path, data=data, headers=headers)
        assert_security_headers(answer, path)
        return answer

    def _path(self, template: str, things: OwnedObjects, ids: Mapping[str, str]) -> str:
        places = parameters_in(template)
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
    async with running_api_with_users(tmp_path, content, add_pages) as users:
        store, now = users.served.app.store, users.served.app.clock.now()
        anna = await store.accounts.user(users.anna.u)
        left = (await add_token(store, anna, "left", now)).secret
        secrets = {name: users.tokens[name] for name in ("anna", "bert", "admin")}
        cookies: dict[str, str | None] = {"anonymous": None, "unknown": "x" * 43}
        for name, secret in (secrets | {"revoked": left}).items():
            cookies[name] = await log_in(store, secret or "", now)
            assert cookies[name] is not None
        await revoke_token(store, "left")
        others = {"name": "style.css", "step": "save", "rest": "x", "t": users.bert.t}
        yield Visitors(users, cookies, others)


async def test_u2_every_page_has_a_row_and_every_row_a_page(visitors: Visitors):
    api: Any = visitors.users.served.api
    there = set(routes_in(api.routes))
    for_programs = {(row.method, bare(row.path)) for row in TABLE}
    listed = {(page.method, bare(page.path)) for page in PAGES}
    assert there - for_programs - listed == set(), "add a row for each of these"
    assert listed - there == set(), "there is no such page"
    assert {page.path for page in PAGES if page.who == OPEN} == {LOGIN_PATH, "/static/{name}"}


@pytest.mark.parametrize("caller", ["anonymous", "unknown", "revoked"])
async def test_u2_without_a_session_every_page_redirects_to_the_login(
    visitors: Visitors, caller: str
):
    users = visitors.users
    before = await users.dump()
    for page in PAGES:
        answer = await visitors.send_as(caller, page, users.anna)
        if page.who == OPEN:
            assert answer.status == (page.outside or page.ok), page
            continue
        assert (answer.status, answer.body) == (303, b""), page
        to = answer.headers["Location"]
        assert to == LOGIN_PATH if page.is_form else to.startswith(f"{LOGIN_PATH}?next="), page
    assert await users.dump() == before


async def test_u2_users_see_their_own_objects_and_administrators_all(visitors: Visitors):
    for page in PAGES:
        if not page.is_form:
            await _reaches_own_objects(visitors, page)


@pytest.mark.parametrize("page", FORMS, ids=str)
async def test_u2_users_change_their_own_objects_and_administrators_all(
    visitors: Visitors, page: Page
):
    await _reaches_own_objects(visitors, page)


async def _reaches_own_objects(visitors: Visitors, page: Page) -> None:
    users = visitors.users
    before, others = await users.dump(), await users.rows_of(users.bert)
    answer = await visitors.send_as("anna", page, users.anna)
    changed = await users.dump() != before
    if page.who == ADMIN:
        assert answer.status == 403, page
        assert not changed, page
    else:
        assert answer.status == page.ok, (page, answer.body)
        assert changed == (page.is_form and page.changes), page
        assert _mentioned(users.bert, answer) == [], page
        assert page.path == "/logout" or _has_access(answer), page
    assert await users.rows_of(users.bert) == others, page

    before, entries = await users.dump(), await users.audit_actions()
    answer = await visitors.send_as("admin", page, users.bert)
    assert answer.status == page.ok, (page, answer.body)
    added = (await users.audit_actions())[len(entries) :]  # U9: a new form describes its change
    describes = page.changes or page.path.endswith(("/enable", "/undo"))
    is_change = page.is_form and describes and page.ok < 400
    assert [who for who, _ in added] == ["token admin"] * is_change, (page, added)
    assert (await users.dump() != before) == (page.is_form and page.changes), page
    assert page.path == "/logout" or _has_access(answer), page


async def test_u2_foreign_ids_in_a_url_get_the_response_of_unknown_ids(visitors: Visitors):
    users = visitors.users
    before = await users.dump()
    for page in PAGES:
        for stolen, made_up in _swaps(page.path, users.bert):
            forms: list[Fields | None] = [None, {}] if page.is_form else [None]
            for fields in forms:  # one that is valid, and one that is empty
                answers = [
                    await visitors.send_as("anna", page, users.anna, fields=fields, ids=ids)
                    for ids in (stolen, made_up)
                ]
                expected = 403 if page.who == ADMIN else 303 if page.leads_on else 404
                assert [a.status for a in answers] == [expected] * 2, (page, stolen)
                assert _blurred(answers[0], stolen) == _blurred(answers[1], made_up), page
    assert await users.dump() == before


def _swaps(path: str, foreign: OwnedObjects) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Ids and names of another user in each parameter and in all, beside invented ones."""
    places = [place for place in parameters_in(path) if hasattr(foreign, place)]
    for place in places:
        for value in {getattr(foreign, place), foreign.names.get(place)} - {None}:
            yield {place: value}, {place: UNKNOWN}
    if len(places) > 1:
        yield {place: getattr(foreign, place) for place in places}, dict.fromkeys(places, UNKNOWN)


@pytest.mark.parametrize("page", [page for page in PAGES if page.foreign], ids=str)
async def test_u2_foreign_ids_in_a_form_get_the_response_of_unknown_ids(
    visitors: Visitors, page: Page
):
    users = visitors.users
    before = await users.dump()
    made_up = OwnedObjects.made_up()
    for form in page.foreign:
        forms = [form(users.bert), form(made_up), _mixed(form(users.anna), form(users.bert))]
        answers = [await visitors.send_as("anna", page, users.anna, fields=one) for one in forms]
        assert [a.status for a in answers] == [page.refused] * 3, forms[0]
        his = {"s": users.bert.s, "a": users.bert.a}
        assert _blurred(answers[0], his) == _blurred(answers[1], {"s": UNKNOWN})
        assert b"bert-" not in answers[2].body
    assert await users.dump() == before


def _mixed(own: Fields, foreign: Fields) -> Fields:
    """Own objects beside those of another user, which must not change the result."""
    both = {
        name: [*value, *foreign[name]] for name, value in own.items() if isinstance(value, list)
    }
    return {**foreign, **both}


@pytest.mark.parametrize("page", [page for page in PAGES if page.queries], ids=str)
async def test_u2_foreign_ids_in_a_query_get_the_response_of_unknown_ids(
    visitors: Visitors, page: Page
):
    users = visitors.users
    for query, status in page.queries:
        (place,) = parameters_in(query)
        his = {place: getattr(users.bert, place)}
        stolen, made_up = [
            await visitors.send_as("anna", page, users.anna, query=query.format(**ids))
            for ids in (his, {place: UNKNOWN})
        ]
        assert [stolen.status, made_up.status] == [status] * 2
        assert _blurred(stolen, his) == _blurred(made_up, {place: UNKNOWN})
        own = {place: getattr(users.anna, place)}
        found = await visitors.send_as("anna", page, users.anna, query=query.format(**own))
        assert _blurred(found, own) != _blurred(made_up, {place: UNKNOWN})


@pytest.mark.parametrize("page", [page for page in PAGES if page.cursor], ids=str)
async def test_u2_a_cursor_of_another_user_returns_own_items_only(visitors: Visitors, page: Page):
    users = visitors.users
    assert page.cursor is not None
    answer = await visitors.send_as("anna", page, users.anna, query=page.cursor(users.bert))
    assert answer.status == 200
    assert _mentioned(users.bert, answer) == []


async def test_u2_bulk_actions_on_all_matches_change_own_objects_only(visitors: Visitors):
    users = visitors.users
    (page,) = [page for page in FORMS if page.path == PODCAST + "/sources"]
    before = await users.rows_of(users.bert)
    fields: Fields = {"action": "delete", "scope": "matching", **SURE}
    for query in (f"host={users.bert.host}", ""):
        answer = await visitors.send_as("anna", page, users.anna, fields=fields, query=query)
        assert answer.status == 303
    assert await users.rows_of(users.bert) == before
    assert users.anna.s not in str((await users.dump())["sources"])


@pytest.mark.parametrize("proof", FOREIGN, ids=str)
async def test_u3_no_form_changes_anything_without_a_same_origin_request(
    visitors: Visitors, proof: Mapping[str, str]
):
    users = visitors.users
    before = await users.dump()
    for page in FORMS:
        for caller in ("anna", "admin"):
            answer = await visitors.send_as(caller, page, users.anna, proof=proof)
            assert answer.status == 403, (page, caller)
            assert "Set-Cookie" not in answer.headers
    assert await users.dump() == before


async def test_u3_opening_pages_changes_nothing(visitors: Visitors):
    users = visitors.users
    before = await users.dump()
    for page in PAGES:
        if not page.is_form:
            for caller in ("anna", "admin"):
                await visitors.send_as(caller, page, users.anna)
    assert await users.dump() == before


def _mentioned(things: OwnedObjects, answer: Answer) -> list[str]:
    """The objects of a user that a response mentions."""
    text = f"{answer.headers.get('Location', '')} {answer.body.decode()}"
    return [one for one in things.ids if one in text]


def _has_access(answer: Answer) -> bool:
    """Whether a user gets the page, and is not redirected to the login."""
    return not answer.headers.get("Location", "").startswith(LOGIN_PATH)


def _blurred(answer: Answer, ids: Mapping[str, str]) -> str:
    """A response without the requested ids and without times."""
    text = f"{answer.headers.get('Location', '')} {answer.body.decode()}"
    for value in ids.values():
        text = text.replace(value, "…")
    return re.sub(r'(?s)<time\b.*?</time>|data-now="[^"]+"', "…", text)
