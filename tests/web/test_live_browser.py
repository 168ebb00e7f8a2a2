"""Pages that update themselves in a real browser, without layout shifts or lost focus."""

import re
from datetime import timedelta

from playwright.async_api import Browser, Locator, Page, expect

from headwater.demo.demo_web import Reply, Request
from headwater.model import Hold
from headwater.operations.users_and_podcasts import add_podcast
from tests.api.scripted_hosts import GatedHost, feed, watch
from tests.api.stored_data import polled, source_of
from tests.system.conftest import web_of
from tests.web.conftest import Visited
from tests.web.test_source_page import page_of

LIST = "/podcasts/default/sources"


async def height(part: Locator) -> float:
    box = await part.bounding_box()
    assert box is not None
    return box["height"]


async def is_live(page: Page) -> None:
    """Whether the page receives live updates."""
    await expect(page.locator("[data-live-state]")).to_have_text("live")


async def test_a_row_keeps_its_height_when_its_source_starts_to_fail(
    pages: Visited, browser_page: Page
):
    page = browser_page
    async with web_of(host=lambda _: Reply(500)) as web:
        source = await watch(pages, web.url("host", "/" + "long" * 50), label="One paper")
        await page.goto(LIST)
        row = page.locator("tbody tr")
        await is_live(page)
        before = await height(row)
        await pages.post(f"{source}/poll")
        await expect(row.locator(".problem")).to_contain_text("HTTP 500")
        await expect(row.locator(".health")).to_have_text("failing")
        assert await height(row) == before


async def test_content_below_the_lanes_stays_when_they_empty(pages: Visited, browser_page: Page):
    page, slow = browser_page, GatedHost()
    async with web_of(slow=slow) as web:
        source = await watch(pages, web.url("slow", "/one"))
        await page.goto(f"{page_of(source)}")
        await page.get_by_role("button", name="Check now").click()
        await slow.asked.wait()
        await page.goto("/hosts")
        await is_live(page)
        now = page.locator("section", has=page.get_by_role("heading", name="Right now"))
        await expect(now.locator(".car.running")).to_be_visible()
        before = await height(now)
        slow.open.set()
        await expect(now).to_contain_text("Nothing is due")
        assert await height(now) >= before


async def test_focus_without_a_name_and_scroll_positions_stay(pages: Visited, browser_page: Page):
    page = browser_page
    async with web_of(host=lambda _: feed("one")) as web:
        source = await watch(pages, web.url("host"), label="The one")
        await page.goto(f"/hosts/{web.address('host')}")
        await is_live(page)
        link = page.get_by_role("link", name="The one")
        await link.focus()
        assert not await link.get_attribute("id")
        await pages.post(f"{source}/poll")
        await expect(page.locator(".health")).to_have_text("fine")
        await expect(link.first).to_be_focused()


async def test_a_selected_poll_stays_selected_when_another_arrives(
    pages: Visited, browser_page: Page
):
    page = browser_page
    async with web_of(host=_numbered()) as web:
        source = await watch(pages, web.url("host"))
        for _ in range(2):
            await pages.post(f"{source}/poll")
        await page.goto(page_of(source))
        await is_live(page)
        await page.locator(".poll-mark").first.click()
        first = page.locator(".poll-mark").first.locator("input")
        await pages.post(f"{source}/poll")
        await expect(page.locator(".poll-mark")).to_have_count(3)
        await expect(first).to_be_checked()
        await expect(first).to_be_focused()


def _numbered():
    numbers = iter(range(100))

    def host(_: Request) -> Reply:
        return feed(f"Story {next(numbers)}")

    return host


async def test_a_countdown_ends_at_now_and_does_not_count_up(pages: Visited, browser_page: Page):
    now = pages.app.clock.now()
    await source_of(pages, host="a.example", last_polled=now)
    pages.service.gates.hold("a.example", Hold(now + timedelta(hours=1), now, "too many requests"))
    await browser_page.route("**/api/events", lambda route: route.abort())  # nothing is updated
    await browser_page.goto("/")
    left = browser_page.locator("#held time")
    await expect(left).to_have_text(re.compile(r"^in \d+ min$"))
    await left.evaluate("(time) => { time.dateTime = '2020-01-01T00:00:00Z'; }")
    await expect(left).to_have_text("now")


async def test_times_are_shown_in_the_time_zone_of_the_viewer(pages: Visited, browser: Browser):
    source = await source_of(pages, label="One")  # polled long ago, at noon UTC
    await polled(pages, source)
    context = await browser.new_context(
        base_url=pages.url, timezone_id="Asia/Kolkata", locale="en-GB"
    )
    page = await context.new_page()
    await page.goto(LIST)
    reported = page.locator(".marks title").first
    await expect(reported).to_have_text(re.compile(r"17:\d\d: nothing new"))
    await page.goto(page_of(source.id))
    mark = page.locator(".poll-mark input").first
    await expect(mark).to_have_attribute("aria-label", re.compile(r"17:\d\d: nothing new"))
    await context.close()


async def test_an_invalid_setting_in_a_collapsed_section_is_shown(
    pages: Visited, browser_page: Page
):
    page = browser_page
    source = await source_of(pages)
    await page.goto(page_of(source.id))
    await page.locator(".more-settings summary").click()
    delay = page.get_by_label("Delay (seconds)")
    await delay.fill("-1")
    await page.locator(".more-settings summary").click()
    await expect(delay).to_be_hidden()
    await page.get_by_role("button", name="Save settings").click()
    await expect(delay).to_be_visible()
    hint = page.locator("#h-poll_delay_seconds")
    await expect(hint).to_have_text(re.compile(r"^Write a whole number from 0 to [\d,]+\.$"))


async def test_the_podcast_menu_keeps_the_screen_and_closes_by_key(
    pages: Visited, browser_page: Page
):
    page, store = browser_page, pages.app.store
    user = await store.accounts.user("default")
    second = await add_podcast(store, user, "Second", pages.app.clock.now())
    await page.goto("/podcasts/default/posts")
    menu = page.locator("details.menu")
    await menu.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(menu.get_by_role("link", name="Second")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu.get_by_role("link", name="Second")).to_be_hidden()
    await expect(menu.locator("summary")).to_be_focused()
    await page.keyboard.press("Enter")
    await menu.get_by_role("link", name="Second").click()
    await page.wait_for_url(f"**/podcasts/{second.id}/posts")


async def test_on_a_phone_every_screen_can_be_reached(pages: Visited, browser_page: Page):
    page = browser_page
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.goto("/nothing")  # where it is needed most
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    names = ["Overview", "Sources", "Posts", "Articles", "Sites", "Accounts"]
    await expect(links).to_have_text(names)
    boxes = [await link.bounding_box() for link in await links.all()]
    places = [(box["x"], box["x"] + box["width"], box["y"]) for box in boxes if box is not None]
    assert all(left >= 0 and right <= 360 for left, right, _ in places)
    assert len({top for *_, top in places}) == 1
    for name in names:
        await links.get_by_text(name, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(links.and_(page.locator("[aria-current=page]"))).to_have_text(name)


async def test_chosen_colours_last_over_pages_whatever_the_system_has(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await page.emulate_media(color_scheme="light")
    await page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(ground)
    choice = page.get_by_label("Colours")
    await choice.select_option("dark")
    dark = await page.evaluate(ground)
    assert dark != light
    await page.goto("/accounts")
    assert await page.evaluate(ground) == dark
    await expect(choice).to_have_value("dark")
    await choice.select_option("as the system")
    assert await page.evaluate(ground) == light
    await page.reload()
    assert await page.evaluate(ground) == light
