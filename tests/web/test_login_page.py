"""Login and logout over real connections, and session cookies (U1, U3)."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

from headwater.api.middleware.authentication import COOKIE
from headwater.api.middleware.failed_logins import MOST, WINDOW_SECONDS
from headwater.model import Token
from headwater.operations.tokens import revoke_token, token_in_session
from tests.api.conftest import Answer, settings_in
from tests.web.conftest import Visited, visiting

OURS = {"Sec-Fetch-Site": "same-origin"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
USERS = "/accounts/users"


async def post(
    pages: Visited, path: str, fields: Mapping[str, str] | None = None, **headers: str
) -> Answer:
    """Send a form with exactly these headers; `Cookie` has the session only."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if "Cookie" in named:
        named["Cookie"] = f"{COOKIE}={named['Cookie']}"
    data = urlencode(fields or {}).encode()
    return await pages.call("POST", path, data=data, headers=FORM | named)


async def log_in(pages: Visited, token: str, path: str = "/login", **headers: str) -> Answer:
    return await post(pages, path, {"token": token}, Sec_Fetch_Site="same-origin", **headers)


def cookie_of(answer: Answer) -> str:
    assert answer.status == 303, answer.body[:500]
    return answer.headers["Set-Cookie"].partition(";")[0].removeprefix(f"{COOKIE}=")


async def open_page(pages: Visited, path: str, cookie: str) -> Answer:
    return await pages.get(path, headers={"Cookie": f"{COOKIE}={cookie}"})


async def session_of(pages: Visited, cookie: str) -> Token | None:
    return await token_in_session(pages.app.store, cookie, pages.app.clock.now())


