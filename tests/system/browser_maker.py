"""A podcast maker with a browser: forms, buttons and links of the dashboard (E1)."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, expect

from tests.system.workflow import Material, PodcastMaker
from tests.web.conftest import chromium

DEADLINE_MS = 60_000
SOURCE = re.compile(r"/podcasts/default/sources/[0-9a-f-]+")


class BrowserMaker:
    """Does what a person does; only scores come from a program, as they belong to clients (E4)."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def add_source(self, url: str, *, digest: bool) -> None:
        page = self._page
        await page.goto("/")
        await page.locator('a[href="/podcasts/default/add"]').first.click()
        await page.get_by_label("Address of a feed").fill(url)
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_label(re.compile("Include the .* existing post"))).to_be_checked()
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page).to_have_url(SOURCE)
        if digest:
            await page.get_by_text("More settings", exact=True).click()
            await page.get_by_label("Digests", exact=True).select_option("Always")
            await page.get_by_role("button", name="Save settings").click()
            await self._is_announced("The settings are saved")

    async def titles(self) -> set[str]:
        await self._open("Posts")
        return set(await self._page.locator(".posts .title").all_inner_texts())

    async def search(self, query: str) -> set[str]:
        await self._open("Posts")
        await self._page.get_by_label("Search", exact=True).fill(query)
        await self._page.get_by_role("button", name="Show", exact=True).click()
        await expect(self._page.get_by_role("link", name="Show all").first).to_be_visible()
        await self._page.wait_for_load_state()
        return set(await self._page.locator(".posts .title").all_inner_texts())

    async def block(self, query: str) -> None:
        page = self._page
        await self._open("Posts")
        await page.get_by_role("link", name="Filters", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Filters")
        await page.wait_for_load_state()  # the script shows the effect
        await page.get_by_label("Hide posts that match").fill(query)
        await expect(page.locator("#effect")).to_contain_text("1 post would be hidden")
        await page.get_by_role("button", name="Save filters").click()
        await self._is_announced("The filters are saved")

    async def aggregate(self) -> None:
        await self._open("Articles")
        await self._page.get_by_role("button", name=re.compile("^Aggregate")).click()
        await self._is_announced(re.compile("made|Nothing to do"))

    async def unprocessed(self, min_score: float | None = None) -> list[Material]:
        await self._open("Articles")
        material = []
        for item in await self._page.locator(".content > li").all():
            id_ = await item.get_by_role("checkbox").input_value()
            title = await item.get_by_role("heading").inner_text()
            shown = item.get_by_role("img", name="Score")
            label = await shown.get_attribute("aria-label") if await shown.count() else None
            score = None if label is None else float(label.removeprefix("Score "))
            if min_score is None or (score is not None and score >= min_score):
                material.append(Material(id_, title, score))
        return material

    async def set_score(self, article_id: str, score: float) -> None:
        url = f"/api/users/default/podcasts/default/articles/{article_id}"
        answer = await self._page.request.patch(url, data={"score": score})
        assert answer.ok, await answer.text()
        await self._open("Articles")
        await expect(self._page.get_by_role("img", name=f"score {score}")).to_be_visible()

    async def mark(self, article_ids: list[str], batch: str) -> None:
        page = self._page
        await self._open("Articles")
        await page.get_by_label("Choose all on this page").check()
        chosen = page.locator("input[name=article]:checked")
        await expect(chosen).to_have_count(len(article_ids))
        await page.get_by_label("Batch").fill(batch)
        await page.get_by_role("button", name="Mark chosen as processed").click()
        await self._is_announced(f"{len(article_ids)} articles are processed now")

    async def undo(self, batch: str) -> None:
        await self._open_processed()
        await self._page.get_by_role("button", name=f"Undo the batch {batch}").click()
        await self._is_announced("Undone: ")

    async def batches(self) -> dict[str, int]:
        await self._open_processed()
        found = {}
        for item in await self._page.locator(".batches > li").all():
            name = await item.locator(".title").inner_text()
            text = await item.inner_text()
            counted = re.search(r"(\d+) articles?", text)
            assert counted, text
            found[name] = int(counted[1])
        return found

    async def _open(self, name: str) -> None:
        """Open a page from the menu; a page that is open is loaded again."""
        menu = self._page.get_by_role("navigation", name="Main")
        link = menu.get_by_role("link", name=name, exact=True)
        await self._page.goto(await link.get_attribute("href") or "")
        await expect(self._page.get_by_role("heading", level=1)).to_have_text(name)

    async def _open_processed(self) -> None:
        await self._open("Articles")
        await self._page.get_by_role("link", name="Processed", exact=True).click()
        current = self._page.locator("nav.which-articles [aria-current=page]")
        await expect(current).to_have_text("Processed")
        await self._page.wait_for_load_state()

    async def _is_announced(self, text: str | re.Pattern[str]) -> None:
        await expect(self._page.locator("p.banner").filter(has_text=text)).to_be_visible()


@asynccontextmanager
async def browser_maker(url: str) -> AsyncIterator[PodcastMaker]:
    """A maker with a page of its own; a script error fails the test."""
    async with chromium() as browser:
        context = await browser.new_context(base_url=url)
        context.set_default_timeout(DEADLINE_MS)
        page = await context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.goto("/")
        yield BrowserMaker(page)
        await context.close()
        assert errors == []
