"""The list of posts in a real browser: reading pane, keyboard shortcuts, new arrivals."""

import re

from playwright.async_api import Page, ViewportSize, expect

from headwater.engine.followers import STORIES, handle_batch
from tests.api.scripted_hosts import feed, watch
from tests.api.stored_data import posts_of, source_of
from tests.factories import a_post
from tests.store.store_data import newest_posts, with_posts
from tests.story_texts import TextGenerator
from tests.system.conftest import web_of
from tests.web.conftest import Visited, findings
from tests.web.test_live_browser import is_live

POSTS = "/podcasts/default/posts"
READ = re.compile(r"\bread\b")
WIDE: ViewportSize = {"width": 1400, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


async def store_story(pages: Visited) -> None:
    """Store the same text of two sources, and another post between them."""
    text = TextGenerator(1).text(90)
    now = pages.app.clock.now().replace(microsecond=0)
    for label, body in (("First paper", text), ("Second paper", f"{text} More of it.")):
        source = await source_of(pages, label=label)
        url = f"{source.url}/story"
        post = a_post(source_id=source.id, body=body, url=url, created_at=now, published_at=now)
        await with_posts(pages.app.store, source, post)
    await handle_batch(pages.app.store, STORIES)


async def test_a_wide_window_shows_posts_beside_the_list(pages: Visited, browser_page: Page):
    page = browser_page
    source = await source_of(pages, label="River news")
    for name in ("third", "second", "first"):
        await posts_of(pages, source, f"The text of the {name} one.", title=f"The {name}")
    await page.set_viewport_size(WIDE)
    await page.goto(POSTS)
    reading, items = page.locator("#reading"), page.locator(".posts > li")
    await expect(reading).to_contain_text("Choose a post")
    await page.keyboard.press("j")
    await expect(reading.locator(".title")).to_have_text("The first")
    await expect(items.nth(0)).to_have_class(READ)
    await page.keyboard.press("j")
    await expect(reading).to_contain_text("The text of the second one.")
    await page.keyboard.press("k")
    await expect(reading.locator(".title")).to_have_text("The first")
    await page.keyboard.press("m")
    await expect(items.nth(0)).not_to_have_class(READ)
    async with page.expect_popup() as opened:
        await page.keyboard.press("o")
    await (await opened.value).close()
    await items.nth(2).get_by_role("link", name="The third").click()
    await expect(reading.locator(".title")).to_have_text("The third")
    assert page.url.endswith(POSTS)
    await page.reload()
    await expect(items.nth(1)).to_have_class(READ)
    await expect(items.nth(0)).not_to_have_class(READ)


async def test_keys_show_the_help_and_the_filter_and_do_nothing_while_typing(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await posts_of(pages, await source_of(pages), "one")
    await page.goto(POSTS)
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(dialog).to_be_visible()
    assert await findings(page) == []
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.keyboard.press("/")
    await expect(page.locator(".for-posts :focus")).to_be_visible()
    await page.keyboard.press("?")
    await expect(dialog).to_be_hidden()


async def test_new_posts_are_announced_and_nothing_moves(pages: Visited, browser_page: Page):
    page, names = browser_page, ["one"]
    async with web_of(host=lambda _: feed(*names)) as web:
        source = await watch(pages, web.url("host"), includeHistory=True)
        await pages.post(f"{source}/poll")
        await page.goto(POSTS)
        await is_live(page)
        item = page.locator(".posts > li").first
        before = await item.bounding_box()
        names += ["two", "three"]
        await pages.post(f"{source}/poll")
        link = page.get_by_role("link", name="2 new posts")
        await expect(link).to_be_visible()
        assert await item.bounding_box() == before
        assert await page.locator(".posts > li").count() == 1
        await link.click()
        await expect(page.locator(".posts > li")).to_have_count(3)


async def test_new_posts_are_announced_on_an_empty_list_if_they_match(
    pages: Visited, browser_page: Page
):
    page, names = browser_page, ["one"]
    async with web_of(host=lambda _: feed(*names)) as web:
        source = await watch(pages, web.url("host"), includeHistory=True)
        await page.goto(POSTS)
        await is_live(page)
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")  # nothing to go to
        other = await page.context.new_page()
        await other.goto(f"{POSTS}?score=1")
        await is_live(other)
        async with other.expect_response(re.compile("/arrivals")) as counted:
            await pages.post(f"{source}/poll")
        assert await (await counted.value).json() == {"count": 0, "more": False}
        await expect(other.locator("[data-arrivals] a")).to_have_count(0)
        link = page.get_by_role("link", name="1 new post")
        await link.click()
        await expect(page.locator(".posts > li")).to_have_count(1)


async def test_a_narrow_window_opens_the_original_page_by_key(pages: Visited, browser_page: Page):
    page = browser_page
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"), includeHistory=True)
        await pages.post(f"{source}/poll")
        original = (await newest_posts(pages.app.store, podcast_id="default", limit=1))[0].url
        await page.context.route(original, lambda route: route.fulfill(body="the original"))
        await page.set_viewport_size(PHONE)
        await page.goto(POSTS)
        await page.keyboard.press("j")
        async with page.context.expect_page() as opened:
            await page.keyboard.press("o")
        await expect((await opened.value).locator("body")).to_have_text("the original")
        assert (await opened.value).url == original
        assert page.url.endswith(POSTS)


async def test_i2_a_phone_shows_a_story_once_and_reads_it_on_a_page(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await store_story(pages)
    await page.set_viewport_size(PHONE)
    await page.goto(POSTS)
    await expect(page.locator(".posts > li")).to_have_count(1)
    await expect(page.locator("#reading")).to_be_hidden()
    await page.get_by_text("Also from First paper").click()
    await expect(page.locator(".also li")).to_contain_text("First paper")
    await page.locator(".posts .title a").click()
    await expect(page.locator("#reading")).to_contain_text("More of it.")
    assert await findings(page) == []
    await page.get_by_role("button", name="Not the same story").click()
    await expect(page.get_by_text("Taken out of the story")).to_be_visible()
    await page.goto(POSTS)
    await expect(page.locator(".posts > li")).to_have_count(2)
