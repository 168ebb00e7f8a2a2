"""Accounts on their page: podcasts, X keys, users and tokens, each for its owner."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.api.middleware.authentication import COOKIE
from headwater.model import Podcast, SourceType, Token
from headwater.operations.rate_limits import VisitLimits
from headwater.operations.tokens import token_with
from headwater.operations.users_and_podcasts import key_of
from headwater.store.sources import SourceFilter
from tests.api.conftest import Answer, settings_in
from tests.api.stored_data import posts_of, source_of
from tests.store.store_data import StoreClock
from tests.web.conftest import Visited, visiting
from tests.web.test_hosts_page import EVIL, words
from tests.web.test_login_page import cookie_of, log_in

PAGE, USERS, TOKENS = "/accounts", "/accounts/users", "/accounts/tokens"
OWN = f"{USERS}/default"
SURE = {"sure": "yes"}


async def reported(pages: Visited, answer: Answer, **options: Any) -> str:
    """The message of the page that a form redirects to."""
    assert answer.status == 303, words(answer.body.decode())
    return words(await pages.text(answer.headers["Location"], **options))


async def podcasts(pages: Visited, user: str = "default") -> list[Podcast]:
    return list(
        await pages.app.store.accounts.podcasts((await pages.app.store.accounts.user(user)).id)
    )


async def names(pages: Visited) -> list[str]:
    return [user.name for user in await pages.app.store.accounts.users()]


async def tokens(pages: Visited) -> list[Token]:
    return list(await pages.app.store.tokens.all())


async def test_a_podcast_is_added_changed_and_deleted(pages_by_each: Visited):
    pages = pages_by_each
    fields = {"name": " Rivers ", "maxArticleAgeDays": "30", "dedupe": "yes"}
    assert "The podcast is added." in await reported(
        pages, await pages.send(f"{OWN}/podcasts", fields)
    )
    rivers = (await podcasts(pages))[1]
    assert (rivers.name, rivers.max_article_age_days, rivers.dedupe_across_sources) == (
        "Rivers", 30, True,
    )  # fmt: skip
    assert 'value="30"' in await pages.text(PAGE)
    path = f"{PAGE}/podcasts/{rivers.id}"
    changed = await pages.send(path, {"name": "Lakes", "maxArticleAgeDays": ""})
    assert "The podcast is saved." in await reported(pages, changed)
    lakes = (await podcasts(pages))[1]
    assert (lakes.name, lakes.max_article_age_days, lakes.dedupe_across_sources) == (
        "Lakes", None, False,
    )  # fmt: skip
    assert "The podcast is deleted" in await reported(
        pages, await pages.send(f"{path}/delete", SURE)
    )
    assert [podcast.name for podcast in await podcasts(pages)] == ["default"]


async def test_deleting_a_podcast_deletes_everything_in_it(pages: Visited):
    await pages.person("anna")
    admin = await pages.admin()
    source = await source_of(pages, "anna")
    await posts_of(pages, source, "one", "two")
    [hers] = await podcasts(pages, "anna")
    answer = await pages.send(f"{PAGE}/podcasts/{hers.id}/delete", SURE, token=admin)
    assert answer.status == 303
    assert await pages.app.store.sources.find(SourceFilter(), limit=10) == []
    assert await pages.app.store.posts.count() == 0


async def test_an_invalid_podcast_is_reported_at_its_field_and_the_input_is_kept(pages: Visited):
    cases = [
        ({"name": "", "maxArticleAgeDays": "5"}, "a name is one line", 'value="5"'),
        ({"name": "default"}, "there is a podcast 'default' already", 'value="default"'),
        ({"name": "n", "maxArticleAgeDays": "0"}, "whole number of days", 'value="0"'),
        ({"name": "n", "maxArticleAgeDays": "100001"}, "whole number of days", 'value="n"'),
        ({"name": "n", "maxArticleAgeDays": "1.5"}, "whole number of days", 'value="1.5"'),
        ({"name": "n", "maxArticleAgeDays": "٣"}, "whole number of days", 'value="٣"'),
        ({"name": "n", "maxArticleAgeDays": "9" * 5000}, "whole number of days", 'value="n"'),
        ({"name": "a\nb"}, "a name is one line", 'aria-invalid="true"'),
        ({"name": EVIL * 9}, "a name is one line", "&lt;script&gt;"),
    ]
    for path in (f"{OWN}/podcasts", f"{PAGE}/podcasts/default"):
        for fields, message, kept in cases:
            if fields["name"] == "default" and path.endswith("default"):
                continue
            answer = await pages.send(path, fields)
            html = answer.body.decode()
            assert answer.status == 422, fields
            assert message in words(html), fields
            assert kept in html, fields
            assert "<script>alert" not in html
    assert [podcast.name for podcast in await podcasts(pages)] == ["default"]


async def test_a_deletion_of_many_objects_needs_a_confirmation(pages: Visited):
    await pages.send(USERS, {"name": "anna"})
    await pages.send(f"{USERS}/anna/podcasts", {"name": "hers"})
    await pages.send(f"{USERS}/anna/key", {"apiKey": "secret"})
    made = await pages.send(TOKENS, {"name": "laptop", "user": ""})
    assert made.status == 200
    pages.token = re.findall(r'class="secret"[^>]*>([^<]+)<', made.body.decode())[0]
    [hers], [token] = await podcasts(pages, "anna"), await tokens(pages)
    for path in (f"{PAGE}/podcasts/{hers.id}/delete", f"{USERS}/anna/key/delete",
                 f"{USERS}/anna/delete", f"{TOKENS}/{token.id}/revoke"):  # fmt: skip
        answer = await pages.send(path)
        assert answer.status == 422
        assert "Tick the box first" in words(answer.body.decode())
    assert len(await podcasts(pages, "anna")) == 1
    assert await tokens(pages) == [token]


async def test_the_default_podcast_cannot_be_deleted(pages: Visited):
    html = await pages.text(PAGE)
    assert "Delete this podcast" not in html
    assert "Delete default" not in html
    for path in (f"{OWN}/delete", f"{PAGE}/podcasts/default/delete"):
        answer = await pages.send(path, SURE)
        assert answer.status == 422
        assert "cannot be removed: every database has it" in words(answer.body.decode())


async def test_u5_an_x_key_can_be_stored_and_is_never_shown(pages_by_each: Visited):
    pages, app = pages_by_each, pages_by_each.app
    await source_of(pages, type=SourceType.TWITTER, url="@jack", host="x.com")
    answer = await pages.send(f"{OWN}/key", {"apiKey": "first-secret"})
    text = await reported(pages, answer)
    assert "The X key is stored, encrypted. Waiting sources that are checked now: 1." in text
    assert "first-secret" not in str(answer.headers)
    html = await pages.text(PAGE)
    assert "first-secret" not in html
    assert "Replace the key" in html
    await pages.send(f"{OWN}/key", {"apiKey": " second-secret\n"})
    assert await key_of(app.store, lambda: app.vault, "default", "x") == "second-secret"
    assert "is removed" in await reported(pages, await pages.send(f"{OWN}/key/delete", SURE))
    assert await key_of(app.store, lambda: app.vault, "default", "x") is None
    assert (await pages.send(f"{OWN}/key/delete", SURE)).status == 404


async def test_y8_a_key_stored_again_requests_no_poll_too_soon(pages: Visited):
    pages.app.visit_limits = VisitLimits(StoreClock())
    ann = await pages.person("ann")
    await source_of(pages, "ann", type=SourceType.TWITTER, url="@jack", host="x.com")
    for count in (1, 0):
        answer = await pages.send(f"{USERS}/ann/key", {"apiKey": "secret"}, token=ann)
        text = await reported(pages, answer, token=ann)
        assert f"Waiting sources that are checked now: {count}." in text


async def test_u6_an_invalid_key_is_reported_and_not_shown_again(pages: Visited):
    for wrong in ("two words-secret", "", "schlüssel-secret"):
        answer = await pages.send(f"{OWN}/key", {"apiKey": wrong})
        assert answer.status == 422
        assert "one word of visible ASCII characters" in words(answer.body.decode())
        assert b"-secret" not in answer.body


async def test_users_are_added_renamed_and_deleted(pages_by_each: Visited):
    pages = pages_by_each
    added = await pages.send(USERS, {"name": "anna"})
    assert "The user is added." in await reported(pages, added)
    anna = await pages.app.store.accounts.user("anna")
    assert added.headers["Location"].startswith(f"{PAGE}?user={anna.id}&")
    assert "Podcasts of anna" in await reported(pages, added)
    taken = await pages.send(USERS, {"name": "anna"})
    assert taken.status == 422
    assert "there is a user 'anna' already" in words(taken.body.decode())
    evil = EVIL.replace("/", "")  # which no name has
    renamed = await pages.send(f"{USERS}/{anna.id}/rename", {"name": evil})
    html = await pages.text(renamed.headers["Location"])
    assert evil in words(html)
    assert "<script>alert" not in html
    deleted = await pages.send(f"{USERS}/{anna.id}/delete", SURE)
    assert "The user is deleted" in await reported(pages, deleted)
    assert await names(pages) == ["default"]
    assert (await pages.send(f"{USERS}/{anna.id}/delete", SURE)).status == 404
    assert (await pages.get(f"{PAGE}?user={anna.id}")).status == 404


async def test_without_tokens_the_page_explains_the_first_one(pages: Visited):
    text = words(await pages.text(PAGE))
    assert "every user of this machine is an administrator" in text
    assert "After the first token is created, everyone needs one, this browser too." in text
    assert "Log out" not in text


async def test_u1_a_token_is_shown_once_in_the_response(pages_by_each: Visited):
    pages = pages_by_each
    answer = await pages.send(TOKENS, {"name": "laptop", "user": ""})
    html = answer.body.decode()
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    [secret] = re.findall(r'class="secret"[^>]*>([^<]+)<', html)
    assert secret not in str(answer.headers)
    assert "From now on every client needs a token, including this browser." in words(html)
    assert "Log this browser in with it" in html
    [token] = await tokens(pages)
    assert (token.name, token.user_id) == ("laptop", None)
    assert await token_with(pages.app.store, secret, pages.app.clock.now()) == token
    assert (await pages.get(PAGE)).status == 303  # as announced
    cookie = cookie_of(await log_in(pages, secret))
    again = await pages.text(PAGE, headers={"Cookie": f"{COOKIE}={cookie}"})
    assert secret not in again
    assert "laptop administrator this browser" in words(again)


async def test_u1_a_token_is_created_with_a_scope_and_an_expiry(pages_by_each: Visited):
    pages = pages_by_each
    pages.token = await pages.admin()
    form = {"name": "reader", "user": "default", "access": "read", "days": "30"}
    made = await pages.send(TOKENS, form)
    assert made.status == 200
    metrics = await pages.send(
        TOKENS, {"name": "prometheus", "user": "default", "access": "metrics"}
    )
    assert metrics.status == 200
    _, reader, prometheus = await tokens(pages)
    assert (reader.scope, reader.user_id) == ("read", "default")
    assert reader.expires_at == reader.created_at + timedelta(days=30)
    assert (prometheus.scope, prometheus.user_id) == ("metrics", None)
    text = words(await pages.text(PAGE))
    assert "reader default read only made" in text
    assert "prometheus all users metrics only made" in text
    for wrong in ({"access": "root"}, {"days": "1000"}):
        assert (await pages.send(TOKENS, form | wrong)).status == 422


async def test_u1_a_session_of_a_reading_token_changes_nothing(pages: Visited):
    pages.token = await pages.admin()
    made = await pages.send(TOKENS, {"name": "reader", "user": "", "access": "read"})
    [secret] = re.findall(r'class="secret"[^>]*>([^<]+)<', made.body.decode())
    pages.token = None
    cookie = cookie_of(await log_in(pages, secret))
    as_browser = {"Cookie": f"{COOKIE}={cookie}", "Origin": pages.url}
    text = words(await pages.text(PAGE, headers=as_browser))
    assert "The access token permits reading only" in text
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await pages.call("POST", USERS, data=b"name=eve", headers=as_browser | kind)
    assert answer.status == 403
    assert [user.name for user in await pages.app.store.accounts.users()] == ["default"]
    left = await pages.call("POST", "/logout", data=b"", headers=as_browser | kind)
    assert (left.status, left.headers["Location"]) == (303, "/login?left")


async def test_u1_a_metrics_token_cannot_log_in(pages: Visited):
    pages.token = await pages.admin()
    made = await pages.send(TOKENS, {"name": "prometheus", "user": "", "access": "metrics"})
    assert b"Log this browser in" not in made.body
    [secret] = re.findall(r'class="secret"[^>]*>([^<]+)<', made.body.decode())
    pages.token = None
    answer = await log_in(pages, secret)
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


async def test_creating_the_first_token_warns_users_without_one(pages: Visited):
    await pages.send(USERS, {"name": "anna"})
    anna = await pages.app.store.accounts.user("anna")
    answer = await pages.send(f"{TOKENS}?user={anna.id}", {"name": "phone", "user": anna.id})
    text = words(answer.body.decode())
    assert "This one is restricted to its user’s data" in text
    assert "phone anna" in text
    assert [token.user_id for token in await tokens(pages)] == [anna.id]


async def test_a_session_user_is_not_offered_a_second_session(pages: Visited):
    cookie = cookie_of(await log_in(pages, await pages.admin()))
    as_browser = {"Cookie": f"{COOKIE}={cookie}", "Origin": pages.url}
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    data = b"name=reader&user=default"
    answer = await pages.call("POST", TOKENS, data=data, headers=as_browser | kind)
    assert answer.status == 200
    assert b"Log this browser in" not in answer.body
    wrong = await pages.call("POST", TOKENS, data=b"name=&user=", headers=as_browser | kind)
    assert wrong.status == 422
    assert "a name is one line" in words(wrong.body.decode())


async def test_u1_a_token_is_revoked_at_once(pages_by_each: Visited):
    pages = pages_by_each
    anna, admin = await pages.person("anna"), await pages.admin()
    hers = next(token for token in await tokens(pages) if token.name == "anna")
    assert (await pages.get(PAGE, token=anna)).status == 200
    revoked = await pages.send(f"{TOKENS}/{hers.id}/revoke", SURE, token=admin)
    assert "The token is revoked" in await reported(pages, revoked, token=admin)
    assert (await pages.get(PAGE, token=anna)).status == 303
    assert (await pages.send(f"{TOKENS}/{hers.id}/revoke", SURE, token=admin)).status == 404
    [last] = await tokens(pages)
    assert "It is the last one" in words(await pages.text(PAGE, token=admin))
    await pages.send(f"{TOKENS}/{last.id}/revoke", SURE, token=admin)
    assert "every user of this machine" in await pages.text(PAGE)


async def test_u2_users_see_and_change_their_own_objects_only(pages_by_each: Visited):
    pages = pages_by_each
    anna, bert = await pages.person("anna"), await pages.person("bert")
    user = await pages.app.store.accounts.user("anna")
    [hers] = await podcasts(pages, "anna")
    html = await pages.text(PAGE, token=bert)
    assert "Your podcasts" in html
    for other in ("Access tokens", "Users", "anna", "default<"):
        assert other not in html
    assert (await pages.send(f"{USERS}/anna/key", {"apiKey": "k"}, token=anna)).status == 303
    not_found = [
        (f"{USERS}/{user.id}/podcasts", {"name": "x"}),
        (f"{USERS}/anna/podcasts", {"name": "x"}),
        (f"{USERS}/nobody/podcasts", {"name": "x"}),
        (f"{PAGE}/podcasts/{hers.id}", {"name": "x"}),
        (f"{PAGE}/podcasts/{hers.id}/delete", SURE),
        (f"{PAGE}/podcasts/nobody/delete", SURE),
        (f"{USERS}/anna/key", {"apiKey": "x"}),
        (f"{USERS}/anna/key/delete", SURE),
    ]
    for path, fields in not_found:
        answer = await pages.send(path, fields, token=bert)
        assert answer.status == 404, path
        assert b"There is nothing here" in answer.body
    for path, fields in [
        (USERS, {"name": "x"}),
        (f"{USERS}/bert/rename", {"name": "x"}),
        (f"{USERS}/bert/delete", SURE),
        (TOKENS, {"name": "x", "user": ""}),
        (f"{TOKENS}/anna/revoke", SURE),
    ]:
        assert (await pages.send(path, fields, token=bert)).status == 403, path
    assert (await pages.get(f"{PAGE}?user={user.id}", token=bert)).status == 404
    assert [podcast.name for podcast in await podcasts(pages, "anna")] == ["anna"]
    assert await names(pages) == ["default", "anna", "bert"]
    assert len(await tokens(pages)) == 2
    own = await pages.send(f"{USERS}/bert/podcasts", {"name": "second"}, token=bert)
    assert "The podcast is added." in await reported(pages, own, token=bert)


async def test_users_and_podcasts_are_paged(pages: Visited):
    for number in range(51):
        await pages.send(f"{OWN}/podcasts", {"name": f"podcast {number:02}"})
        await pages.send(USERS, {"name": f"user {number:02}"})
    html = await pages.text(PAGE)
    assert "podcast 48" in html
    assert "podcast 49" not in html
    for kind in ("podcasts", "users"):
        [more] = re.findall(rf'href="(/accounts\?[^"]*{kind}=[^"#]+)', html)
        text = words(await pages.text(more.replace("&amp;", "&")))
        assert f"{kind[:-1]} 50" in text
    assert (await pages.get(f"{PAGE}?users=nonsense")).status == 422


async def test_u3_a_get_request_changes_nothing(pages: Visited):
    for path in (USERS, TOKENS, f"{OWN}/podcasts", f"{OWN}/key", f"{OWN}/delete"):
        answer = await pages.get(path)
        assert (answer.status, answer.headers["Location"]) == (303, PAGE)
    assert await names(pages) == ["default"]


async def test_u5_a_key_that_cannot_be_encrypted_is_reported(tmp_path: Path):
    async for pages in visiting(settings_in(tmp_path)):
        (tmp_path / "test.db.key").mkdir()  # where the master key should be
        answer = await pages.send(f"{OWN}/key", {"apiKey": "secret"})
        assert answer.status == 422
        assert "the master key file" in words(answer.body.decode())
        assert b"secret" not in answer.body


async def test_a_required_field_is_reported_with_its_hint(pages: Visited):
    text = await pages.text("/accounts")
    assert "requiredaria" not in text
    assert 'required aria-describedby="h-f-new-token-name"' in text
