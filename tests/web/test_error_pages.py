"""Pages that say what went wrong, and lead on from there."""

import pytest

from headwater.errors import DatabaseUnavailable
from headwater.model import Podcast
from headwater.operations.people import add_podcast
from tests.web.conftest import Visited

NAVIGATION = '<nav class="main"'


@pytest.mark.parametrize(
    "path", ["/nothing", "/podcasts/none/sources", "/podcasts/default/sources/none", "/hosts/none"]
)
async def test_what_is_not_there_leads_back_to_what_is(pages: Visited, path: str):
    html = await pages.text(path, status=404)
    assert "<h1>There is nothing here</h1>" in html
    assert NAVIGATION in html
    assert 'href="/podcasts/default/posts"' in html


async def test_the_navigation_stays_with_the_podcast_of_the_address(pages: Visited):
    second = await _second(pages)
    html = await pages.text(f"/podcasts/{second.id}/sources/none", status=404)
    assert f'href="/podcasts/{second.id}/posts"' in html


async def test_u2_a_podcast_of_somebody_else_is_not_in_the_navigation(pages: Visited):
    await pages.admin()
    ann, second = await pages.person("ann"), await _second(pages)
    html = await pages.text(f"/podcasts/{second.id}/sources/none", status=404, token=ann)
    assert NAVIGATION in html
    assert second.id not in html


async def test_u2_what_somebody_may_not_do_is_told_as_such(pages: Visited):
    await pages.admin()
    ann = await pages.person("ann")
    answer = await pages.send("/scheduler", {"switch": "pause"}, token=ann)
    html = answer.body.decode()
    assert answer.status == 403
    assert "<h1>This is not yours to do</h1>" in html
    assert NAVIGATION in html


async def test_a_form_that_makes_no_sense_is_told_in_its_own_words(pages: Visited):
    answer = await pages.send("/scheduler", {"switch": "<b>sideways</b>"})
    html = answer.body.decode()
    assert answer.status == 422
    assert "<p>The switch is either pause or resume.</p>" in html
    assert NAVIGATION in html


async def test_k5_without_a_database_there_is_a_page_all_the_same(
    pages: Visited, monkeypatch: pytest.MonkeyPatch
):
    async def gone(*_: object) -> None:
        raise DatabaseUnavailable("the database does not answer")

    monkeypatch.setattr(pages.app.store.people, "first_podcasts", gone)
    html = await pages.text("/accounts", status=503)
    assert "<h1>Not right now</h1>" in html
    assert "<p>The database does not answer.</p>" in html
    html = await pages.text("/nothing", status=404)
    assert "<h1>There is nothing here</h1>" in html
    assert NAVIGATION not in html


async def test_programs_get_documents(pages: Visited):
    answer = await pages.get("/api/nothing")
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


async def _second(pages: Visited) -> Podcast:
    user = await pages.app.store.people.user("default")
    return await add_podcast(pages.app.store, user, "Second", pages.app.clock.now())
