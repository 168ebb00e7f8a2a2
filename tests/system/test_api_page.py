"""The API page works in a browser, and every command of docs/api.md works as documented."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from tests.system.conftest import Headwater, feed_site, web_of
from tests.web.conftest import chromium

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STATUS = re.compile(r" # (\d{3})$", re.MULTILINE)
# `curl` also prints its status; a stream ends after ten seconds, which is no failure
PRELUDE = r"""
set -euo pipefail
headwater() { "$PYTHON" -m headwater "$@" 2> /dev/null; }
curl() {
  local stream=
  for word in "$@"; do [ "$word" != -N ] || stream="--max-time 10"; done
  command curl $stream -w '%{stderr}\n[%{http_code}]\n' "$@" || [ -n "$stream" ]
}
"""
# accessibility rules that the viewer itself breaks: a link within the button that opens an
# operation, text areas without labels, two headings of the wrong level
VIEWER_FINDINGS = {
    "heading-order",
    "label",
    "landmark-unique",
    "nested-interactive",
    "region",
    "scrollable-region-focusable",
}
LOUD = ("error", "warning")
pytestmark = pytest.mark.system


@asynccontextmanager
async def browsing(headwater: Headwater, **options: str) -> AsyncIterator[Page]:
    """A browser page that must report no error and send no request to another host."""
    await headwater.start()
    own = f"http://127.0.0.1:{headwater.port}"
    wrong: list[str] = []
    async with chromium() as browser:
        context = await browser.new_context(base_url=own, **options)  # type: ignore[arg-type]
        page = await context.new_page()
        page.on("console", lambda one: wrong.append(one.text) if one.type in LOUD else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: wrong.append(one.url) if _leaves(one.url, own) else None)
        yield page
    assert wrong == []


def _leaves(url: str, own: str) -> bool:
    return not url.startswith((own + "/", "data:"))


async def try_out(page: Page, operation_id: str) -> Locator:
    """Open an operation, execute it and return what the viewer shows of the response."""
    operation = page.locator(f"[id$='-{operation_id}'].opblock")
    await operation.locator("button.opblock-summary-control").click()
    await operation.get_by_role("button", name="Execute").click()
    return operation.locator(".live-responses-table")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_u4_the_viewer_runs_under_our_policy_and_executes_calls(
    headwater: Headwater, scheme: str
) -> None:
    async with browsing(headwater, color_scheme=scheme) as page:
        await page.goto("/api/docs")
        response = await try_out(page, "listUsers")
        await expect(response.locator(".response-col_status").last).to_have_text("200")
        await expect(response).to_contain_text('"name": "default"')
        ground = "rgb(15, 23, 28)" if scheme == "dark" else "rgb(246, 248, 249)"
        await expect(page.locator("body")).to_have_css("background-color", ground)
        found = (await Axe().run(page)).response["violations"]
        assert {one["id"] for one in found} <= VIEWER_FINDINGS, found


async def test_the_viewer_uses_the_session_of_the_dashboard(headwater: Headwater) -> None:
    token = (await headwater.cli("tokens", "add", "tests", "--admin")).strip()
    async with browsing(headwater) as page:
        await page.goto("/login")
        await page.get_by_label("token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(lambda url: "/login" not in url)
        await page.goto("/api/docs")
        response = await try_out(page, "changeScheduler")
        await expect(response.locator(".response-col_status").last).to_have_text("200")


async def test_the_viewer_can_be_used_by_keyboard(headwater: Headwater) -> None:
    async with browsing(headwater) as page:
        await page.goto("/api/docs")
        control = page.locator("#operations-operations-getHealth button.opblock-summary-control")
        await control.focus()
        await page.keyboard.press("Enter")
        execute = page.locator("#operations-operations-getHealth button.execute")
        for _ in range(10):
            await page.keyboard.press("Tab")
            if await execute.evaluate("button => button === document.activeElement"):
                break
        await page.keyboard.press("Enter")
        shown = page.locator("#operations-operations-getHealth .live-responses-table")
        await expect(shown).to_contain_text('"status": "ok"')


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="needs bash, curl and jq"
)
async def test_every_command_responds_as_documented(headwater: Headwater) -> None:
    blocks = SHELL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 15
    async with web_of(news=feed_site(entries=3)) as web:
        await headwater.start()
        site = web.url("news")
        script = script_of(blocks, headwater.port, site)
        found = await run(script, headwater.folder)
    reported = found.split("<<block>>")[1:]
    assert len(reported) == len(blocks), found[-2000:]
    for block, text in zip(blocks, reported, strict=True):
        statuses = re.findall(r"^\[(\d{3})\]$", text, re.MULTILINE)
        expected = STATUS.findall(block)
        if "while " in block:  # the number of iterations is not documented
            statuses, expected = sorted(set(statuses)), sorted(set(expected))
        assert statuses == expected, (block, text)
    assert "Body 0" in (headwater.folder / "script.txt").read_text()


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="needs bash, curl and jq"
)
async def test_the_documented_loop_ends_with_an_error_when_a_call_fails(
    headwater: Headwater,
) -> None:
    blocks = SHELL.findall(PAGE.read_text(encoding="utf-8"))
    (loop,) = [block for block in blocks if "while " in block]
    (api,) = [line for line in blocks[0].splitlines() if line.startswith("api()")]
    await headwater.start()
    place = f"P=http://127.0.0.1:{headwater.port}/api/users/default/podcasts/default"
    script = f"{place}\nTOKEN=wrong\n{api}\n{loop}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=headwater.folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1, err
    assert b"curl: (22)" in err


def script_of(blocks: list[str], port: int, site: str) -> str:
    """The page as one script; example sites are replaced by existing ones."""
    host = site.removeprefix("http://").partition(":")[0]
    text = "".join(f"echo '<<block>>' >&2\n{block}" for block in blocks)
    text = text.replace("http://127.0.0.1:8420", f"http://127.0.0.1:{port}")
    text = text.replace("https://example.org", site)
    text = re.sub(r"(?<=hosts/)example\.org", host, text)
    leads = re.findall(r"https?://([^/:\"']+)", text)
    assert all(lead.startswith("127.") for lead in leads), leads
    return PRELUDE + text


async def run(script: str, folder: Path) -> str:
    """Run a script and return its standard error, which has the statuses."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=folder, env=os.environ | {"PYTHON": sys.executable},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 0, (out[-2000:], err[-3000:])
    return err.decode()
