"""The list of sources in a real browser: live, by keyboard, on a phone, with hostile text."""

from dataclasses import replace

from playwright.async_api import Page, expect

from tests.api.scripted_hosts import feed, watch
from tests.api.stored_data import failed, polled, source_of
from tests.store.store_data import a_failure
from tests.system.conftest import web_of
from tests.web.conftest import Visited

LIST = "/podcasts/default/sources"
PHONE = {"width": 390, "height": 844}


async def test_chosen_sources_are_disabled_and_then_deleted(pages: Visited, browser_page: Page):
    page = browser_page
    for name in ("one paper", "two papers", "three"):
        await source_of(pages, label=name)
    await page.goto(LIST)
    await page.get_by_label("Choose one paper").check()
    await page.get_by_label("Choose three").check()
    await page.get_by_role("button", name="Disable").click()
    await expect(page.get_by_role("status").first).to_contain_text("Sources disabled: 2.")
    await expect(page.locator(".health.disabled")).to_have_count(2)

    await page.get_by_label("Choose all on this page").check()
    await page.get_by_label("Choose two papers").uncheck()
    await page.get_by_role("button", name="Delete …").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Delete 2 sources?")
    await page.get_by_role("link", name="Keep them").click()
    await expect(page.locator("tbody tr")).to_have_count(3)

    await page.get_by_role("searchbox").fill("Paper")
    await page.get_by_role("button", name="Find").click()
    await page.get_by_label("all 2 sources that match").check()
    await page.get_by_role("button", name="Delete …").click()
    await page.get_by_role("button", name="Delete 2 sources").click()
    await expect(page.get_by_role("status").first).to_have_text("Sources deleted: 2.")
    await page.get_by_role("link", name="Clear filters").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody .title")).to_have_text("three")


async def test_a_finished_poll_shows_without_a_reload(pages: Visited, browser_page: Page):
    page = browser_page
    async with web_of(host=lambda _: feed("one", "two")) as web:
        source = await watch(pages, web.url("host"), label="Live one")
        await source_of(pages, label="Other")
        await page.goto(LIST)
        row = page.locator("tbody tr", has_text="Live one")
        await expect(row.locator(".health")).to_have_text("new")
        await expect(page.locator("[data-live-state]")).to_have_text("live")
        await page.evaluate("window.notReloaded = true")
        await page.get_by_label("Choose Other").check()
        assert (await pages.post(f"{source}/poll")).json["newPosts"] == 2
        await expect(row.locator(".health")).to_have_text("fine")
        await expect(row.locator("td").last).to_have_text("2")
        await expect(row.get_by_role("img")).to_have_attribute(
            "aria-label", "the last check, which did not fail"
        )
    assert await page.evaluate("window.notReloaded")
    await expect(page.get_by_label("Choose Other")).to_be_checked()  # a selection is not lost


async def test_hostile_text_is_shown_and_has_no_effect(pages: Visited, browser_page: Page):
    page = browser_page
    evil = "<img src=x onerror=window.harmed=1><script>window.harmed=1</script>"
    source = await source_of(pages, label=evil, url=f"https://h.example/{evil}")
    outcome = a_failure(source)
    assert outcome.failure is not None
    failure = replace(outcome.failure, message=evil)
    after = replace(outcome.source, last_error=evil)
    await pages.app.store.record(replace(outcome, failure=failure, source=after))
    await source_of(pages, label="javascript link", url="javascript:window.harmed=1")
    await page.goto(LIST)
    await expect(page.get_by_role("link", name=evil)).to_be_visible()
    await expect(page.locator(".problem")).to_have_text(evil)
    assert await page.locator("main img, main script").count() == 0
    assert await page.locator('a[href^="javascript:"]').count() == 0
    await page.get_by_label(f"Choose {evil}").check()
    await page.get_by_role("button", name="Delete …").click()
    await expect(page.get_by_text(evil)).to_be_visible()
    assert await page.evaluate("window.harmed") is None


async def test_the_keyboard_reaches_filters_rows_and_actions_in_this_order(
    pages: Visited, browser_page: Page
):
    page = browser_page
    source = await source_of(pages, label="one", url="https://h.example/", host="h.example")
    await page.goto(LIST)
    seen: list[str] = []
    for _ in range(40):
        await page.keyboard.press("Tab")
        seen.append(
            await page.evaluate(
                """() => { const e = document.activeElement;
                return e.getAttribute("aria-label") || e.textContent.trim() }"""
            )
        )
        if seen[-1] == "Delete …":
            break
    wanted = [
        "Skip to content", "Search label or URL", "Health", "Type", "Site", "Order", "Find",
        "Choose all on this page", "Choose one", "one", "h.example", "Check now", "Enable",
        "Disable", "New interval in minutes", "Set interval", "Delete …",
    ]  # fmt: skip
    assert [text for text in seen if text in wanted] == wanted
    focused = page.locator(":focus-visible")
    assert await focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    await page.get_by_label("Choose one").focus()
    await page.keyboard.press("Space")
    await page.get_by_role("button", name="Disable").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text("Sources disabled: 1.")
    assert not (await pages.app.store.sources.get(source.id)).enabled


async def test_it_works_without_script(pages: Visited, browser_page: Page):
    await source_of(pages, label="one")
    browser = browser_page.context.browser
    assert browser is not None
    context = await browser.new_context(base_url=pages.url, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(LIST)
    await page.locator("tbody input").check()
    await page.locator("button", has_text="Delete …").click()
    await page.locator("button", has_text="Delete 1 source").click()
    await expect(page.locator(".banner.good")).to_have_text("Sources deleted: 1.")
    await expect(page.locator("h2")).to_have_text("There are no sources yet")
    await context.close()


async def test_a_phone_shows_cards_that_fit(pages: Visited, browser_page: Page):
    page = browser_page
    long = "a-word-that-does-not-end" * 10
    source = await source_of(pages, label=long, url=f"https://h.example/{long}", host=f"{long}.org")
    await failed(pages, source)
    await polled(pages, await source_of(pages, label="short"))
    await page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    await page.goto(LIST)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    table = page.locator("table.sources")
    assert await table.evaluate("t => t.scrollWidth <= t.parentElement.clientWidth")
    await expect(page.locator("tbody tr").first.locator("td.next")).to_be_visible()
