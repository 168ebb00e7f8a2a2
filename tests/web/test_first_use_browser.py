"""The first use in a real browser: nothing there, add, preview, poll, posts; and a list by file."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.async_api import Browser, FilePayload, Page, expect

from headwater.demo import Reply, Request
from tests.api.conftest import settings_in
from tests.api.test_opml import a_list
from tests.api.watching import RSS, Doorman, running
from tests.system.conftest import rss, web_of
from tests.web.conftest import Visited, visiting
from tests.web.test_adding import ADD, EVIL, LINKS, page, sources_of

IMPORT = "/podcasts/default/import"


def journal(request: Request) -> Reply:
    """A site whose front page names two feeds, of which one has entries of the last days."""
    if request.path == "/":
        return page(LINKS)
    now = datetime.now(UTC)
    entries = [
        (f"Story {n}", f"What happened in story {n}.", now - timedelta(hours=5 * n + 1))
        for n in range(12)
    ]
    return Reply(200, rss("The Journal", *entries), RSS)


async def preview(browser_page: Page, url: str) -> None:
    """Paste an address and look at what is there."""
    await browser_page.goto(ADD)
    await browser_page.get_by_label("Address of a feed").fill(url)
    await browser_page.get_by_role("button", name="Preview").click()


def opml_file(content: bytes) -> FilePayload:
    """A file as a person chooses it."""
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

        skipped = browser_page.get_by_text("12 older entries skipped: published before you added")
        await expect(skipped).to_be_visible()
        await expect(browser_page.get_by_text("0 of 12 entries")).to_be_visible()
        await browser_page.get_by_label("Include the 12 older entries").check()
        await expect(browser_page.get_by_text("12 of 12 entries")).to_be_visible()
        await expect(skipped).to_be_hidden()
        await browser_page.get_by_role("button", name="Add and poll now").click()

        await expect(browser_page).to_have_url(re.compile(r"/podcasts/default/sources/[0-9a-f-]+"))
        await expect(browser_page.get_by_text("Added. It is being polled")).to_be_visible()
        await expect(browser_page.get_by_text("Everything is fine.")).to_be_visible()  # live
        await expect(browser_page.get_by_text("Story 0", exact=True).first).to_be_visible()
        await browser_page.get_by_role("navigation").get_by_role("link", name="Posts").click()
        for n in range(12):
            await expect(browser_page.get_by_text(f"Story {n}", exact=True).first).to_be_visible()
    (source,) = await sources_of(pages)
    assert source.label == "The Journal"


async def test_the_empty_overview_takes_an_address_itself(pages: Visited, browser_page: Page):
    async with web_of(journal=journal) as web:
        await browser_page.goto("/")
        await browser_page.get_by_label(re.compile("Address of a feed")).fill(web.url("journal"))
        await browser_page.keyboard.press("Enter")
        await expect(browser_page.get_by_role("heading", name="The Journal")).to_be_visible()
    assert pages.url in browser_page.url


async def test_a_slow_visit_says_so_and_impatience_asks_nobody_twice(
    pages: Visited, browser_page: Page
):
    slow = Doorman()
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


async def test_what_is_wrong_can_be_mended_in_place(pages: Visited, browser_page: Page):
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


async def test_u4_hostile_titles_and_links_do_nothing_in_a_preview(
    pages: Visited,
    browser_page: Page,
):
    dialogs: list[str] = []
    browser_page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    async with web_of(evil=_hostile) as web:
        await preview(browser_page, web.url("evil"))
        entry = browser_page.get_by_role("heading", level=3)
        await expect(entry).to_have_text(EVIL)
        await expect(entry.get_by_role("link")).to_have_count(0)  # javascript: is no link
        await expect(browser_page.get_by_label("Label")).to_have_value(EVIL)
        await expect(browser_page.get_by_role("heading", level=2).first).to_have_text(EVIL)
        assert await browser_page.locator("img[src=x]").count() == 0
    assert dialogs == []


def _hostile(_: Request) -> Reply:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    # twice escaped: a feed's titles are HTML, of which the text is taken
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


async def test_a_list_is_dropped_anywhere_on_the_page(pages: Visited, browser_page: Page):
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
    await browser_page.get_by_label("Poll what is added right away").check()
    await browser_page.get_by_role("button", name="Import", exact=True).click()
    await expect(browser_page.get_by_text("Polls are asked for")).to_be_visible()
    (source,) = await sources_of(pages)
    assert source.requested_at is not None


async def test_u8_a_file_that_is_too_large_is_not_even_sent(browser: Browser, tmp_path: Path):
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
