"""Page watching in a real browser: parts are chosen by clicks, noise is ignored with one click."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from headwater.demo.demo_web import DemoWeb
from headwater.watch_settings import WatchSettings
from tests.api.conftest import DEFAULT
from tests.api.scripted_hosts import watch
from tests.store.store_data import newest_posts
from tests.system.conftest import web_of
from tests.web.conftest import Visited, findings
from tests.web.test_add_source_page import ADD, sources_of
from tests.web.watched_pages import NEWS, PageOfDay

NAMES = ("clock", "counter", "teasers", "prices")


@asynccontextmanager
async def web_of_pages() -> AsyncIterator[tuple[DemoWeb, Mapping[str, PageOfDay]]]:
    pages = {name: PageOfDay(name) for name in NAMES}
    async with web_of(**pages) as web:
        yield web, pages


async def preview(browser_page: Page, url: str) -> None:
    await browser_page.goto(ADD)
    await browser_page.get_by_label("Address of a feed").fill(url)
    await browser_page.get_by_role("button", name="Preview").click()
    await expect(browser_page.get_by_role("heading", name="Parts of the page")).to_be_visible()


async def click_part(browser_page: Page, selector: str, pressed: str) -> None:
    """Click a part and wait until it is shown as watched or not."""
    await browser_page.locator(f'.part[value="{selector}"]').click()
    part = browser_page.locator(f'.part[value="{selector}"]')
    await expect(part).to_have_attribute("aria-pressed", pressed)


async def add(browser_page: Page) -> str:
    """Add what is previewed, and return its path in the API."""
    await browser_page.get_by_role("button", name="Add", exact=True).click()
    await expect(browser_page).to_have_url(re.compile(r"/podcasts/default/sources/[0-9a-f-]+"))
    id_ = re.search(r"sources/([0-9a-f-]+)", browser_page.url)
    assert id_ is not None
    return f"{DEFAULT}/sources/{id_[1]}"


async def posts_of_day(pages: Visited, source: str, shown: PageOfDay, hours: range) -> int:
    """Poll once per simulated hour, and count the posts."""
    count = 0
    for hour in hours:
        shown.hour = hour
        outcome = (await pages.post(f"{source}/poll")).json
        assert outcome["outcome"] in ("stored", "unchanged"), outcome
        count += outcome["newPosts"]
    return count


async def test_w4_parts_are_chosen_in_the_preview_with_one_visit(
    pages: Visited, browser_page: Page
):
    async with web_of_pages() as (web, _):
        await preview(browser_page, web.url("prices", "/"))
        text = browser_page.get_by_role("region", name="The text that is watched")
        await expect(text).to_contain_text("The river rose")
        paragraphs = browser_page.locator('.part[value="article > p"]')
        await expect(paragraphs).to_contain_text("all 2")
        await browser_page.get_by_label("Label").fill("My prices")
        await browser_page.get_by_label("Minutes between checks").fill("60")
        await click_part(browser_page, ".shop p", "false")
        await expect(text).not_to_contain_text("without any guarantee")
        await expect(text).to_contain_text("Milk, a litre")
        focused = browser_page.locator('.part[value=".shop p"]')
        await expect(focused).to_be_focused()  # the next key goes on from here
        await click_part(browser_page, "article", "true")
        await click_part(browser_page, "article", "false")
        await expect(browser_page.get_by_label("Label")).to_have_value("My prices")
        await add(browser_page)
        assert len(web.visits) == 1
    (source,) = await sources_of(pages)
    assert (source.label, source.poll_interval_minutes) == ("My prices", 60)
    assert source.watch == WatchSettings(exclude=("article",))


async def test_w4_parts_are_chosen_without_script(pages: Visited, browser: Browser):
    context = await browser.new_context(base_url=pages.url, java_script_enabled=False)
    page = await context.new_page()
    async with web_of_pages() as (web, _):
        await preview(page, web.url("prices", "/"))
        await page.get_by_label("Label").fill("My prices")
        await page.get_by_role("button", name="Only #prices").click()
        await click_part(page, "h1", "true")
        await expect(page.get_by_label("Label")).to_have_value("My prices")
        await expect(page.locator("#watched-text")).to_contain_text("2.40 €")
        await expect(page.locator("#watched-text")).not_to_contain_text("The river rose")
        await add(page)
        assert len(web.visits) == 1
    await context.close()
    (source,) = await sources_of(pages)
    assert source.watch is not None
    assert source.watch.include == ("#prices", "h1")


async def test_w7_parts_that_are_gone_are_explained_and_can_be_chosen_again(
    pages: Visited, browser_page: Page
):
    async with web_of_pages() as (web, _):
        url, settings = web.url("clock", "/"), {"include": [".gone"]}
        source = await watch(pages, url, type="website", watch=settings)
        await browser_page.goto(f"/podcasts/default/sources/{source.rpartition('/')[2]}")
        await browser_page.get_by_role("button", name="Choose parts").click()
        error = browser_page.locator("#watched-text .error")
        await expect(error).to_contain_text("matches the selectors .gone")
        await click_part(browser_page, "article", "true")
        await expect(browser_page.locator("#watched-text")).to_contain_text("The river rose")
        assert len(web.visits) == 1


async def test_w4_parts_lines_and_delivery_of_a_source_are_edited(
    pages: Visited, browser_page: Page
):
    async with web_of_pages() as (web, _):
        await preview(browser_page, web.url("clock", "/"))
        source = await add(browser_page)
        await browser_page.get_by_role("button", name="Choose parts").click()
        await expect(browser_page.get_by_role("heading", name="Watched parts")).to_be_visible()
        assert await findings(browser_page) == []
        await browser_page.get_by_label("Lines to ignore").fill("*")
        await browser_page.get_by_role("button", name="Save").click()
        await expect(browser_page.get_by_role("alert")).to_contain_text("would ignore every line")
        await click_part(browser_page, ".clock", "false")
        await browser_page.get_by_label("Lines to ignore").fill("# people *\n\nUpdated * ago")
        await browser_page.get_by_label("Posts contain").select_option("additions")
        await browser_page.get_by_role("button", name="Save").click()
        await expect(browser_page.get_by_text("The settings are saved.")).to_be_visible()
        assert len(web.visits) == 2  # the preview, and the page to choose from
    assert (await pages.get(source)).json["watch"] == {
        "include": [],
        "exclude": [".clock"],
        "ignore": ["# people *", "Updated * ago"],
        "deliver": "additions",
    }


async def test_w5_the_dashboard_shows_what_changed(pages: Visited, browser_page: Page):
    async with web_of_pages() as (web, shown):
        source = await watch(pages, web.url("clock", "/"), type="website")
        await posts_of_day(pages, source, shown["clock"], range(11, 13))
    await browser_page.goto("/podcasts/default/posts")
    await browser_page.get_by_role("link", name="What changed").first.click()
    diff = browser_page.locator(".diff")
    await expect(diff.locator("ins")).to_have_text(f"{NEWS} It is now 12:00 in the valley.")
    await expect(diff.locator("del")).to_have_text("It is now 11:00 in the valley.")
    await expect(diff).to_contain_text("The river is rising")
    *_, first = await newest_posts(pages.app.store, podcast_id="default", limit=10)
    await browser_page.goto(f"/podcasts/default/posts/{first.id}/diff")
    nothing = browser_page.get_by_role("heading", name="There is no earlier version of it")
    await expect(nothing).to_be_visible()


@pytest.mark.parametrize("name", ["clock", "counter", "teasers", "prices"])
async def test_w4_w6_posts_per_day_before_and_after_a_user_has_chosen(
    pages: Visited, browser_page: Page, name: str
):
    before = {"clock": 24, "counter": 24, "teasers": 18, "prices": 24}
    after = {"clock": 1, "counter": 1, "teasers": 1, "prices": 3}  # the news, or new prices
    async with web_of_pages() as (web, shown):
        page = shown[name]
        await preview(browser_page, web.url(name, "/"))
        source = await add(browser_page)  # its first post is that of the preview
        assert 1 + await posts_of_day(pages, source, page, range(24)) == before[name]
        page.hour = 0
        await browser_page.goto(f"/podcasts/default/sources/{source.rpartition('/')[2]}")
        if name == "counter":
            suggested = browser_page.locator(".suggestion")
            await expect(suggested).to_contain_text("# people have read this page.")
            assert await findings(browser_page) == []
            await suggested.get_by_role("button", name="Ignore this line").click()
            await expect(browser_page.get_by_text("changed as suggested")).to_be_visible()
            await expect(browser_page.locator(".suggestion")).to_have_count(0)
        else:
            await browser_page.get_by_role("button", name="Choose parts").click()
            if name == "prices":
                await browser_page.get_by_role("button", name="Only #prices").click()
                rest = browser_page.locator('.part[value="footer"]')
                await expect(rest).to_have_attribute("aria-pressed", "false")
                await browser_page.get_by_label("Posts contain").select_option("additions")
            else:
                await click_part(browser_page, f".{name}", "false")
            await browser_page.get_by_role("button", name="Save").click()
            await expect(browser_page.get_by_text("The settings are saved.")).to_be_visible()
        await posts_of_day(pages, source, page, range(1))  # the new settings may make one post
        assert await posts_of_day(pages, source, page, range(1, 24)) == after[name]
        newest, *_ = (await pages.get(f"{source}/posts")).json["items"]
    if name == "prices":  # the row that has changed
        assert newest["body"] == "Milk, a litre 1.50 €"
    else:
        assert NEWS in newest["body"]
