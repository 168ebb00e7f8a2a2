"""The page of a source in a real browser."""

import re

from playwright.async_api import Page, expect

from headwater.demo.demo_web import Reply, Request
from headwater.model import Failure, FailureType
from tests.api.scripted_hosts import GatedHost, feed, running, watch
from tests.api.stored_data import polled, posts_of, source_of
from tests.store.store_data import a_failure
from tests.system.conftest import web_of
from tests.web.conftest import Visited
from tests.web.test_source_page import EVIL, page_of


class RestorableHost:
    """A host whose page is missing until the test restores it."""

    def __init__(self) -> None:
        self.is_back = False

    def __call__(self, _: Request) -> Reply:
        return feed("Back again") if self.is_back else Reply(404)


async def test_an_automatically_disabled_source_can_be_enabled(pages: Visited, browser_page: Page):
    moved = RestorableHost()
    async with web_of(moved=moved) as web, running(pages):
        source = await watch(pages, web.url("moved"), label="The gazette", maxFailures=5)
        for _ in range(5):
            await pages.post(f"{source}/poll")
        await browser_page.goto(page_of(source))
        await expect(browser_page.get_by_text("Disabled by Headwater")).to_be_visible()
        await expect(browser_page.get_by_text("5 consecutive 404 errors").first).to_be_visible()
        moved.is_back = True
        await browser_page.get_by_role("button", name="Enable again").click()
        await expect(browser_page.get_by_text("Enabled: its failures are")).to_be_visible()
        await expect(browser_page.get_by_text("Everything is fine.")).to_be_visible()
        await expect(browser_page.get_by_role("link", name="Back again")).to_be_visible()
        await expect(browser_page.get_by_role("button", name="Disable")).to_be_visible()


async def test_poll_now_shows_its_outcome_without_leaving_the_page(
    pages: Visited, browser_page: Page
):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow", "/fresh"))
        await browser_page.goto(page_of(source))
        button = browser_page.get_by_role("button", name="Check now")
        await button.click()
        said = browser_page.get_by_role("status").filter(has_text="Check")
        await expect(said).to_contain_text("Checking…")
        await expect(browser_page.get_by_text("this source, checked right now")).to_be_visible()
        slow.open.set()
        await expect(said).to_contain_text(re.compile(r"Checked: 1 new post\. It took \d"))
        await expect(browser_page.get_by_role("link", name="fresh")).to_be_visible()
        await expect(button).to_be_focused()
    assert "done=" not in browser_page.url


async def test_a_poll_that_fails_shows_the_reason_in_place(pages: Visited, browser_page: Page):
    async with web_of(gone=lambda _: Reply(404)) as web:
        source = await watch(pages, web.url("gone"))
        await browser_page.goto(page_of(source))
        await browser_page.get_by_role("button", name="Check now").click()
        said = browser_page.locator("#poll-said")
        await expect(said).to_contain_text("The check failed: HTTP 404 Not Found from")
        await expect(browser_page.get_by_text("The last check failed.")).to_be_visible()


async def test_without_script_poll_now_returns_with_the_outcome(pages: Visited, browser):
    async with web_of(host=lambda _: feed("one", "two")) as web:
        source = await watch(pages, web.url("host"))
        context = await browser.new_context(base_url=pages.url, java_script_enabled=False)
        page = await context.new_page()
        await page.goto(page_of(source))
        await page.get_by_role("button", name="Check now").click()
        await expect(page.get_by_text("Checked: 2 new posts.")).to_be_visible()
        await context.close()


