"""Filters on the dashboard: edited with their effect alongside, with and without a script (B2)."""

from pathlib import Path

from playwright.async_api import Page, expect

import headwater.web
from tests.api.stored_data import posts_of, source_of
from tests.web.conftest import Visited
from tests.web.test_hosts_page import EVIL, words

PODCAST = "/podcasts/default/filters"


async def test_b2_the_effect_is_shown_before_anything_is_saved(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages, label="River news")
    await posts_of(pages, source, "about a bank", title="A bank")
    await posts_of(pages, source, "about fish", title="Fish")
    url = f"/podcasts/default/sources/{source.id}/filters"
    assert url in await pages.text(f"/podcasts/default/sources/{source.id}")
    assert "There are no filters here yet" in await pages.text(url)

    effect = await pages.send(url, {"keep": "", "block": "bank", "do": "effect"})
    text = words(effect.body.decode())
    assert effect.status == 200
    assert "1 post would be hidden" in text
    assert "Would be hidden A bank" in text
    assert (await pages.app.store.sources.get(source.id)).block is None

    saved = await pages.send(url, {"keep": "", "block": "bank", "do": "save"})
    assert (saved.status, saved.headers["Location"]) == (303, f"{url}?done=filters-saved")
    text = words(await pages.text(url))
    assert "Block hides 1 post, the newest is A bank" in text
    assert "A bank" not in words(await pages.text("/podcasts/default/posts"))
    hidden = words(await pages.text("/podcasts/default/posts?filtered=only"))
    assert "A bank" in hidden
    assert "hidden by the filter source.block" in hidden
    assert "Fish" not in hidden

    again = await pages.send(url, {"keep": "", "block": "", "do": "effect"})
    assert "1 post would be shown again" in words(again.body.decode())


async def test_b2_a_podcast_has_filters_too(pages: Visited):
    await posts_of(pages, await source_of(pages), "bank", title="A bank")
    assert PODCAST in await pages.text("/podcasts/default/posts")
    assert PODCAST in await pages.text("/accounts")
    await pages.send(PODCAST, {"keep": "fish", "block": "", "do": "save"})
    assert (await pages.podcast()).keep == "fish"
    hidden = words(await pages.text("/podcasts/default/posts?filtered=only"))
    assert "hidden by the filter podcast.keep" in hidden


async def test_b2_an_invalid_query_is_explained_at_its_field(pages: Visited):
    for do in ("effect", "save"):
        refused = await pages.send(PODCAST, {"keep": "bank OR", "block": "", "do": do})
        html = refused.body.decode()
        assert refused.status == 422
        assert "At character 8: expected a word" in words(html)
        assert 'aria-invalid="true">bank OR</textarea>' in html
    assert (await pages.podcast()).keep is None


async def test_u4_titles_and_queries_are_escaped(pages: Visited):
    await posts_of(pages, await source_of(pages), "bank", title=EVIL)
    shown = await pages.send(PODCAST, {"keep": "", "block": f"bank OR '{EVIL}'", "do": "effect"})
    assert EVIL not in shown.body.decode()


async def test_no_hidden_posts_are_explained(pages: Visited):
    assert "No posts match" in await pages.text("/podcasts/default/posts?filtered=only")


async def test_b2_a_script_shows_the_effect_while_a_query_is_written(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await posts_of(pages, await source_of(pages), "bank", title="A bank")
    await page.goto(PODCAST)
    await page.get_by_label("Hide posts that match").fill("bank")
    await expect(page.locator("#effect")).to_contain_text("1 post would be hidden")
    await expect(page.locator("#effect")).to_contain_text("A bank")
    await page.get_by_label("Hide posts that match").fill("bank OR")
    await expect(page.locator("#h-block")).to_contain_text("expected a word")
    await page.get_by_label("Hide posts that match").fill("fish")
    await expect(page.locator("#effect")).to_contain_text("Nothing would change")
    await expect(page.locator("#h-block")).to_contain_text("Empty: no posts are blocked.")


async def test_b1_the_help_page_is_served_and_is_part_of_the_documents(pages: Visited):
    html = await pages.text("/searching")
    assert "Searching and filtering" in html
    assert "infla*" in html
    for path in (PODCAST, "/podcasts/default/posts", "/podcasts/default/webhooks"):
        assert 'href="/searching"' in await pages.text(path)
    served = Path(headwater.web.__file__).with_name("searching.md").read_text(encoding="utf-8")
    documented = Path(__file__).parents[2] / "docs" / "searching.md"
    assert documented.read_text(encoding="utf-8").startswith(served)  # the language
