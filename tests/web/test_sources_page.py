"""The list of sources: content, filters and access."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from headwater.model import Hold, Source, SourceType, Visit
from headwater.store import Session
from headwater.store.source_pages import SourceOrder
from tests.api.stored_data import failed, polled, posts_of, source_of
from tests.store.store_data import a_failure, a_success
from tests.web.conftest import Visited

LIST = "/podcasts/default/sources"


def shown(html: str) -> list[str]:
    """The ids of the sources on a page, in their order."""
    return re.findall(r'name="id" value="([^"]+)"', html)


def words(html: str) -> str:
    """The visible text, without the markup."""
    body = re.sub(r"<(title|option)[^>]*>[^<]*</\1>", "", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def next_page(html: str) -> str | None:
    found = re.search(r'href="([^"]+)" rel="next"', html)
    return unescape(found[1]) if found else None


async def find(pages: Visited, **given: str) -> list[str]:
    """The ids of the sources that match these filters."""
    return shown(await pages.text(f"{LIST}?{urlencode(given)}"))


async def changed(pages: Visited, source: Source, **changes: Any) -> None:
    await pages.app.store.sources.edit(source.id, lambda before: replace(before, **changes))


async def test_a_row_reports_label_url_type_host_interval_and_posts(pages: Visited):
    source = await source_of(pages, label="The News", url="https://h.example/rss", host="h.example")
    await posts_of(pages, source, "one", "two")
    html = await pages.text(LIST)
    assert f'<a class="title" href="{LIST}/{source.id}">The News</a>' in html
    assert '<a href="/hosts/h.example"' in html
    assert f'href="/podcasts/default/posts?source={source.id}">2</a>' in html
    reported = words(html)
    assert "1 source" in reported
    for text in ("The News", "feed", "h.example/rss", "fine", "every 30 min"):
        assert text in reported


async def test_v3_a_row_has_its_folder_which_finds_the_others_in_it(pages: Visited):
    source = await source_of(pages, folder="News/R&D")
    await source_of(pages, label="News/R&D weekly")
    await source_of(pages, folder="News/R&D/old")
    html = await pages.text(LIST)
    link = f"{LIST}?folder=News/R%26D"
    assert f'href="{link}" title="Folder">News/R&amp;D</a>' in html
    html = await pages.text(link)
    assert shown(html) == [source.id]
    assert "in the folder News/R&amp;D" in html
    assert '<input type="hidden" name="folder" value="News/R&amp;D">' in html


async def test_without_a_label_the_url_is_the_name(pages: Visited):
    source = await source_of(pages, url="https://h.example/rss?key=secret")
    html = await pages.text(LIST)
    name = re.search(rf'href="{LIST}/{source.id}">([^<]+)<', html)
    assert name is not None
    assert name[1].startswith("h.example/rss")


async def test_a_source_that_was_never_polled_is_shown_as_such(pages: Visited):
    await source_of(pages, last_polled=None)
    reported = words(await pages.text(LIST))
    assert "new" in reported
    assert "never" in reported
    assert "soon every 30 min" in reported


async def test_times_are_shown_in_text_for_machines_and_for_the_viewer(pages: Visited):
    source = await source_of(pages)
    now = pages.app.clock.now()
    at = now - timedelta(minutes=18)
    await changed(pages, source, last_polled=at, last_success_at=at)
    html = await pages.text(LIST)
    assert re.search(r'<time datetime="[^"]+Z" data-words>18 min ago</time>', html)
    assert re.search(r"data-words data-due>in 1[12] min( \d+ s)?</time>", html)
    await changed(pages, source, last_polled=now - timedelta(days=1))
    assert "due now every 30 min" in words(await pages.text(LIST))


async def test_failures_show_the_backoff_the_reason_and_their_number(pages: Visited):
    source = await source_of(pages)
    await polled(pages, source)
    for _ in range(2):
        await failed(pages, source)
    html = await pages.text(LIST)
    reported = words(html)
    for text in ("failing", "30 min → 2 h while failing", "timed out after 10 s"):
        assert text in reported
    assert '<b class="bad">2</b>' in html
    assert 'aria-label="the last 3 checks, 2 of them failed"' in html


async def test_a_disabled_source_shows_the_reason_and_no_next_poll(pages: Visited):
    source = await source_of(pages)
    await changed(pages, source, enabled=False, disabled_reason="Auto-disabled: 404")
    reported = words(await pages.text(LIST))
    for text in ("disabled", "Auto-disabled: 404", "disabled"):
        assert text in reported


async def test_a_hold_and_a_requested_poll_are_reported(pages: Visited):
    asked, held = await source_of(pages), await source_of(pages)
    now = pages.app.clock.now()
    await pages.app.store.sources.request([asked.id], now)
    outcome = a_failure(held)
    hold = Hold(now + timedelta(hours=3), now, "429 <too> many")
    lane = held.host or ""
    await pages.app.store.record(
        replace(outcome, hold=hold, hold_lane=lane, visits=(Visit(lane, now),))
    )
    html = await pages.text(LIST)
    assert "requested" in words(html)
    assert '<span class="tag warn" title="429 &lt;too&gt; many">paused by the site</span>' in html


async def test_a_strip_shows_at_most_the_last_twelve_polls(pages: Visited):
    source = await source_of(pages)
    for _ in range(20):
        await polled(pages, source)
    html = await pages.text(LIST)
    assert 'aria-label="the last 12 checks, none of them failed"' in html
    assert html.count('<rect class="unchanged"') == 12


async def test_filters_find_by_text_health_type_and_host(pages: Visited):
    fine = await source_of(pages, label="Morning News", host="a.example")
    await polled(pages, fine)
    bad = await source_of(pages, url="https://B.example/feed", host="b.example")
    await failed(pages, bad)
    off = await source_of(pages, enabled=False, type=SourceType.WEBSITE, host="a.example")
    new = await source_of(pages, type=SourceType.TWITTER, url="@somebody", host="x.com")
    assert await find(pages) == [new.id, off.id, bad.id, fine.id]  # newest first
    assert await find(pages, q="morning") == [fine.id]
    assert await find(pages, q="b.EXAMPLE") == [bad.id]
    assert await find(pages, q="100%") == []
    for health, source in {"ok": fine, "failing": bad, "disabled": off, "new": new}.items():
        assert await find(pages, health=health) == [source.id]
    assert await find(pages, health="enabled") == [new.id, bad.id, fine.id]
    assert await find(pages, type="website") == [off.id]
    assert await find(pages, host="A.example.") == [off.id, fine.id]
    assert await find(pages, host="A.example", health="ok") == [fine.id]
    assert await find(pages, host="no host: at all") == []


async def test_active_filters_are_visible_and_can_be_removed_one_by_one(pages: Visited):
    await source_of(pages, label="one", host="a.example")
    html = await pages.text(f"{LIST}?q=one&health=enabled&host=a.example&sort=oldest")
    reported = words(html)
    for text in ("contains “one”", "on a.example", "1 source fits", "all 1 source that match"):
        assert text in reported
    chips = [unescape(url) for url in re.findall(r'class="chip" href="([^"]+)"', html)]
    assert chips == [
        f"{LIST}?health=enabled&host=a.example&sort=oldest",
        f"{LIST}?q=one&host=a.example&sort=oldest",
        f"{LIST}?q=one&health=enabled&sort=oldest",
    ]
    assert 'value="one"' in html
    assert re.search(r'<option value="enabled" selected', html)


@pytest.mark.parametrize(
    "query",
    [
        "health=splendid", "type=gopher", "sort=backwards", "cursor=nonsense",
        "cursor=WyJuZXdlc3QiLCJ0cnVlIiwieCJd", "cursor=WyJ1cmwiLCJcIlxcdWQ4MDBcIiIsIngiXQ&sort=url",
        f"q={'x' * 501}", "unheard=of", "health=&type=&q=+&host=",
    ],
)  # fmt: skip
async def test_invalid_parameters_in_a_url_are_ignored(pages: Visited, query: str):
    source = await source_of(pages)
    assert shown(await pages.text(f"{LIST}?{query}")) == [source.id]


@pytest.mark.parametrize("order", list(SourceOrder))
async def test_pages_are_consecutive_in_every_order(pages_by_each: Visited, order: SourceOrder):
    labels = ("Ångström", "zebra", None, "日本 & <more>", "zebra")
    made = [
        await source_of(pages_by_each, label=labels[n % 5], consecutive_failures=n % 4)
        for n in range(103)
    ]
    seen: list[list[str]] = []
    url: str | None = f"{LIST}?sort={order.value}&health=&q=example.org"
    while url is not None:
        html = await pages_by_each.text(url)
        seen.append(shown(html))
        assert ("First page" in html) == (len(seen) > 1)
        assert f'<option value="{order.value}" selected>' in html
        url = next_page(html)
    assert [len(page) for page in seen] == [50, 50, 3]
    assert sorted(id_ for page in seen for id_ in page) == sorted(source.id for source in made)


async def test_a_page_beyond_the_end_links_back(pages: Visited):
    for _ in range(51):
        await source_of(pages)
    second = next_page(await pages.text(LIST))
    assert second is not None
    (last,) = shown(await pages.text(second))
    await pages.app.store.sources.remove(last)
    html = await pages.text(second)
    assert "Nothing further" in html
    assert f'href="{LIST}">First page' in html


async def test_long_lists_offer_only_orders_that_need_no_sorting(pages: Visited):
    def fill(session: Session) -> None:
        session.execute(
            """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
            INSERT INTO sources (id, podcast_id, type, url, created_at, host)
            SELECT 's' || i, 'default', 'rss', 'https://h' || i || '.example', i,
                'h' || i || '.example' FROM n"""
        )

    await pages.app.store.database.write(fill)
    html = await pages.text(f"{LIST}?sort=failures")
    assert "more than 10,000 sources" in words(html)
    assert "this is newest first" in words(html)
    assert re.findall(r'<option value="(\w+)" (?:selected)?>(?:newest|oldest|by|most)', html) == [
        "newest", "oldest", "url",
    ]  # fmt: skip
    assert shown(html)[0] == "s10001"
    assert shown(await pages.text(next_page(html) or ""))[0] == "s9951"
    assert shown(await pages.text(f"{LIST}?sort=url"))[:2] == ["s1", "s10"]
    assert await find(pages, host="h77.example") == ["s77"]


async def test_an_empty_list_explains_how_to_start(pages: Visited):
    html = await pages.text(LIST)
    assert "There are no sources yet" in html
    assert 'href="/podcasts/default/add"' in html
    assert 'href="/podcasts/default/import"' in html
    assert "<table" not in html


async def test_no_match_offers_to_clear_the_filters(pages: Visited):
    await source_of(pages)
    html = await pages.text(f"{LIST}?q=nothing+like+it")
    assert "No source fits" in html
    assert f'href="{LIST}">Clear filters' in html


async def test_a_success_after_failures_is_shown_as_healthy(pages: Visited):
    source = await source_of(pages)
    await failed(pages, source)
    current = await pages.app.store.sources.get(source.id)
    recovered = a_success(current)
    await pages.app.store.record(
        replace(recovered, source=replace(recovered.source, consecutive_failures=0))
    )
    reported = words(await pages.text(LIST))
    assert "fine" in reported
    assert "while failing" not in reported
    assert "timed out" not in reported