async def test_an_invalid_setting_is_reported_at_its_field_and_the_rest_is_kept(
    pages: Visited, browser_page: Page
):
    source = await watch(pages, "https://feeds.example.org/news.xml")
    await browser_page.goto(page_of(source))
    await browser_page.get_by_label("Label").fill("What I wrote")
    address = browser_page.get_by_label("Address")
    await address.fill("gopher://example.org/")
    await browser_page.get_by_role("button", name="Save settings").click()
    await expect(browser_page.get_by_role("alert")).to_contain_text("one field needs another value")
    await expect(address).to_have_attribute("aria-invalid", "true")
    await expect(address).to_be_in_viewport()
    await expect(address).to_have_accessible_description(re.compile("use http:// or https://"))
    await expect(address).to_have_value("gopher://example.org/")
    await expect(browser_page.get_by_label("Label")).to_have_value("What I wrote")
    await address.fill("https://feeds.example.org/other.xml")
    await browser_page.get_by_role("button", name="Save settings").click()
    await expect(browser_page.get_by_text("The settings are saved.")).to_be_in_viewport()
    await expect(browser_page.get_by_role("heading", level=1)).to_have_text("What I wrote")


async def test_a_number_out_of_range_is_reported_when_the_field_loses_focus(
    pages: Visited, browser_page: Page
):
    source = await watch(pages, "https://feeds.example.org/news.xml")
    await browser_page.goto(page_of(source))
    interval = browser_page.get_by_label("Interval (minutes)")
    await interval.fill("0")
    await browser_page.get_by_label("Label").focus()
    await expect(interval).to_have_attribute("aria-invalid", "true")
    hint = browser_page.locator("#h-poll_interval_minutes")
    await expect(hint).to_have_class("error")
    await interval.fill("60")
    await browser_page.get_by_label("Label").focus()
    await expect(hint).to_have_text(re.compile("How often the source is polled"))
    await expect(interval).not_to_have_attribute("aria-invalid", "true")


async def test_marks_describe_their_poll_on_hover_and_by_arrow_keys(
    pages: Visited, browser_page: Page
):
    source = await source_of(pages)
    await polled(pages, source)
    await posts_of(pages, source, "one", "two")
    current = await pages.app.store.sources.get(source.id)
    await pages.app.store.record(a_failure(current))
    await browser_page.goto(page_of(source.id))
    marks = browser_page.locator(".poll-mark")
    tips = browser_page.locator(".poll-mark .tip")
    await expect(tips.nth(1)).to_be_hidden()
    await marks.nth(1).hover()
    await expect(tips.nth(1)).to_be_visible()
    await expect(tips.nth(1)).to_contain_text("2 new posts · HTTP 200 · 412 ms")
    await browser_page.mouse.move(0, 0)
    await marks.nth(1).locator("input").focus()
    await browser_page.keyboard.press("ArrowRight")
    await expect(tips.nth(2)).to_be_visible()
    await expect(tips.nth(2)).to_contain_text("timed out after 10 s")


async def test_deleting_asks_for_confirmation(pages: Visited, browser_page: Page):
    source = await watch(pages, "https://feeds.example.org/news.xml", label="Old")
    await browser_page.goto(page_of(source))
    sure = browser_page.get_by_role("button", name="Yes, delete it for good")
    await expect(sure).to_be_hidden()
    await browser_page.get_by_text("Delete…").click()
    await expect(browser_page.get_by_text("This cannot be undone.")).to_be_visible()
    await sure.click()
    await browser_page.wait_for_url("**/podcasts/default/sources?done=source-deleted")
    assert (await pages.get(source)).status == 404


async def test_u4_hostile_texts_are_shown_and_have_no_effect(pages: Visited, browser_page: Page):
    dialogs: list[str] = []
    browser_page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    source = await source_of(pages, label=EVIL)
    await posts_of(pages, source, "one", title=EVIL, url="javascript:alert(3)")
    current = await pages.app.store.sources.get(source.id)
    failure = Failure(FailureType.TRANSIENT, "500", f"HTTP 500 {EVIL}", status=500)
    await pages.app.store.record(a_failure(current, failure))
    await browser_page.goto(page_of(source.id))
    await expect(browser_page.get_by_role("heading", level=1)).to_have_text(EVIL)
    await expect(browser_page.locator("q")).to_have_text(f"HTTP 500 {EVIL}")
    await expect(browser_page.locator("#newest-posts .title")).to_have_text(EVIL)
    assert await browser_page.locator("main script, main img, a[href^=javascript]").count() == 0
    assert dialogs == []
