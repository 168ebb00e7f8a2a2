"""The articles page in a real browser: posts of threads, follow-ups, a bulk action and its undo."""

from datetime import timedelta

from playwright.async_api import Page, ViewportSize, expect

from headwater.model import SourceType
from headwater.source_settings import AggregateBy
from tests.api.stored_data import articles_of, posts_of, source_of
from tests.store.store_data import a_post_of, with_posts
from tests.web.conftest import Visited, findings

ARTICLES = "/podcasts/default/articles"
PHONE: ViewportSize = {"width": 390, "height": 844}


async def store_thread(pages: Visited) -> None:
    """Store a processed thread of two posts, a follow-up, and two posts that wait."""
    timeline = await source_of(
        pages, type=SourceType.TWITTER, url="@ada", aggregate_by=AggregateBy.THREAD
    )
    at = pages.app.clock.now() - timedelta(days=4, hours=12)
    fields = {"published_at": at, "created_at": at, "conversation_id": "1"}
    tweets = [
        a_post_of(timeline, f"{name} text", title=name, **fields)
        for name in ("The first", "The second", "The third")
    ]
    await with_posts(pages.app.store, timeline, *tweets[:2])
    (thread,) = await articles_of(pages)
    await pages.send(f"{ARTICLES}/processed", {"article": [thread], "batch": "episode 1"})
    await with_posts(pages.app.store, timeline, tweets[2])
    await articles_of(pages)
    await posts_of(pages, await source_of(pages), "waiting", "waiting too")


async def test_e3_a_follow_up_leads_to_its_thread_which_opens_to_its_posts(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await store_thread(pages)
    await page.goto(ARTICLES)
    await expect(page.get_by_role("button", name="Aggregate 2 posts")).to_be_visible()
    await expect(page.locator(".content .meta")).to_contain_text("expires in 2 days")
    assert await findings(page) == []
    await page.get_by_role("link", name="follow-up of an earlier article").click()
    item = page.locator(".content > li")
    await expect(item).to_contain_text("thread of 2 posts")
    await item.get_by_text("2 posts in it").click()
    await expect(item.get_by_role("link", name="The second")).to_be_visible()
    assert await findings(page) == []


async def test_e1_marking_several_articles_shows_a_bar_that_undoes_it(
    pages: Visited, browser_page: Page
):
    page = browser_page
    await store_thread(pages)
    await page.set_viewport_size(PHONE)
    await page.goto(ARTICLES)
    await page.get_by_role("button", name="Aggregate 2 posts").click()
    await page.get_by_label("Choose all on this page").check()
    await page.get_by_label("Batch").fill("episode 2")
    await page.get_by_role("button", name="Mark chosen").click()
    await expect(page.get_by_text("3 articles are processed now.")).to_be_visible()
    assert await findings(page) == []
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(page.get_by_text("3 articles are unprocessed again.")).to_be_visible()
    await page.get_by_role("link", name="Processed", exact=True).click()
    await page.get_by_role("button", name="Undo the batch episode 1").click()
    await expect(page.get_by_text("1 article is unprocessed again.")).to_be_visible()
