"""First use in a real browser: empty database, add, preview, poll, posts; and OPML import."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.async_api import Browser, FilePayload, Page, expect

from headwater.demo.demo_web import Reply, Request
from tests.api.conftest import settings_in
from tests.api.scripted_hosts import RSS, GatedHost, running, watch
from tests.api.test_opml import a_list
from tests.system.conftest import rss, web_of
from tests.web.conftest import Visited, findings, visiting
from tests.web.test_add_source_page import ADD, EVIL, LINKS, page, sources_of

IMPORT = "/podcasts/default/import"


def journal(request: Request) -> Reply:
    """A site whose front page links two feeds, one of which has recent entries."""
    if request.path == "/":
        return page(LINKS)
    now = datetime.now(UTC)
    entries = [
        (f"Story {n}", f"What happened in story {n}.", now - timedelta(hours=5 * n + 1))
        for n in range(12)
    ]
    return Reply(200, rss("The Journal", *entries), RSS)


async def preview(browser_page: Page, url: str) -> None:
    """Paste an address and open its preview."""
    await browser_page.goto(ADD)
    await browser_page.get_by_label("Address of a feed").fill(url)
    await browser_page.get_by_role("button", name="Preview").click()


def opml_file(content: bytes) -> FilePayload:
    """An upload as a user selects it."""
    return {"name": "reader.opml", "mimeType": "text/x-opml", "buffer": content}


async def test_from_an_empty_database_to_the_first_posts(pages: Visited, browser_page: Page):
    async with web_of(journal=journal) as web, running(pages):
        await browser_page.goto("/")
        await expect(browser_page.get_by_role("heading", level=1)).to_be_visible()
        add = browser_page.locator('a[href="/podcasts/default/add"]').first
        await add.click()
        await browser_page.get_by_label("Address of a feed").fill(web.url("journal", "/"))
        await browser_page.keyboard.press("Enter")

        await expect(browser_page.get_by_text("2 feeds found on this page")).to_be_visible()
        await browser_page.get_by_role("button", name="Preview this feed").first.click()

        include = browser_page.get_by_label("Include the 12 existing posts")
        await expect(include).to_be_checked()  # J3
        await expect(browser_page.get_by_text("12 of 12 entries")).to_be_visible()
        skipped = browser_page.get_by_text("12 older entries skipped: published before you added")
        await expect(skipped).to_be_hidden()
        await include.uncheck()
        await expect(browser_page.get_by_text("0 of 12 entries")).to_be_visible()
        await expect(skipped).to_be_visible()
        await include.check()
        await browser_page.get_by_role("button", name="Add", exact=True).click()

        await expect(browser_page).to_have_url(re.compile(r"/podcasts/default/sources/[0-9a-f-]+"))
        await expect(browser_page.get_by_text("is its first check")).to_be_visible()
        assert len(web.visits) == 2  # J2: the page and the feed, each by its preview
        await expect(browser_page.get_by_text("Everything is fine.")).to_be_visible()  # live
        await expect(browser_page.get_by_text("Story 0", exact=True).first).to_be_visible()
        await browser_page.get_by_role("navigation").get_by_role("link", name="Posts").click()
        for n in range(12):
            await expect(browser_page.get_by_text(f"Story {n}", exact=True).first).to_be_visible()
    (source,) = await sources_of(pages)
    assert source.label == "The Journal"


async def test_j3_a_source_that_exists_meanwhile_is_added_after_confirmation(
    pages: Visited, browser_page: Page
):
    async with web_of(journal=journal) as web:
        url = web.url("journal", "/feed.xml")
        await preview(browser_page, url)
        there = await watch(pages, url)
        await browser_page.get_by_role("button", name="Add", exact=True).click()
        asked = browser_page.get_by_role("heading", name="You already have this source")
        await expect(asked).to_be_visible()
        link = browser_page.get_by_role("link", name="show the source")
        assert (await link.get_attribute("href") or "").endswith(there.rpartition("/")[2])
        assert await findings(browser_page) == []
        assert len(await sources_of(pages)) == 1
        await browser_page.get_by_role("button", name="Add it once more").click()
        await expect(browser_page).to_have_url(re.compile(r"/podcasts/default/sources/[0-9a-f-]+"))
        assert len(web.visits) == 1
    assert [source.url for source in await sources_of(pages)] == [url, url]


async def test_the_empty_overview_accepts_an_address(pages: Visited, browser_page: Page):
    async with web_of(journal=journal) as web:
        await browser_page.goto("/")
        await browser_page.get_by_label(re.compile("Address of a feed")).fill(web.url("journal"))
        await browser_page.keyboard.press("Enter")
        await expect(browser_page.get_by_role("heading", name="The Journal")).to_be_visible()
    assert pages.url in browser_page.url


async def test_a_slow_preview_shows_progress_and_is_requested_once(
    pages: Visited, browser_page: Page
):
    slow = GatedHost()
    async with web_of(slow=slow) as web:
        await browser_page.goto(ADD)
        await browser_page.get_by_label("Address of a feed").fill(web.url("slow", "/patience"))
        await browser_page.evaluate(
            """addEventListener("submit", (event) => setTimeout(() =>
                sessionStorage.setItem("said", event.submitter.textContent)))"""
        )
        await browser_page.get_by_role("button", name="Preview").dblclick(no_wait_after=True)
        await slow.asked.wait()
        slow.open.set()
        await expect(browser_page.get_by_role("link", name="patience", exact=True)).to_be_visible()
        assert await browser_page.evaluate("sessionStorage.getItem('said')") == "Looking…"
        assert len(web.visits) == 1
    assert await sources_of(pages) == []


async def test_invalid_input_can_be_corrected_in_place(pages: Visited, browser_page: Page):
    def moved(request: Request) -> Reply:
        return journal(request) if request.path in ("/", "/feed.xml") else Reply(404)

    async with web_of(moved=moved) as web:
        await preview(browser_page, web.url("moved", "/old/rss"))
        trouble = browser_page.get_by_role("alert")
        await expect(trouble.get_by_role("heading")).to_have_text(
            "There is nothing at this address"
        )
        await browser_page.get_by_role("button", name="Start from the front page").click()
        await expect(browser_page.get_by_text("2 feeds found on this page")).to_be_visible()
    assert await sources_of(pages) == []


async def test_u4_hostile_titles_and_links_have_no_effect_in_a_preview(
    pages: Visited,
    browser_page: Page,
):
    dialogs: list[str] = []
    browser_page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    async with web_of(evil=_hostile) as web:
        await preview(browser_page, web.url("evil"))
        entry = browser_page.get_by_role("heading", level=3)
        await expect(entry).to_have_text(EVIL)
        # javascript: is not a link: the address of the feed takes its place
        await expect(entry.get_by_role("link")).to_have_attribute("href", web.url("evil"))
        await expect(browser_page.get_by_label("Label")).to_have_value(EVIL)
        await expect(browser_page.get_by_role("heading", level=2).first).to_have_text(EVIL)
        assert await browser_page.locator("img[src=x]").count() == 0
    assert dialogs == []


def _hostile(_: Request) -> Reply:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    # escaped twice: a feed's titles are HTML, of which the text is used
    title = EVIL.replace("&", "&amp;amp;").replace("<", "&amp;lt;").replace(">", "&amp;gt;")
    document = rss("host", (title, f"Body {title}", ahead)).decode()
    link = re.compile(r"<link>.*?</link>", re.DOTALL)
    named = document.replace("<title>host<", f"<title>{title}<", 1)
    return Reply(200, link.sub("<link>javascript:alert(3)</link>", named).encode(), RSS)


async def test_a_list_is_imported_by_file(pages: Visited, browser_page: Page):
    file = a_list("https://a.example/feed", "https://b.example/feed", "ftp://c.example/feed")
    await browser_page.goto(IMPORT)
    await browser_page.get_by_label("Choose an OPML file").set_input_files(opml_file(file))
    await expect(browser_page.get_by_text("reader.opml")).to_be_visible()
    await browser_page.get_by_role("button", name="Import", exact=True).click()
    outcome = browser_page.get_by_role("status").filter(has_text="The list is imported")
    await expect(outcome.get_by_role("listitem").filter(has_text="added")).to_contain_text("2")
    await expect(outcome).to_contain_text("ftp: URLs are not supported")
    await outcome.get_by_role("link", name="a.example/feed").click()
    await expect(browser_page.get_by_role("heading", level=1)).to_be_visible()
    assert [source.label for source in await sources_of(pages)] == ["Feed 0", "Feed 1"]


async def test_a_list_can_be_dropped_anywhere_on_the_page(pages: Visited, browser_page: Page):
    await browser_page.goto(IMPORT)
    text = a_list("https://a.example/feed").decode()
    dropped = await browser_page.evaluate_handle(
        """(text) => {
            const list = new DataTransfer();
            list.items.add(new File([text], "dropped.opml", { type: "text/x-opml" }));
            return list;
        }""",
        text,
    )
    heading = browser_page.get_by_role("heading", level=1)
    await heading.dispatch_event("dragenter", {"dataTransfer": dropped})
    await expect(browser_page.locator(".import-drop.over")).to_be_visible()
    await heading.dispatch_event("drop", {"dataTransfer": dropped})
    await expect(browser_page.get_by_text("dropped.opml")).to_be_visible()
    await browser_page.get_by_label("Check what is added right away").check()
    await browser_page.get_by_role("button", name="Import", exact=True).click()
    await expect(browser_page.get_by_text("Checks are requested")).to_be_visible()
    (source,) = await sources_of(pages)
    assert source.requested_at is not None


async def test_u8_a_file_that_is_too_large_is_not_sent(browser: Browser, tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-request-bytes": 1_000_000})
    async for pages in visiting(settings):
        page = await browser.new_page(base_url=pages.url)
        await page.goto(IMPORT)
        chooser = page.get_by_label("Choose an OPML file")
        await chooser.set_input_files(opml_file(b"x" * 2_000_000))
        await expect(page.get_by_role("alert")).to_contain_text("1.9 MB; a list may have 0.9 MB")
        await expect(page.get_by_text("Choose an OPML file")).to_be_visible()
        assert await chooser.input_value() == ""
        await page.close()
