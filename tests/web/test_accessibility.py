"""Nothing keeps anybody out: every screen in light, in dark and on a phone, under axe's eyes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from headwater.demo import DemoWeb, Reply
from headwater.model import Hold
from headwater.operations.people import add_podcast
from tests.api.conftest import settings_in
from tests.api.filling import articles_of, failed, polled, posts_of, source_of
from tests.api.test_opml import a_list
from tests.api.watching import feed, watch
from tests.store.pieces import stored
from tests.system.conftest import web_of
from tests.web.conftest import Visited, chromium, visiting
from tests.web.test_first_use_browser import journal, opml_file
from tests.web.test_source import page_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
OWN = "/podcasts/default"
PHONE_WIDTH = 360
LONG = "a-word-that-does-not-end-" * 8


@dataclass
class Stage:
    """Dashboards with nothing, with something of everything, and behind a login."""

    empty: Visited
    filled: Visited
    locked: Visited
    web: DemoWeb
    admin: str  # tokens of `locked`
    anna: str
    fine: str  # pages of sources of `filled`
    failing: str
    disabled: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def eyes() -> AsyncIterator[Page]:
    """One page in one browser for all screens: they are many."""
    async with chromium() as started:
        page = await started.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert errors == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The three dashboards, and a web that they visit."""
    folders = [tmp_path_factory.mktemp(name) for name in ("empty", "filled", "locked")]
    scripts = {"journal": journal, "gone": lambda _: Reply(404), "good": lambda _: feed("one")}
    async with web_of(**scripts) as web:
        async for empty in visiting(settings_in(folders[0])):
            async for filled in visiting(settings_in(folders[1])):
                async for locked in visiting(settings_in(folders[2])):
                    sources = await fill(filled, web)
                    locked.service.guard.kind = "DNS"
                    locked.service.guard.since = locked.app.clock.now()
                    await locked.service.pause(paused=True)
                    admin, anna = await locked.admin(), await locked.person("anna")
                    yield Stage(empty, filled, locked, web, admin, anna, *sources)


async def fill(pages: Visited, web: DemoWeb) -> tuple[str, str, str]:
    """Something of everything, with texts that have no end; pages of three sources."""
    store, now = pages.app.store, pages.app.clock.now()
    user = await store.people.user("default")
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
    return page_of(fine.id), page_of(failing.id), page_of(disabled)


Way = Callable[[Page, Stage], Awaitable[None]]


def at(path: str, state: str = "filled") -> Way:
    """The way to a page that has an address."""

    async def go(page: Page, stage: Stage) -> None:
        await page.goto(getattr(stage, state).url + path)

    return go


def source(name: str) -> Way:
    """The way to the page of a source, all of it opened."""

    async def go(page: Page, stage: Stage) -> None:
        await page.goto(stage.filled.url + getattr(stage, name))
        await page.locator(".more-settings summary").click()
        await page.locator(".confirm-delete summary").click()

    return go


async def chosen_sources(page: Page, stage: Stage) -> None:
    await at(f"{OWN}/sources")(page, stage)
    await page.locator("tbody input").first.check()
    await page.get_by_role("button", name="Set interval").click()
    await expect(page.get_by_role("alert")).to_be_visible()


async def question(page: Page, stage: Stage) -> None:
    await at(f"{OWN}/sources")(page, stage)
    await page.get_by_label("Choose all on this page").check()
    await page.get_by_role("button", name="Delete …").click()
    await expect(page.get_by_role("button", name="Delete 5 sources")).to_be_visible()


async def wrong_settings(page: Page, stage: Stage) -> None:
    await page.goto(stage.filled.url + stage.fine)
    await page.get_by_label("Address").fill("gopher://example.org/")
    await page.get_by_role("button", name="Save settings").click()
    await expect(page.get_by_role("alert")).to_be_visible()


