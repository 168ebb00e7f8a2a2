"""Posts of pages on the dashboard: their newest version, what changed, and texts that were read."""

import re

from headwater.model import SourceType, TextFrom
from tests.api.stored_data import posts_of, source_of
from tests.store.store_data import newest_posts
from tests.web.conftest import Visited
from tests.web.test_hosts_page import words
from tests.web.test_posts_page import POSTS, store_new


async def test_y2_the_overview_shows_only_the_newest_version_of_a_page(pages_by_each: Visited):
    pages = pages_by_each
    news = await source_of(pages, label="River news")
    page = await source_of(pages, label="Noisy page", type=SourceType.WEBSITE)
    await store_new(pages, news, "one", "two")
    for n in range(12):
        await store_new(pages, page, f"version {n}")
    of_news, of_page = [
        await newest_posts(pages.app.store, source_id=one.id, limit=100) for one in (news, page)
    ]
    ids = sorted([*(post.id for post in of_news), of_page[0].id], reverse=True)
    html = await pages.text("/")
    shown = re.findall(r'<a id="post-[^"]+" href="([^"]+)"', html)
    assert shown == [f"{POSTS}/{id_}" for id_ in ids]
    assert len(of_page) == 12


async def test_t4_the_list_shows_the_text_of_the_page_that_was_read(pages_by_each: Visited):
    pages = pages_by_each
    read = {"text_from": TextFrom.PAGE, "page_text": "Since midnight the river rises."}
    await posts_of(pages, await source_of(pages), "A teaser.", **read)
    page = await source_of(pages, type=SourceType.WEBSITE)
    await posts_of(pages, page, "What is new.", **read | {"page_text": "All of the page."})
    text = words(await pages.text(POSTS))
    assert "Since midnight the river rises." in text
    assert "A teaser." not in text
    assert "What is new." in text
    assert "All of the page." not in text


async def test_w5_what_changed_is_offered_only_for_a_later_version(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "of a feed", "of it, too")
    page = await source_of(pages, type=SourceType.WEBSITE)
    await posts_of(pages, page, "new", "old")
    later, first = await newest_posts(pages.app.store, source_id=page.id, limit=2)
    for path in (POSTS, f"/podcasts/default/sources/{page.id}"):
        assert re.findall(r'href="([^"]+)/diff"', await pages.text(path)) == [f"{POSTS}/{later.id}"]
    assert "/diff" in await pages.text(f"{POSTS}/{later.id}")
    assert "/diff" not in await pages.text(f"{POSTS}/{first.id}")
