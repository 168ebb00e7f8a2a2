"""Suggestions on the dashboard: on the page of the source and on the overview (W6, Y4, Y5)."""

from headwater.demo.demo_web import Reply
from headwater.model import Suggestion, SuggestionKind
from headwater.operations.rate_limits import VisitLimits
from tests.api.scripted_hosts import watch
from tests.api.stored_data import failed, source_of
from tests.api.test_suggested_urls import FOUND, NEW, OLD, suggest_feed, suggest_move
from tests.api.test_watching_pages import Page, noisy_page
from tests.store.store_data import StoreClock
from tests.system.conftest import web_of
from tests.web.conftest import Visited
from tests.web.test_source_page import page_of, words


async def test_y4_a_move_is_accepted_and_undone_with_one_click_each(pages_by_each: Visited):
    pages = pages_by_each
    source = await watch(pages, OLD, label="River")
    id_ = await suggest_move(pages, source.rpartition("/")[2])
    for path in (page_of(source), "/"):
        html = await pages.text(path)
        assert f"{page_of(source)}/suggestions/{id_}/accept" in html
        assert f"{page_of(source)}/suggestions/{id_}/dismiss" in html
        assert f"redirects permanently to {NEW}" in words(html)
        assert "12 checks followed it" in words(html)
    answer = await pages.send(f"{page_of(source)}/suggestions/{id_}/accept")
    assert (answer.status, answer.headers["Location"].partition("?")[0]) == (303, page_of(source))
    assert (await pages.get(source)).json["url"] == NEW
    html = await pages.text(page_of(source))
    assert f"It was {OLD} and is now {NEW}" in words(html)
    assert id_ not in await pages.text("/")
    await pages.send(f"{page_of(source)}/suggestions/{id_}/undo")
    assert (await pages.get(source)).json["url"] == OLD
    assert id_ not in await pages.text(page_of(source))


async def test_y8_a_suggestion_that_requests_a_poll_too_soon_is_not_accepted(pages: Visited):
    pages.app.visit_limits = VisitLimits(StoreClock())
    ann, source = await pages.person("ann"), await source_of(pages, "ann", url=OLD)
    id_ = await suggest_move(pages, source.id)
    path = f"/podcasts/{source.podcast_id}/sources/{source.id}/suggestions/{id_}"
    statuses = [(await pages.send(f"{path}/accept", token=ann)).status]
    undone = await pages.send(f"{path}/undo", token=ann)
    assert ([*statuses, undone.status], undone.headers["Retry-After"]) == ([303, 429], "10")
    assert "A source can be polled manually once in 10 seconds" in words(undone.body.decode())
    assert (await pages.app.store.sources.get(source.id)).url == NEW


async def test_y4_a_dismissed_move_is_not_shown(pages: Visited):
    source = await watch(pages, OLD)
    id_ = await suggest_move(pages, source.rpartition("/")[2])
    await pages.send(f"{page_of(source)}/suggestions/{id_}/dismiss")
    assert (await pages.get(source)).json["url"] == OLD
    for path in (page_of(source), "/"):
        assert id_ not in await pages.text(path)


async def test_y5_a_found_feed_names_its_page_and_a_source_that_has_it(pages: Visited):
    source = await watch(pages, OLD)
    twin = await watch(pages, NEW)
    await suggest_feed(pages, source.rpartition("/")[2])
    html = await pages.text(page_of(source))
    assert "https://example.org/ links to another feed, “River News”" in words(html)
    assert f'href="{page_of(twin)}"' in html


async def test_y5_nobody_is_told_to_look_for_an_address_that_was_found(pages: Visited):
    source = await source_of(pages)
    found = Suggestion("found", SuggestionKind.FEED, FOUND, pages.app.clock.now())
    await failed(pages, source, suggestions={found.kind: found})
    text = words(await pages.text(f"/podcasts/default/sources/{source.id}"))
    assert "What you can do Headwater has found another address" in text
    assert "Use the new address" in text


async def test_y5_the_page_says_what_came_of_a_search(pages: Visited):
    async with web_of(host=lambda _: Reply(404)) as web:
        source = await watch(pages, web.url("host"), maxFailures=1)
        await pages.post(f"{source}/poll")
        assert "its site is being searched" in words(await pages.text(page_of(source)))


async def test_w6_lines_to_ignore_are_suggested_on_the_source_and_on_the_overview(
    pages_by_each: Visited,
):
    pages, page = pages_by_each, Page()
    async with web_of(host=page) as web:
        source = await noisy_page(pages, page, web.url("host", "/"))
    [suggestion] = (await pages.get(source)).json["suggestions"]
    url = f"{page_of(source)}/suggestions/{suggestion['id']}"
    for path in (page_of(source), "/"):
        html = await pages.text(path)
        assert f"{url}/dismiss" in html
        assert "The last three posts differ only in one line" in words(html)
        assert "<code>It is #:#</code>" in html
    assert "New addresses" not in await pages.text("/")
    assert (await pages.send(f"{url}/accept")).status == 303
    assert "differ only in" not in await pages.text("/")