def preview(name: str, path: str, seen: str) -> Way:
    """The way to what is found at an address."""

    async def go(page: Page, stage: Stage) -> None:
        await at(f"{OWN}/add")(page, stage)
        await page.get_by_label("Address of a feed").fill(stage.web.url(name, path))
        await page.keyboard.press("Enter")
        await expect(page.get_by_text(seen).first).to_be_visible()

    return go


async def import_result(page: Page, stage: Stage) -> None:
    await at(f"{OWN}/import", "empty")(page, stage)
    file = opml_file(a_list("ftp://a.example/", "no address"))
    await page.get_by_label("Choose an OPML file").set_input_files(file)
    await page.get_by_role("button", name="Import", exact=True).click()
    await expect(page.get_by_role("heading", name="Rejected")).to_be_visible()


async def opened_accounts(page: Page, stage: Stage) -> None:
    await log_in(page, stage.locked, stage.admin, "/accounts")
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


async def refused_login(page: Page, stage: Stage) -> None:
    await log_in(page, stage.locked, "not a token", "/")
    await expect(page.get_by_role("alert")).to_be_visible()


async def forbidden(page: Page, stage: Stage) -> None:
    await log_in(page, stage.locked, stage.anna, "/")
    await send(page, {"switch": "pause"})
    await expect(page.get_by_role("heading", name="This is not yours to do")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()


async def wrong_form(page: Page, stage: Stage) -> None:
    await at("/")(page, stage)
    await send(page, {"switch": LONG})
    await expect(page.get_by_role("heading", name="That cannot be done")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()


async def log_in(page: Page, pages: Visited, token: str, path: str) -> None:
    await page.goto(f"{pages.url}{path}")
    await page.get_by_label("Access token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def send(page: Page, fields: dict[str, str]) -> None:
    """A form that no page offers, to the scheduler's switch."""
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
    "add": at(f"{OWN}/add"),
    "add, feeds found": preview("journal", "/", "2 feeds found on this page"),
    "add, entries found": preview("journal", "/feed.xml", "0 of 12 entries"),
    "add, trouble": preview("gone", "/", "There is nothing at this address"),
    "import": at(f"{OWN}/import"),
    "import, done": import_result,
    "hosts, empty": at("/hosts", "empty"),
    "hosts": at("/hosts"),
    "host": at("/hosts/a.example"),
    "posts, empty": at(f"{OWN}/posts", "empty"),
    "posts": at(f"{OWN}/posts"),
    "articles, empty": at(f"{OWN}/articles", "empty"),
    "articles": at(f"{OWN}/articles"),
    "accounts": at("/accounts"),
    "accounts, all opened": opened_accounts,
    "login": at("/", "locked"),
    "login, refused": refused_login,
    "error 404": at("/nothing"),
    "error 403": forbidden,
    "error 422": wrong_form,
}


@pytest.mark.parametrize("screen", SCREENS)
async def test_nothing_keeps_anybody_out(eyes: Page, stage: Stage, screen: str):
    await eyes.context.clear_cookies()
    await eyes.set_viewport_size({"width": 1280, "height": 900})
    # without motion: no colour is on its way to another
    await eyes.emulate_media(color_scheme="light", reduced_motion="reduce")
    await SCREENS[screen](eyes, stage)
    assert await findings(eyes) == []
    await eyes.emulate_media(color_scheme="dark")  # other colours, and all else the same
    assert await findings(eyes, "color-contrast") == []
    await eyes.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    assert await findings(eyes) == []
    assert await eyes.evaluate(_BEYOND) == []


async def findings(page: Page, *rules: str) -> list[tuple[str, str, str]]:
    """What axe finds serious or critical."""
    options: dict[str, list[str]] = {"resultTypes": ["violations"]}  # details of all else take long
    if rules:
        options["runOnly"] = list(rules)
    found = (await Axe().run(page, options=options)).response["violations"]
    return [
        (one["id"], node["html"], node["failureSummary"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


# what makes the page wider than the phone, so that it scrolls to the side
_BEYOND = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.body.querySelectorAll("*")]
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => e.outerHTML.slice(0, 200))"""
