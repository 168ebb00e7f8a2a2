"""Accessibility: axe checks every screen in light, in dark and on a phone."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from headwater.demo.demo_web import DemoWeb, Reply, Request
from headwater.model import Hold
from headwater.operations.users_and_podcasts import add_podcast
from tests.api.conftest import settings_in
from tests.api.scripted_hosts import feed, watch
from tests.api.stored_data import articles_of, failed, polled, posts_of, source_of
from tests.api.test_opml import a_list
from tests.store.store_data import stored
from tests.system.conftest import web_of
from tests.web.conftest import Visited, findings, visiting
from tests.web.test_first_use_browser import journal, opml_file
from tests.web.test_source_page import page_of
from tests.web.test_watching_browser import posts_of_day
from tests.web.watched_pages import PageOfDay

pytestmark = pytest.mark.asyncio(loop_scope="module")
OWN = "/podcasts/default"
PHONE_WIDTH = 360
LONG = "a-word-that-does-not-end-" * 8


@dataclass
class Dashboards:
    """Dashboards that are empty, filled, and behind a login."""

    empty: Visited
    filled: Visited
    locked: Visited
    web: DemoWeb
    admin: str  # tokens of `locked`
    anna: str
    fine: str  # pages of sources of `filled`
    failing: str
    disabled: str
    noisy: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_page(browser: Browser) -> AsyncIterator[Page]:
    """One browser page for all screens: there are many."""
    page = await browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    assert errors == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dashboards]:
    """The three dashboards, and a web that they visit."""
    folders = [tmp_path_factory.mktemp(name) for name in ("empty", "filled", "locked")]
    noisy = PageOfDay("counter")
    scripts: dict[str, Callable[[Request], Any]] = {
        "gazette": noisy,
        "journal": journal,
        "gone": lambda _: Reply(404),
        "good": lambda _: feed("one"),
    }
    async with web_of(**scripts) as web:
        async for empty in visiting(settings_in(folders[0])):
            async for filled in visiting(settings_in(folders[1])):
                async for locked in visiting(settings_in(folders[2])):
                    sources = await fill(filled, web, noisy)
                    locked.service.guard.kind = "DNS"
                    locked.service.guard.since = locked.app.clock.now()
                    await locked.service.pause(paused=True)
                    admin, anna = await locked.admin(), await locked.person("anna")
                    yield Dashboards(empty, filled, locked, web, admin, anna, *sources)


async def fill(pages: Visited, web: DemoWeb, page: PageOfDay) -> tuple[str, str, str, str]:
    """Objects of every kind, with very long texts; pages of four sources."""
    store, now = pages.app.store, pages.app.clock.now()
    user = await store.accounts.user("default")
    second = await add_podcast(store, user, f"Second {LONG[:150]}", now)
    await stored(store, podcast_id=second.id, last_polled=now)
    await source_of(pages, host="a.example", last_polled=now - timedelta(days=1))
    pages.service.gates.hold("a.example", Hold(now + timedelta(hours=1), now, LONG * 3))
    fine = await source_of(pages, label="The fine one", host=f"{LONG}.example")
    await polled(pages, fine)
    await posts_of(pages, fine, "short", "long " * 200, title=LONG, author=LONG)
    await articles_of(pages)
    await posts_of(pages, fine, "one more")
    failing = await source_of(pages, label=LONG, url=f"https://h.example/{LONG}")
    for _ in range(3):
        await failed(pages, failing)
    disabled = await watch(pages, web.url("gone", f"/{LONG}"), maxFailures=1)
    await pages.post(f"{disabled}/poll")
    await pages.post(f"{await watch(pages, web.url('good'))}/poll")
    noisy = await watch(pages, web.url("gazette", "/"), type="website", label=LONG)
    await posts_of_day(pages, noisy, page, range(3))  # W6
    return page_of(fine.id), page_of(failing.id), page_of(disabled), page_of(noisy)


Way = Callable[[Page, Dashboards], Awaitable[None]]


def at(path: str, state: str = "filled") -> Way:
    """A function that opens a page by its URL."""

    async def go(page: Page, stage: Dashboards) -> None:
        await page.goto(getattr(stage, state).url + path)

    return go


def source(name: str) -> Way:
    """A function that opens the page of a source with everything expanded."""

    async def go(page: Page, stage: Dashboards) -> None:
        await page.goto(stage.filled.url + getattr(stage, name))
        await page.locator(".more-settings summary").click()
        await page.locator(".confirm-delete summary").click()

    return go


async def chosen_sources(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/sources")(page, stage)
    await page.locator("tbody input").first.check()
    await page.get_by_role("button", name="Set interval").click()
    await expect(page.get_by_role("alert")).to_be_visible()


async def question(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/sources")(page, stage)
    await page.get_by_label("Choose all on this page").check()
    await page.get_by_role("button", name="Delete …").click()
    await expect(page.get_by_role("button", name="Delete 6 sources")).to_be_visible()


async def wrong_settings(page: Page, stage: Dashboards) -> None:
    await page.goto(stage.filled.url + stage.fine)
    await page.get_by_label("Address").fill("gopher://example.org/")
    await page.get_by_role("button", name="Save settings").click()
    await expect(page.get_by_role("alert")).to_be_visible()


def preview(name: str, path: str, seen: str) -> Way:
    """A function that opens the preview of an address."""

    async def go(page: Page, stage: Dashboards) -> None:
        await at(f"{OWN}/add")(page, stage)
        await page.get_by_label("Address of a feed").fill(stage.web.url(name, path))
        await page.keyboard.press("Enter")
        await expect(page.get_by_text(seen).first).to_be_visible()

    return go


async def parts_of_source(page: Page, stage: Dashboards) -> None:
    await page.goto(stage.filled.url + stage.noisy)
    await page.get_by_role("button", name="Choose parts").click()
    await expect(page.get_by_role("heading", name="Parts of the page")).to_be_visible()


async def changes_of_page(page: Page, stage: Dashboards) -> None:
    await page.goto(stage.filled.url + stage.noisy)
    await page.get_by_role("link", name="what changed").first.click()
    await expect(page.locator("ins").nth(1)).to_be_visible()


async def parts_to_add(page: Page, stage: Dashboards) -> None:
    await preview("gazette", "/today", "Parts of the page")(page, stage)
    await page.get_by_role("button", name="Only h1").click()
    await expect(page.locator('.part[value="article"]')).to_have_attribute("aria-pressed", "mixed")


async def existing_source(page: Page, stage: Dashboards) -> None:
    await preview("good", "/feed.xml", "You already have this source")(page, stage)
    await page.get_by_text("Add it once more").first.click()
    await expect(page.get_by_role("button", name="Add it once more")).to_be_visible()


async def import_result(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/import", "empty")(page, stage)
    file = opml_file(a_list("ftp://a.example/", "no address"))
    await page.get_by_label("Choose an OPML file").set_input_files(file)
    await page.get_by_role("button", name="Import", exact=True).click()
    await expect(page.get_by_role("heading", name="Rejected")).to_be_visible()


async def opened_notices(page: Page, stage: Dashboards) -> None:
    """The notifications page with a channel, everything opened."""
    await at("/users/default/notices")(page, stage)
    await page.get_by_text("ntfy, for a phone").click()
    await page.get_by_label("Topic").fill("https://ntfy.sh/a-name-nobody-guesses")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")


async def opened_webhook(page: Page, stage: Dashboards) -> None:
    """The page of a webhook with a message, everything opened."""
    await at("/webhooks")(page, stage)
    await page.get_by_label("Address").fill(f"https://h.invalid/{LONG}")
    await page.get_by_role("button", name="Add the webhook").click()
    await page.get_by_role("link", name="Test it").click()
    await page.get_by_role("button", name="Send a test message").click()
    await page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    await expect(page.get_by_text("webhook-id")).to_be_visible()


async def opened_accounts(page: Page, stage: Dashboards) -> None:
    await log_in(page, stage.locked, stage.admin, "/accounts")
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


async def open_post(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/posts")(page, stage)
    await page.locator(".posts .title a").first.click()
    await expect(page.locator("#reading .title")).to_be_visible()


async def post_page(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/posts")(page, stage)
    path = await page.locator(".posts .title a").first.get_attribute("href")
    await at(path or "")(page, stage)


async def shown_effect(page: Page, stage: Dashboards) -> None:
    await at(f"{OWN}/filters")(page, stage)
    await page.get_by_label("Keep only posts that match").fill("bank OR")
    await page.get_by_label("Hide posts that match").fill("short OR long OR more")
    await page.get_by_role("button", name="Show effect").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Keep only posts that match").fill("")
    await page.get_by_role("button", name="Show effect").click()
    await expect(page.get_by_text("would be hidden").first).to_be_visible()


async def refused_login(page: Page, stage: Dashboards) -> None:
    await log_in(page, stage.locked, "not a token", "/")
    await expect(page.get_by_role("alert")).to_be_visible()


async def forbidden(page: Page, stage: Dashboards) -> None:
    await log_in(page, stage.locked, stage.anna, "/")
    await send(page, {"switch": "pause"})
    await expect(page.get_by_role("heading", name="You are not allowed to do this")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()


async def wrong_form(page: Page, stage: Dashboards) -> None:
    await at("/")(page, stage)
    await send(page, {"switch": LONG})
    await expect(page.get_by_role("heading", name="That cannot be done")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()


async def log_in(page: Page, pages: Visited, token: str, path: str) -> None:
    await page.goto(f"{pages.url}{path}")
    await page.get_by_label("Access token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def send(page: Page, fields: dict[str, str]) -> None:
    """Send a form that no page offers, to pause the scheduler."""
    async with page.expect_navigation():
        await page.evaluate(
            """(fields) => {
                const form = document.createElement("form");
                Object.assign(form, { method: "post", action: "/scheduler" });
                for (const [name, value] of Object.entries(fields)) {
                    form.append(Object.assign(document.createElement("input"), { name, value }));
                }
                document.body.append(form);
                form.submit();
            }""",
            fields,
        )


SCREENS: dict[str, Way] = {
    "overview, empty": at("/", "empty"),
    "overview": at("/"),
    "overview of a day": at("/?span=day"),
    "sources, empty": at(f"{OWN}/sources", "empty"),
    "sources": at(f"{OWN}/sources"),
    "sources, filtered": at(f"{OWN}/sources?q=word&health=failing"),
    "sources, none fits": at(f"{OWN}/sources?q=nothing"),
    "sources, chosen": chosen_sources,
    "sources, asked": question,
    "source, fine": source("fine"),
    "source, failing": source("failing"),
    "source, disabled": source("disabled"),
    "source, refused settings": wrong_settings,
    "source, noise": source("noisy"),
    "source, watched parts": parts_of_source,
    "post, what changed": changes_of_page,
    "add": at(f"{OWN}/add"),
    "add, feeds found": preview("journal", "/", "2 feeds found on this page"),
    "add, entries found": preview("journal", "/feed.xml", "12 of 12 entries"),
    "add, parts of a page": parts_to_add,
    "add, exists": existing_source,
    "add, trouble": preview("gone", "/", "There is nothing at this address"),
    "import": at(f"{OWN}/import"),
    "import, done": import_result,
    "sites, empty": at("/hosts", "empty"),
    "hosts": at("/hosts"),
    "host": at("/hosts/a.example"),
    "posts, empty": at(f"{OWN}/posts", "empty"),
    "posts": at(f"{OWN}/posts"),
    "posts, reading": open_post,
    "post": post_page,
    "posts, found": at(f"{OWN}/posts?q=the&processed=false"),
    "posts, none matches": at(f"{OWN}/posts?q=nothingatall"),
    "posts, wrong query": at(f"{OWN}/posts?q=("),
    "hidden posts": at(f"{OWN}/posts?filtered=only"),
    "filters": shown_effect,
    "help on queries": at("/searching"),
    "articles, empty": at(f"{OWN}/articles", "empty"),
    "articles": at(f"{OWN}/articles"),
    "articles, none matches": at(f"{OWN}/articles?q=nothingatall"),
    "articles, wrong query": at(f"{OWN}/articles?q=("),
    "accounts": at("/accounts"),
    "accounts, all opened": opened_accounts,
    "notifications": opened_notices,
    "webhooks": at(f"{OWN}/webhooks"),
    "webhooks of all podcasts": at("/webhooks"),
    "webhook": opened_webhook,
    "login": at("/", "locked"),
    "login, refused": refused_login,
    "error 404": at("/nothing"),
    "error 403": forbidden,
    "error 422": wrong_form,
}


@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_is_accessible(shared_page: Page, stage: Dashboards, screen: str):
    await shared_page.context.clear_cookies()
    await shared_page.set_viewport_size({"width": 1280, "height": 900})
    # without motion: no colour transition is running
    await shared_page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await SCREENS[screen](shared_page, stage)
    assert await findings(shared_page) == []
    await shared_page.emulate_media(color_scheme="dark")  # other colours, otherwise the same
    assert await findings(shared_page, "color-contrast") == []
    await shared_page.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    assert await findings(shared_page) == []
    assert await shared_page.evaluate(_BEYOND) == []


# elements that make the page wider than the phone, so that it scrolls sideways
_BEYOND = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.body.querySelectorAll("*")]
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => e.outerHTML.slice(0, 200))"""
