"""Error pages state the problem and link to a useful page."""

import pytest

from headwater.errors import DatabaseUnavailable
from headwater.model import Podcast
from headwater.operations.users_and_podcasts import add_podcast
from tests.web.conftest import Visited

NAVIGATION = '<nav class="main"'


@pytest.mark.parametrize(
    "path", ["/nothing", "/podcasts/none/sources", "/podcasts/default/sources/none", "/hosts/none"]
)
async def test_a_missing_page_links_back(pages: Visited, path: str):
    html = await pages.text(path, status=404)
    assert "<h1>There is nothing here</h1>" in html
    assert NAVIGATION in html
    assert 'href="/podcasts/default/posts"' in html


async def test_the_navigation_keeps_the_podcast_of_the_url(pages: Visited):
    second = await _second(pages)
    html = await pages.text(f"/podcasts/{second.id}/sources/none", status=404)
    assert f'href="/podcasts/{second.id}/posts"' in html


async def test_u2_a_podcast_of_another_user_is_not_in_the_navigation(pages: Visited):
    await pages.admin()
    ann, second = await pages.person("ann"), await _second(pages)
    html = await pages.text(f"/podcasts/{second.id}/sources/none", status=404, token=ann)
    assert NAVIGATION in html
    assert second.id not in html


async def test_u2_a_forbidden_action_is_reported_as_forbidden(pages: Visited):
    await pages.admin()
    ann = await pages.person("ann")
    answer = await pages.send("/scheduler", {"switch": "pause"}, token=ann)
    html = answer.body.decode()
    assert answer.status == 403
    assert "<h1>You are not allowed to do this</h1>" in html
    assert NAVIGATION in html


async def test_an_invalid_form_is_reported_with_its_message(pages: Visited):
    answer = await pages.send("/scheduler", {"switch": "<b>sideways</b>"})
    html = answer.body.decode()
    assert answer.status == 422
    assert "<p>The action is either pause or resume.</p>" in html
    assert NAVIGATION in html


async def test_k5_without_a_database_there_is_still_an_error_page(
    pages: Visited, monkeypatch: pytest.MonkeyPatch
):
    async def gone(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the database does not answer")

    monkeypatch.setattr(pages.app.store.accounts, "podcasts", gone)
    html = await pages.text("/accounts", status=503)
    assert "<h1>Not right now</h1>" in html
    assert "<p>The database does not answer.</p>" in html
    html = await pages.text("/nothing", status=404)
    assert "<h1>There is nothing here</h1>" in html
    assert NAVIGATION not in html


async def test_api_clients_get_problem_documents(pages: Visited):
    answer = await pages.get("/api/nothing")
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


async def _second(pages: Visited) -> Podcast:
    user = await pages.app.store.accounts.user("default")
    return await add_podcast(pages.app.store, user, "Second", pages.app.clock.now())