async def test_u3_a_valid_token_opens_a_session_in_a_cookie_without_script_access(pages: Visited):
    anna = await pages.person("anna")
    answer = await log_in(pages, anna)
    assert answer.headers["Location"] == "/"
    attributes = {part.strip().lower() for part in answer.headers["Set-Cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", "max-age=2592000"} <= attributes
    assert "secure" not in attributes  # loopback only
    assert anna not in str(answer.headers) and anna.encode() not in answer.body
    shown = await open_page(pages, "/accounts", cookie_of(answer))
    assert (shown.status, b"Log out anna" in shown.body) == (200, True)


@pytest.mark.parametrize(
    ("listens", "asked_as", "secure"),
    [
        ("127.0.0.1", None, False),
        ("127.0.0.1", "localhost", False),
        ("127.0.0.1", "feeds.example", True),  # through a proxy that terminates TLS
        ("0.0.0.0", None, True),
        ("0.0.0.0", "feeds.example", True),
    ],
)
async def test_u3_off_loopback_the_cookie_is_for_https_only(
    tmp_path: Path, listens: str, asked_as: str | None, secure: bool
):
    options = {"app.server.host": listens, "app.server.allowed-hosts": ["feeds.example"]}
    async for pages in visiting(settings_in(tmp_path, **options)):
        headers = {} if asked_as is None else {"Host": asked_as}
        admin = await pages.admin()
        answer = await log_in(pages, admin, **headers)
        assert ("secure" in answer.headers["Set-Cookie"].lower()) is secure
        form = (await pages.get("/login", headers=headers)).body
        assert (b"only over <code>https</code>" in form) is secure
        behind_tls = headers | {"X-Forwarded-Proto": "https"}
        assert b"only over" not in (await pages.get("/login", headers=behind_tls)).body


async def test_u2_an_anonymous_visitor_is_sent_to_the_login_and_back(pages: Visited):
    admin = await pages.admin()
    paths = (
        "/hosts",
        "/hosts/a.example",
        "/podcasts/default/posts",
        "/podcasts/default/articles?show=all",
        "/accounts",
    )
    for path in paths:
        led = await pages.get(path)
        assert led.status == 303
        assert led.headers["Location"] == f"/login?{urlencode({'next': path})}"
        form = (await pages.get(led.headers["Location"])).body.decode()
        assert f'action="/login?{urlencode({"next": path})}"' in form
        answer = await log_in(pages, admin, led.headers["Location"])
        assert answer.headers["Location"] == path
    assert (await pages.get("/api/users")).status == 401  # API clients get 401, not a redirect


async def test_an_expired_session_redirects_to_the_login(pages: Visited):
    await pages.admin()
    answer = await post(pages, USERS, {"name": "eve"}, Cookie="over", Origin=pages.url)
    assert (answer.status, answer.headers["Location"]) == (303, "/login")
    assert [user.name for user in await pages.app.store.accounts.users()] == ["default"]


async def test_u3_a_login_redirects_to_our_own_pages_only(pages: Visited):
    admin = await pages.admin()
    for elsewhere in (
        "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "evil",
        "javascript:alert(1)", "", "/login", "/login?next=/login", "/logout",
    ):  # fmt: skip
        answer = await log_in(pages, admin, f"/login?{urlencode({'next': elsewhere})}")
        assert answer.headers["Location"] == "/", elsewhere
        form = (await pages.get(f"/login?{urlencode({'next': elsewhere})}")).body
        assert b"evil" not in form


async def test_u3_a_next_page_with_control_characters_is_ignored(pages: Visited):
    admin = await pages.admin()
    for odd in ("/\t/evil.example", "/\r\nSet-Cookie: a=b", "/\x00"):
        answer = await log_in(pages, admin, f"/login?{urlencode({'next': odd})}")
        assert answer.status == 422
        assert "Location" not in answer.headers


async def test_u1_all_invalid_tokens_get_the_same_response(pages: Visited):
    anna, revoked = await pages.person("anna"), await pages.person("bert")
    await pages.admin()
    await revoke_token(pages.app.store, "bert")
    wrong = ("", "x", revoked, anna[:-1], anna.upper(), "hw_" + "a" * 43, "é", "' OR 1=1 --")
    answers = [await log_in(pages, secret) for secret in wrong]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    assert not any("Set-Cookie" in answer.headers for answer in answers)
    assert b"not a valid token" in answers[0].body


async def test_u1_wrong_tokens_are_limited_and_valid_ones_still_work(pages: Visited):
    anna = await pages.person("anna")
    wrong = [await log_in(pages, f"guess {n}") for n in range(MOST + 1)]
    assert [answer.status for answer in wrong] == [401] * MOST + [429]
    assert len({answer.body for answer in wrong}) == 1
    assert 0 < int(wrong[-1].headers["Retry-After"]) <= WINDOW_SECONDS
    assert (await pages.get("/api/users", token="hw_x")).status == 429  # one limit for both
    assert (await log_in(pages, anna)).status == 303


async def test_u1_a_revoked_token_ends_its_sessions_at_once(pages: Visited):
    anna, admin = await pages.person("anna"), await pages.admin()
    cookies = [cookie_of(await log_in(pages, token)) for token in (anna, anna, admin)]
    assert [(await open_page(pages, "/hosts", c)).status for c in cookies] == [200, 200, 200]
    await revoke_token(pages.app.store, "anna")
    assert [(await open_page(pages, "/hosts", c)).status for c in cookies] == [303, 303, 200]
    assert [(await open_page(pages, "/api/users", c)).status for c in cookies] == [401, 401, 200]


async def test_logging_out_ends_the_session_on_the_server(pages: Visited):
    admin = await pages.admin()
    cookie, other = cookie_of(await log_in(pages, admin)), cookie_of(await log_in(pages, admin))
    assert b"Log out administrator" in (await open_page(pages, "/accounts", cookie)).body
    answer = await post(pages, "/logout", Cookie=cookie, Sec_Fetch_Site="same-origin")
    assert answer.headers["Location"] == "/login?left"
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert "HttpOnly" in answer.headers["Set-Cookie"]
    assert (await open_page(pages, "/hosts", cookie)).status == 303
    assert (await open_page(pages, "/hosts", other)).status == 200
    assert b"You are logged out" in (await pages.get("/login?left")).body
    assert await session_of(pages, cookie) is None


async def test_u3_a_get_request_does_not_log_out(pages: Visited):
    cookie = cookie_of(await log_in(pages, await pages.admin()))
    assert (await open_page(pages, "/logout", cookie)).status == 405
    assert (await open_page(pages, "/hosts", cookie)).status == 200


async def test_a_new_login_of_the_same_browser_ends_its_old_session(pages: Visited):
    anna, admin = await pages.person("anna"), await pages.admin()
    old = cookie_of(await log_in(pages, admin))
    new = cookie_of(await log_in(pages, anna, Cookie=old))
    assert (await session_of(pages, old), (await session_of(pages, new)) is not None) == (
        None,
        True,
    )
    wrong = await log_in(pages, "wrong", Cookie=new)
    assert wrong.status == 401
    assert await session_of(pages, new) is not None


async def test_a_logged_in_user_skips_the_login_form(pages: Visited):
    cookie = cookie_of(await log_in(pages, await pages.admin()))
    answer = await open_page(pages, "/login?next=/hosts", cookie)
    assert (answer.status, answer.headers["Location"]) == (303, "/hosts")
    assert (await open_page(pages, "/login", "made-up")).status == 200


async def test_without_tokens_the_form_states_that_none_is_needed(pages: Visited):
    html = await pages.text("/login")
    assert "needs none" in html
    assert 'type="password"' not in html


async def test_a_link_from_another_site_offers_to_continue(pages: Visited):
    await pages.admin()
    arrived = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
               "Sec-Fetch-Dest": "document"}  # fmt: skip
    led = await pages.get("/hosts", headers=arrived)
    html = (await pages.get(led.headers["Location"], headers=arrived)).body.decode()
    assert '<a href="/hosts">Continue</a>' in html
    assert "Continue" not in await pages.text("/login?next=/hosts")


