"""The articles page: undo, batches, expiry, plans and deletion, without a script (E1, E2, E5)."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

from headwater.engine.followers import STORIES, handle_batch
from headwater.source_settings import AggregateBy
from headwater.web.posts_page import PAGE
from tests.api.stored_data import articles_of, posts_of, source_of
from tests.factories import a_post
from tests.store.store_data import a_post_of, newest_articles, newest_posts, with_posts
from tests.story_texts import TextGenerator
from tests.web.conftest import Visited
from tests.web.test_hosts_page import words
from tests.web.test_posts_browser import store_story
from tests.web.test_posts_page import store_new

ARTICLES = "/podcasts/default/articles"


async def states(pages: Visited) -> list[bool]:
    """Whether each article is processed, newest first."""
    return [a.is_processed for a in await newest_articles(pages.app.store, "default", limit=100)]


async def test_e1_the_page_after_marking_can_undo_it(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "a", "b", "c")
    ids = await articles_of(pages)
    answer = await pages.send(f"{ARTICLES}/processed?show=all", {"article": ids[:2]})
    html = await pages.text(answer.headers["Location"])
    assert "2 articles are processed now." in html
    bar = re.search(
        r'<form class="undo-bar" method="post" action="([^"]+)">(.*?)</form>', html, re.S
    )
    assert bar is not None
    hidden = re.findall(r'name="marked" value="([^"]+)"', bar[2])
    assert hidden == ids[:2]

    undone = await pages.send(unescape(bar[1]), {"marked": hidden})
    assert "2 articles are unprocessed again." in await pages.text(undone.headers["Location"])
    assert await states(pages) == [False, False, False]


async def test_e1_the_undo_bar_leaves_marks_of_others_alone(pages: Visited):
    """An article that was marked while the page was open keeps its mark and its batch."""
    await posts_of(pages, await source_of(pages), "a", "b")
    ids = await articles_of(pages)
    api = "/api/users/default/podcasts/default/articles/processed"
    await pages.post(api, {"ids": ids[:1], "batch": "episode 7"})
    answer = await pages.send(f"{ARTICLES}/processed?show=all", {"article": ids})
    html = await pages.text(answer.headers["Location"])
    assert re.findall(r'type="hidden" name="marked" value="([^"]+)"', html) == ids[1:]


async def test_e4_a_score_is_shown_as_a_number(pages: Visited):
    await posts_of(pages, await source_of(pages), "a", "b", "c")
    scores = 8.5, 11, None
    for id_, score in zip(await articles_of(pages), scores, strict=True):
        await pages.patch(f"/api/users/default/podcasts/default/articles/{id_}", {"score": score})
    html = await pages.text(ARTICLES)
    assert set(re.findall(r'aria-label="Score ([^"]+)"', html)) == {"8.5", "11"}
    assert set(re.findall(r">★ ([^<]+)<", html)) == {"8.5", "11"}


async def test_e4_articles_can_be_limited_by_score(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "low", "high", "none")
    api = "/api/users/default/podcasts/default/articles"
    await articles_of(pages)
    for article in (await pages.get(api)).json["items"]:
        score = {"low": 2, "high": 8.5}.get(article["body"])
        await pages.patch(f"{api}/{article['id']}", {"score": score})

    async def shown(query: str) -> list[str]:
        return re.findall(r"★ ([^<]+)<", await pages.text(f"{ARTICLES}?{query}"))

    assert sorted(await shown("")) == ["2", "8.5"]
    assert await shown("score=8.5") == ["8.5"]
    html = await pages.text(f"{ARTICLES}?score=9")
    assert "No articles match" in html
    assert 'name="score" step="any" value="9"' in html
    assert "show=processed&amp;score=9" in html


async def test_e1_a_batch_is_named_listed_and_undone(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages, aggregate=True), "a", "b")
    await posts_of(pages, await source_of(pages), "c")
    ids = await articles_of(pages)
    batch = 'episode <b>"1"'
    await pages.send(f"{ARTICLES}/processed", {"article": ids, "batch": batch})
    html = await pages.text(f"{ARTICLES}?show=processed")
    assert "<b>" not in html.partition("<main")[2]
    assert f"processed · {batch}" in words(html)
    assert re.search(r"Batches .*2 articles", words(html))

    answer = await pages.send(f"{ARTICLES}/unprocessed?show=processed", {"batch": batch})
    text = words(await pages.text(answer.headers["Location"]))
    assert "Undone: 2. Digests among them are deleted; 2 posts wait to be" in text
    assert "Aggregate 2 posts" in text
    gone = await pages.send(f"{ARTICLES}/unprocessed", {"batch": batch})
    assert gone.status == 422
    assert "Nothing was changed: there is no batch" in words(gone.body.decode())
    too_long = await pages.send(f"{ARTICLES}/processed", {"article": ids, "batch": "x" * 201})
    assert too_long.status == 422


async def test_e1_the_articles_of_a_batch_are_listed_page_by_page(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), *map(str, range(PAGE + 3)))
    ids = await articles_of(pages)
    batch, other = 'episode <b>"1" & more', "another"
    api = "/api/users/default/podcasts/default/articles/processed"
    await pages.post(api, {"ids": ids[1:], "batch": batch})
    await pages.post(api, {"ids": ids[:1], "batch": other})

    def of_batch(html: str) -> list[str]:
        return re.findall(r'name="marked" value="([^"]+)"', html)

    html = await pages.text(f"{ARTICLES}?show=processed")
    found = {unescape(url) for url in re.findall(r'href="([^"]+[?;]batch=[^"]+)"', html)}
    assert len(found) == 2
    by_name = {parse_qs(urlsplit(url).query)["batch"][0]: url for url in found}
    first = await pages.text(by_name[batch])
    assert of_batch(first) == ids[1 : PAGE + 1]
    assert f"Only articles of the batch {batch}" in words(first)
    assert f'<a class="button" href="{ARTICLES}?show=processed">' in first
    [later] = {unescape(url) for url in re.findall(r'href="([^"]+cursor=[^"]+)"', first)}
    second = await pages.text(later)
    assert of_batch(second) == ids[PAGE + 1 :]
    [action, *_] = re.findall(rf'value="{ids[-1]}" formaction="([^"]+)"', second)
    answer = await pages.send(unescape(action), {"marked": ids[-1]})
    assert of_batch(await pages.text(answer.headers["Location"])) == ids[PAGE + 1 : -1]
    assert of_batch(await pages.text(by_name[other])) == ids[:1]
    gone = words(await pages.text(f"{ARTICLES}?show=processed&batch=gone"))
    assert "No articles of this batch" in gone


async def test_e2_what_waits_is_counted_and_a_plan_shows_what_would_be_made(pages: Visited):
    await posts_of(pages, await source_of(pages, aggregate=True, label="River news"), "a", "b")
    html = await pages.text(ARTICLES)
    assert "Aggregate 2 posts" in words(html)
    [plan] = re.findall(r'href="([^"]+plan=1)"', html)
    text = words(await pages.text(unescape(plan)))
    assert "1 article of 2 posts. Nothing is stored yet." in text
    assert await newest_articles(pages.app.store, "default", limit=10) == []
    await pages.send(f"{ARTICLES}/aggregate")
    assert "Nothing: all posts are in articles already." in await pages.text(f"{ARTICLES}?plan=1")


async def test_e2_a_plan_names_the_copies_of_stories(pages_by_each: Visited):
    pages = pages_by_each
    await store_story(pages)
    text = words(await pages.text(f"{ARTICLES}?plan=1"))
    assert "Aggregate 2 posts" in text
    assert "1 article of 1 post and 1 copy of their stories. Nothing is stored yet." in text
    await articles_of(pages)
    assert "Nothing: all posts are in articles already." in await pages.text(f"{ARTICLES}?plan=1")

    await store_story(pages)  # in further sources
    text = words(await pages.text(f"{ARTICLES}?plan=1"))
    assert "Aggregate 2 posts" in text
    assert "No new articles: 2 copies of stories that have one. Nothing is stored yet." in text


async def test_e5_articles_show_when_they_expire_and_can_be_listed_by_it(pages: Visited):
    now = pages.app.clock.now()
    source = await source_of(pages)
    for days in (2, 6.5):
        at = now - timedelta(days=days)
        post = a_post_of(source, f"{days} days old", published_at=at, created_at=now)
        await with_posts(pages.app.store, source, post)
    await articles_of(pages)
    text = words(await pages.text(ARTICLES))
    assert "expires in 4 days" in text
    assert re.search(r"expires in 11 h", text)
    soon = words(await pages.text(f"{ARTICLES}?show=expiring"))
    assert "6.5 days old" in soon
    assert "2 days old" not in soon


async def test_digests_list_their_posts_with_links(pages: Visited):
    source = await source_of(pages, aggregate=True)
    posts = await posts_of(pages, source, "a", "b")
    await articles_of(pages)
    html = await pages.text(ARTICLES)
    part = re.search(r'<details class="parts">(.*?)</details>', html, re.S)
    assert part is not None
    assert "2 posts in it" in part[1]
    assert set(re.findall(r'href="([^"]+)"', part[1])) == {post.url for post in posts}


async def test_e3_threads_list_their_posts_and_a_follow_up_links_to_the_article_before(
    pages_by_each: Visited,
):
    pages = pages_by_each
    source = await source_of(pages, type="twitter", url="@ada", aggregate_by=AggregateBy.THREAD)
    at = pages.app.clock.now() - timedelta(hours=1)
    texts = ("First < of all", "Second", "Third")
    posts = [
        a_post_of(source, text, title=text, created_at=at, published_at=at, conversation_id="1")
        for text in texts
    ]
    await with_posts(pages.app.store, source, *posts[:2])
    (first,) = await articles_of(pages)
    html = await pages.text(ARTICLES)
    assert "thread of 2 posts" in words(html)
    part = re.search(r'<details class="parts">(.*?)</details>', html, re.S)
    assert part is not None
    assert "2 posts in it First < of all Second" in words(part[1])
    await pages.send(f"{ARTICLES}/processed", {"only": first})
    await with_posts(pages.app.store, source, posts[2])
    await articles_of(pages)

    html = await pages.text(ARTICLES)
    [link] = re.findall(r'<a href="([^"]+)">follow-up of an earlier article</a>', html)
    assert link == f"{ARTICLES}?article={first}"
    text = words(await pages.text(link))
    assert "First < of all processed thread of 2 posts" in text
    assert "Third" not in text
    await pages.text(f"{ARTICLES}?article=gone", status=404)


async def test_i2_articles_name_the_other_sources_of_their_story(pages_by_each: Visited):
    pages = pages_by_each
    await store_story(pages)
    await articles_of(pages)
    html = await pages.text(ARTICLES)
    assert html.count('<details class="also">') == 1
    part = re.search(r'<details class="also">(.*?)</details>', html, re.S)
    assert part is not None
    assert words(part[1]).startswith("Also from First paper First paper")
    assert re.search(r'href="[^"]+/story"', part[1])


async def test_i2_a_digest_does_not_compare_its_date_with_those_of_copies(pages: Visited):
    """Its date is that of another of its posts."""
    now, text = pages.app.clock.now().replace(microsecond=0), TextGenerator(1).text(90)
    digesting, single = await source_of(pages, aggregate=True), await source_of(pages)
    hours = {digesting: [(text, 3), ("Another post.", 1)], single: [(text[:-20], 2)]}
    for source, posts in hours.items():
        for body, age in posts:
            at = now - timedelta(hours=age)
            url = f"{source.url}/{age}"
            post = a_post(source_id=source.id, body=body, url=url, published_at=at, created_at=now)
            await with_posts(pages.app.store, source, post)
    await handle_batch(pages.app.store, STORIES)
    await articles_of(pages)
    html = await pages.text(ARTICLES)
    assert '<details class="also">' in html
    assert 'class="tag first"' not in html


async def test_e1_one_processed_article_is_undone(pages: Visited):
    await posts_of(pages, await source_of(pages), "a", "b")
    ids = await articles_of(pages)
    await pages.send(f"{ARTICLES}/processed", {"article": ids, "batch": "episode 1"})
    html = await pages.text(f"{ARTICLES}?show=all")
    [action, *_] = re.findall(rf'value="{ids[0]}" formaction="([^"]+)"', html)
    await pages.send(unescape(action), {"marked": ids[0], "batch": "another"})
    assert sorted(await states(pages)) == [False, True]


async def test_e2_an_article_is_deleted_with_or_without_its_posts(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "a", "b")
    first, second = await articles_of(pages)
    html = await pages.text(ARTICLES)
    assert f'formaction="{ARTICLES}/{first}/delete?show=unprocessed"' in html

    answer = await pages.send(f"{ARTICLES}/{first}/delete", {"posts": "free"})
    assert "Posts that wait to be aggregated again: 1." in await pages.text(
        answer.headers["Location"]
    )
    answer = await pages.send(f"{ARTICLES}/{second}/delete", {"posts": "drop"})
    assert "The article is deleted, with its posts: 1." in await pages.text(
        answer.headers["Location"]
    )
    assert await states(pages) == []
    assert len(await newest_posts(pages.app.store, podcast_id="default", limit=10)) == 1
    assert (await pages.send(f"{ARTICLES}/{first}/delete", {"posts": "free"})).status == 404


async def test_e2_deleting_an_article_on_a_later_page_returns_to_that_page(pages: Visited):
    await posts_of(pages, await source_of(pages), *map(str, range(PAGE + 2)))
    await articles_of(pages)
    html = await pages.text(f"{ARTICLES}?show=all")
    [later] = {unescape(url) for url in re.findall(r'href="([^"]+cursor=[^"]+)"', html)}
    html = await pages.text(later)
    [action, *_] = re.findall(r'formaction="([^"]+/delete[^"]+)"', html)
    answer = await pages.send(unescape(action), {"posts": "free"})
    location = urlsplit(answer.headers["Location"])
    kept = parse_qs(urlsplit(later).query)
    assert parse_qs(location.query) | kept == parse_qs(location.query)


async def test_b3_articles_are_searched_in_the_list_that_is_shown(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages)
    await store_new(pages, source, "sea", *(f"river {n}" for n in range(27)))
    await articles_of(pages)
    await pages.app.followers.catch_up()

    async def shown(url: str) -> list[str]:
        return re.findall(r'name="article" value="([^"]+)"', await pages.text(url))

    first = await pages.text(f"{ARTICLES}?q=river")
    [next_url] = re.findall(r'href="([^"]+cursor=[^"]+)" rel="next"', first)
    ids = [*(await shown(f"{ARTICLES}?q=river")), *(await shown(unescape(next_url)))]
    assert len(ids) == len(set(ids)) == 27
    assert len(await shown(f"{ARTICLES}?q=sea&show=all")) == 1
    assert "No articles match" in await pages.text(f"{ARTICLES}?q=sea&show=processed")
    second = await pages.text(unescape(next_url))
    [action] = re.findall(r'<form method="post" action="([^"]+/processed[^"]+)">', second)
    answer = await pages.send(unescape(action), {"only": ids[-1]})
    assert answer.headers["Location"].startswith(f"{ARTICLES}?show=unprocessed&q=river&cursor=")
    assert await shown(answer.headers["Location"]) == ids[25:-1]
    wrong = words(await pages.text(f"{ARTICLES}?q=(river", status=422))
    assert "At character 1: expected ) for this (." in wrong
