"""Screenshots of the dashboard for the docs, taken from the demo: `python -m bench.screenshots`.

With names of pictures as arguments, only these are taken: `python -m bench.screenshots search`.
Where `pngquant` is installed, it reduces the colours, and with them the size of the files.
"""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from headwater.rules.incidents import Incident, IncidentKind, Severity
from headwater.rules.notice_messages import notice_of
from headwater.rules.webhook_messages import incident_happening, payload

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
WATCHED_SECONDS = 75  # until lanes, holds, failures and stories are visible
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
OWN = "/podcasts/default"
CHANNELS = (
    {"kind": "email", "target": "ann@example.org", "when": "digest", "hour": "6"},
    {"kind": "ntfy", "target": "https://ntfy.sh/river-podcast-alerts", "when": "now"},
)
NOW = datetime(2026, 2, 16, 6, tzinfo=UTC)
expect.set_options(timeout=30_000)


def open_story(page: Page) -> None:
    """Open a story in the list and read it beside the list."""
    story = page.locator(".posts > li").filter(has=page.locator(".also")).first
    story.locator(".also summary").click()
    story.locator(".title a").click()
    expect(page.locator("#reading")).to_contain_text("original page")


def read_on_a_phone(page: Page) -> None:
    """Read the text of a page."""
    page.locator(".posts .title a").first.click()
    expect(page.locator("#reading")).to_contain_text("original page")


def show_effect(page: Page) -> None:
    """Write a filter; its effect is shown while it is written."""
    page.get_by_label("Hide posts that match").fill('title:"repair workshop" OR timetable')
    expect(page.locator("#effect")).to_contain_text("would be hidden")


def mark_articles(page: Page) -> None:
    """Make articles, rate one, and mark two as processed."""
    page.get_by_role("button", name=re.compile("^Aggregate")).click()
    for number in (1, 2):
        page.locator("input[name=article]").nth(number).check()
    ids = [box.input_value() for box in page.locator("input[name=article]").all()[:5]]
    for id_, score in ((ids[0], 0.8), (ids[4], 0.6)):
        url = page.url.partition("/podcasts")[0] + f"/api/users/default{OWN}/articles/{id_}"
        assert page.request.patch(url, data={"score": score}).ok
    page.get_by_label("Batch").fill("episode 12")
    page.get_by_role("button", name="Mark chosen").click()
    expect(page.locator(".undo-bar")).to_be_visible()


@dataclass(frozen=True)
class Picture:
    """A page of the dashboard, and what is done on it before the screenshot."""

    name: str
    path: str
    act: Callable[[Page], None] | None = None
    colours: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 760


PICTURES = (
    Picture("overview", "/"),
    Picture("overview-phone", "/", colours="dark", width=390, height=844),
    Picture("reading", f"{OWN}/posts?q=source:steady", open_story),
    Picture("reading-phone", f"{OWN}/posts?q=type:website", read_on_a_phone, width=390, height=844),
    Picture("search", f"{OWN}/posts?q=(lighthouse+OR+ferry)+-Cork", height=700),
    Picture("filters", f"{OWN}/filters", show_effect, height=640),
    Picture("articles", f"{OWN}/articles", mark_articles),
    Picture("sources-dark", f"{OWN}/sources", colours="dark"),
    Picture("sites", "/hosts"),
    Picture("notifications", "/users/default/notices"),
    Picture("notifications-phone", "/users/default/notices", colours="dark", width=390, height=844),
)


def main() -> None:
    """Start the demo, let it run for a while, and take all screenshots."""
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
            add_channels(browser, url)
            take_message(browser, FOLDER / "notification-mail.png")
            for picture in PICTURES:
                if not sys.argv[1:] or picture.name in sys.argv[1:]:
                    take(browser, url, picture)
            browser.close()
    finally:
        demo.terminate()
        demo.communicate()


def address(demo: "subprocess.Popen[str]") -> str:
    """The URL of the demo's dashboard, from its log."""
    assert demo.stdout is not None
    for line in demo.stdout:
        found = re.search(r"dashboard.* url=(\S+)", line)
        if found:
            return found[1]
    raise SystemExit("the demo ended without a dashboard")


def add_channels(browser: Browser, url: str) -> None:
    """Choose where the demo tells about problems; nothing is sent."""
    page = browser.new_page()
    for channel in CHANNELS:
        page.request.post(f"{url}/users/default/notices", form=dict(channel))
    page.close()


def take_message(browser: Browser, file: Path) -> None:
    """Take a screenshot of an e-mail, as a mail program shows it."""
    broken = Incident(
        "1", IncidentKind.FAILING, Severity.ERROR, "default", "river.example",
        "“River news” has failed since 14 February: nothing is at the address any more (404)",
        "Open the site, find the new address and enter it as the URL; otherwise delete the source.",
        NOW - timedelta(hours=20),
    )  # fmt: skip
    over = Incident(
        "2", IncidentKind.SILENT, Severity.WARNING, "default", "lake.example",
        "“Lake report” usually publishes 5 a week, and nothing for 23 days", "",
        NOW - timedelta(days=9), NOW - timedelta(hours=4),
    )  # fmt: skip
    happenings = [incident_happening(one, ()) for one in (broken, over)]
    messages = {one.subject: payload(one.event, NOW, one.data) for one in happenings}
    notice = notice_of("demo", messages, NOW)
    head = f"<p>From: Headwater<br>Subject: <b>{notice.subject}</b></p><hr>"
    page = browser.new_page(viewport={"width": 720, "height": 460})
    page.set_content(notice.html.replace("<body>", f"<body style='font-family: sans-serif'>{head}"))
    save(page, file)
    page.close()


def take(browser: Browser, url: str, picture: Picture) -> None:
    """Take one screenshot."""
    context = browser.new_context(
        color_scheme=picture.colours,
        viewport={"width": picture.width, "height": picture.height},
    )
    page = context.new_page()
    page.goto(f"{url}{picture.path}")
    if picture.act is not None:
        picture.act(page)
    page.wait_for_timeout(500)
    save(page, FOLDER / f"{picture.name}.png")
    context.close()


def save(page: Page, file: Path) -> None:
    """Write a screenshot."""
    page.screenshot(path=file)
    if shutil.which("pngquant"):
        reduce = ["pngquant", "--force", "--skip-if-larger", "--quality", "70-100", "--strip"]
        subprocess.run([*reduce, "--output", str(file), str(file)], check=False)
    print(file)


if __name__ == "__main__":
    main()
