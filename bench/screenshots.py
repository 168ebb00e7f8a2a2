"""Pictures of the dashboard for the docs, taken from the demo: `python -m bench.screenshots`."""

import re
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
WATCHED_SECONDS = 45  # until lanes, holds and failures have shown themselves
WIDE, PHONE = (1280, 900), (390, 844)
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
PICTURES = (
    ("overview", "/", "light", WIDE),
    ("sources-dark", "/podcasts/default/sources", "dark", WIDE),
    ("hosts", "/hosts", "light", WIDE),
    ("phone", "/podcasts/default/sources", "light", PHONE),
)


def main() -> None:
    """Start the demo, let it run for a while, and take all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headwater", "demo"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = address(demo)
        time.sleep(WATCHED_SECONDS)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=ARGUMENTS
            )
            for name, path, colours, (width, height) in PICTURES:
                take(browser, f"{url}{path}", FOLDER / f"{name}.png", colours, width, height)
            browser.close()
    finally:
        demo.terminate()
        demo.communicate()


def address(demo: "subprocess.Popen[str]") -> str:
    """Where the demo's dashboard is, from its log."""
    assert demo.stdout is not None
    for line in demo.stdout:
        found = re.search(r"dashboard.* url=(\S+)", line)
        if found:
            return found[1]
    raise SystemExit("the demo ended without a dashboard")


def take(browser: Browser, url: str, file: Path, colours: str, width: int, height: int) -> None:
    """Take one picture."""
    context = browser.new_context(
        color_scheme="dark" if colours == "dark" else "light",
        viewport={"width": width, "height": height},
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_timeout(500)
    page.screenshot(path=file)
    context.close()
    print(file)


if __name__ == "__main__":
    main()
