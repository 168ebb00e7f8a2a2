"""The overview in a real browser: it updates itself."""

import re
from datetime import timedelta

from playwright.async_api import Page, expect

from headwater.demo.demo_web import Reply
from headwater.model import Hold
from tests.api.scripted_hosts import feed, running, watch
from tests.api.stored_data import source_of
from tests.system.conftest import web_of
from tests.web.conftest import Visited


async def test_numbers_charts_and_lists_update_without_a_reload(pages: Visited, browser_page: Page):
    good, gone = (lambda _: feed("one", "two")), (lambda _: Reply(404))
    async with web_of(good=good, gone=gone) as web, running(pages):
        await browser_page.goto("/")
        await expect(browser_page.get_by_text("There are no sources yet")).to_be_visible()
        await browser_page.evaluate("window.same = true")
        source = await watch(pages, web.url("good"), label="The good one")
        await pages.post(f"{source}/poll")
        fine = browser_page.locator("#tile-ok b")
        await expect(fine).to_have_text("1")
        await expect(browser_page.locator("#charts")).to_contain_text("2 in the last hour")
        lost = await watch(pages, web.url("gone"), label="The lost one")
        await pages.post(f"{lost}/poll")
        await expect(browser_page.locator("#tile-failing b")).to_have_text("1")
        await expect(browser_page.locator("#failures")).to_contain_text("The lost one")
        assert await browser_page.evaluate("window.same") is True


async def test_keyboard_focus_stays_while_parts_refresh(pages: Visited, browser_page: Page):
    async with web_of(good=lambda _: feed("one")) as web, running(pages):
        source = await watch(pages, web.url("good"))
        await pages.post(f"{source}/poll")
        await browser_page.goto("/")
        await browser_page.locator("#tile-ok").focus()
        await watch(pages, web.url("good", "/another"))
        await pages.post(f"{source}/poll")
        await expect(browser_page.locator("#tile-new b")).to_have_text("1")
        await expect(browser_page.locator("#tile-ok")).to_be_focused()


async def test_polling_is_paused_and_resumed_with_a_button(pages: Visited, browser_page: Page):
    await source_of(pages, last_polled=pages.app.clock.now())
    await browser_page.goto("/")
    await browser_page.get_by_role("button", name="Pause checking").click()
    await expect(
        browser_page.get_by_text("Checking is paused: only manual checks run.")
    ).to_be_visible()
    assert pages.service.paused
    await browser_page.get_by_role("button", name="Resume checking").click()
    await expect(browser_page.get_by_text("Checking continues")).to_be_visible()
    assert not pages.service.paused


async def test_a_hold_is_counted_down(pages: Visited, browser_page: Page):
    now = pages.app.clock.now()
    await source_of(pages, host="a.example", last_polled=now)
    pages.service.gates.hold(
        "a.example", Hold(now + timedelta(seconds=50), now, "too many requests")
    )
    await browser_page.goto("/")
    left = browser_page.locator("#held time")
    await expect(left).to_have_text(re.compile(r"^in \d+ s$"))
    first = await left.inner_text()
    await expect(left).not_to_have_text(first)
