"""The dashboard on a free port, used over real connections and by a real browser."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from headwater.model import Podcast
from headwater.settings import Settings
from headwater.web.factory import add_pages
from tests.api.conftest import Answer, Served, serving, settings_in

CHROMIUM = Path("/usr/bin/chromium")
_SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Fields = dict[str, str | Sequence[str]]
expect.set_options(timeout=30_000)  # a busy machine takes longer to render


@dataclass
class Visited(Served):
    """A running dashboard; requests are sent with `token`, or without one."""

    async def text(self, path: str, *, status: int = 200, **options: Any) -> str:
        """The HTML of a page, which must have this status."""
        answer = await self.get(path, **options)
        assert answer.status == status, (answer.status, answer.body[:2000])
        return answer.body.decode()

    async def send(
        self, path: str, fields: Mapping[str, str | Sequence[str]] | None = None, **options: Any
    ) -> Answer:
        """Send a form as a browser does without script; redirects are not followed."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        data = urlencode(fields or {}, doseq=True).encode()
        return await self.call("POST", path, data=data, headers=kind, **options)

    async def podcast(self, user: str = "default", name: str = "default") -> Podcast:
        """A podcast by its names; the first start created one of these names."""
        people = self.app.store.accounts
        return await people.podcast((await people.user(user)).id, name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a module's tests share an event loop, so that slow fixtures can be shared."""
    for item in items:
        is_ours = item.path.parent == Path(__file__).parent
        if is_ours and iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


async def visiting(settings: Settings) -> AsyncIterator[Visited]:
    """A dashboard with these settings."""
    async with serving(settings, add=add_pages) as running:
        yield Visited(**vars(running))


@pytest_asyncio.fixture(loop_scope="module")
async def pages(tmp_path: Path) -> AsyncIterator[Visited]:
    """The dashboard over an empty SQLite database, without tokens: open to loopback."""
    async for running in visiting(settings_in(tmp_path)):
        yield running


@pytest_asyncio.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], loop_scope="module"
)
async def pages_by_each(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visited]:
    """The same, once over each kind of database."""
    options: dict[str, Any] = {}
    if request.param == "postgres":
        options["app.database-url"] = request.getfixturevalue("migrated_postgres_url")
    async for running in visiting(settings_in(tmp_path, **options)):
        yield running


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's Chromium, or skip if it is not installed."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser here: {CHROMIUM} is missing (apt install chromium)")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=_SWITCHES)
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for a module; its contexts are independent of each other."""
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def browser_page(browser: Browser, pages: Visited) -> AsyncIterator[Page]:
    """A page in that browser: `goto("/…")` opens one of `pages`; a script error fails the test."""
    context = await browser.new_context(base_url=pages.url)
    page = await context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    await context.close()
    assert errors == []


async def findings(page: Page, *rules: str) -> list[tuple[str, str, str]]:
    """The serious and critical findings of axe."""
    options: dict[str, list[str]] = {
        "resultTypes": ["violations"]
    }  # details of all other rules take long
    if rules:
        options["runOnly"] = list(rules)
    found = (await Axe().run(page, options=options)).response["violations"]
    return [
        (one["id"], node["html"], node["failureSummary"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