ORIGINS = [
    ({}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://{host}"}, 0),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "http://127.0.0.1:1"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 0),
    ({"Sec-Fetch-Site": "none"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 0),  # a form of a page without referrer
    ({"Origin": "null", "Sec-Fetch-Site": "none"}, 403),
    ({"Origin": "null", "Sec-Fetch-Site": "same-site"}, 403),
    ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
    ({"Origin": "http://{host}", "Sec-Fetch-Site": "same-origin"}, 0),
    ({"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"}, 403),
    ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
]


async def test_u3_a_change_with_a_session_needs_a_same_origin_request(pages: Visited):
    admin = await pages.admin()
    for number, (origin, refused) in enumerate(ORIGINS):
        cookie = cookie_of(await log_in(pages, admin))
        host = f"127.0.0.1:{pages.port}"
        proof = {name: value.format(host=host) for name, value in origin.items()}
        asked = await changes(pages, admin, cookie, proof, str(number))
        expected = [refused] * 7 if refused else [303, 201, 200, 404, 404, 303, 303]
        assert [answer.status for answer in asked] == expected, origin
        names = {user.name for user in await pages.app.store.accounts.users()}
        made = {f"eve {number}", f"mallory {number}", f"other {number}"}
        assert names & made == (set() if refused else made), origin
        assert (await session_of(pages, cookie) is not None) is bool(refused), origin


async def changes(
    pages: Visited, admin: str, cookie: str, proof: dict[str, str], mark: str
) -> list[Answer]:
    """All kinds of changes with a session, a login, and finally a logout."""
    given = proof | {"Cookie": f"{COOKIE}={cookie}"}
    source = "/api/users/default/podcasts/default/sources/x"
    form = FORM | given
    return [
        await pages.call("POST", USERS, data=f"name=eve+{mark}".encode(), headers=form),
        await pages.call("POST", "/api/users", {"name": f"mallory {mark}"}, headers=given),
        await pages.call("PUT", "/api/users/default", {"name": f"other {mark}"}, headers=given),
        await pages.call("DELETE", "/api/users/nobody", headers=given),
        await pages.call("PATCH", source, {}, headers=given),
        await pages.call("POST", "/login", data=f"token={admin}".encode(), headers=FORM | proof),
        await pages.call("POST", "/logout", data=b"", headers=form),
    ]


async def test_u3_a_token_needs_no_same_origin_and_a_cookie_beside_it_is_ignored(pages: Visited):
    admin, anna = await pages.admin(), await pages.person("anna")
    cookie = cookie_of(await log_in(pages, admin))
    both = {"Cookie": f"{COOKIE}={cookie}"}
    made = await pages.call("POST", "/api/users", {"name": "eve"}, token=admin)
    assert made.status == 201
    refused = await pages.call("POST", "/api/users", {"name": "x"}, token=anna, headers=both)
    assert refused.status == 403  # anna is no administrator, whatever the cookie is


async def test_an_odd_cookie_is_no_session(pages: Visited):
    await pages.admin()
    for cookie in ("", "x" * 5000, "é", "a b", '"', "%00"):
        for path, status in (("/hosts", 303), ("/login", 200), ("/api/users", 401)):
            assert (await open_page(pages, path, cookie)).status == status, cookie
