"""Posts and articles on their pages: escaped, aggregated, marked, and private."""

import re
from html import unescape
from typing import Any

import pytest

from headwater.engine.followers import STORIES, handle_batch
from headwater.model import Post, Source
from tests.api.stored_data import articles_of, posts_of, source_of
from tests.factories import a_post
from tests.store.store_data import newest_articles, newest_posts, with_posts
from tests.web.conftest import Visited
from tests.web.test_hosts_page import EVIL, words
from tests.web.test_posts_browser import store_story

POSTS, ARTICLES = "/podcasts/default/posts", "/podcasts/default/articles"
FRESH = {"title": "Fresh"}


def ids_in(html: str) -> list[str]:
    """The articles that can be selected."""
    return re.findall(r'name="article" value="([^"]+)"', html)


async def store_new(
    pages: Visited, source: Source, *bodies: str, score: float | None = None
) -> None:
    """Store posts that get their numbers now."""
    now = pages.app.clock.now().replace(microsecond=0)
    same: dict[str, Any] = {"source_id": source.id, "created_at": now, "published_at": None}
    posts = [a_post(body=body, url=f"{source.url}/{body}", **same) for body in bodies]
    await with_posts(pages.app.store, source, *posts)
    sql = "UPDATE posts SET score = :score WHERE body IN :bodies"
    await pages.app.store.database.execute(sql, {"score": score, "bodies": list(bodies)})


async def processed(pages: Visited) -> list[bool]:
    """Whether each article is processed, newest first."""
    found = await newest_articles(pages.app.store, "default", limit=100)
    return [article.is_processed for article in found]


async def test_posts_are_shown_newest_first_with_their_source(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages, label="River news", url="https://a.example/feed")
    long = "The river rose. " * 60
    await posts_of(pages, source, "Short and new", long.strip(), author="Ann Weir")
    html = await pages.text(POSTS)
    text = words(html)
    assert text.index("Short and new") < text.index("The river rose.")
    assert re.search(r"River news stored (now|\d+ s ago) by Ann Weir", text)
    assert long.strip() not in html
    [url] = re.findall(rf'href="({POSTS}/[^"]+)">The first title', html)[1:]
    assert f'<div class="as-is">{long.strip()}</div>' in await pages.text(url)
    assert f'href="{POSTS}?source={source.id}"' in html


async def test_i2_the_overview_shows_a_story_once(pages_by_each: Visited):
    pages = pages_by_each
    await store_story(pages)
    assert (await pages.text("/")).count('id="of-') == 1
    await pages.put("/api/users/default/podcasts/default", {"name": "default", "stories": False})
    assert (await pages.text("/")).count('id="of-') == 2


async def test_i2_the_posts_page_does_not_present_a_processed_story_again(pages_by_each: Visited):
    pages = pages_by_each
    await store_story(pages)
    await articles_of(pages)
    store, now = pages.app.store, pages.app.clock.now().replace(microsecond=0)
    [used] = await newest_articles(store, "default", limit=10)
    await store.articles.mark_processed("default", [used.id], now)
    source = await source_of(pages, label="Late paper")
    url = f"{source.url}/late"
    late = a_post(source_id=source.id, body=f"{used.body} And more.", url=url, created_at=now,
                  published_at=now)  # fmt: skip
    await with_posts(store, source, late)
    await handle_batch(store, STORIES)
    shown = await pages.text(POSTS)
    assert re.findall('<li data-post="([^"]+)"', shown) == list(used.post_ids)
    assert url in shown  # in "Also from"


async def test_i2_a_search_finds_a_story_by_each_of_its_posts(pages_by_each: Visited):
    pages = pages_by_each
    await store_story(pages)
    await pages.app.followers.catch_up()

    async def shown(query: str) -> list[str]:
        html = await pages.text(f"{POSTS}?{query}")
        return re.findall(r'title="Only posts of this source">([^<]+)<', html)

    assert await shown("") == ["Second paper"]  # the fullest text
    assert await shown("q=source:first") == ["First paper"]
    assert await shown("q=source:second") == ["Second paper"]
    assert await shown("q=source:paper") == ["Second paper"]
    assert await shown("q=source:paper&order=rank") == ["Second paper"]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# High flood_s\n\nIt rose.", "It rose."),
        ("## [High **flood\\_s**](https://river.invalid/a_1)\n\nIt rose.", "It rose."),
        ("High flood\\_s!\n\nIt rose.", "It rose."),
        ("# Other\n\nIt rose.", "Other It rose."),
        ("High flood\\_s\nIt rose.", "High flood_s It rose."),
        ("High flood\\_s", "High flood_s"),
    ],
)
async def test_t1_a_beginning_that_repeats_the_title_is_left_out(
    pages: Visited, markdown: str, shown: str
):
    source = await source_of(pages)
    [post] = await posts_of(pages, source, "It rose.", title="High flood_s", markdown=markdown)
    text = words(await pages.text(f"{POSTS}/{post.id}")).partition("original page ")[2]
    assert text.startswith(f"{shown} Headwater")  # the footer


async def test_the_categories_of_a_post_are_shown(pages: Visited):
    [post] = await posts_of(
        pages, await source_of(pages), "It rose.", categories=("Rivers", "<b>Floods")
    )
    html = await pages.text(f"{POSTS}/{post.id}")
    assert "Categories: Rivers, &lt;b&gt;Floods" in html


async def test_without_posts_the_page_explains_where_they_come_from(pages: Visited):
    html = await pages.text(POSTS)
    assert "No posts yet" in html
    assert "/podcasts/default/add" in html
    source = await source_of(pages)
    assert "has no posts yet" in await pages.text(f"{POSTS}?source={source.id}")


async def test_b1_of_a_wrong_query_only_the_error_is_shown(pages: Visited):
    await posts_of(pages, await source_of(pages), "one")
    text = words(await pages.text(f"{POSTS}?q=bank+AND+(", status=422))
    assert "No posts" not in text
    assert "Choose a post" not in text


async def test_posts_can_be_filtered_by_source(pages: Visited):
    one, two = await source_of(pages, label="One"), await source_of(pages, label="Two")
    await posts_of(pages, one, "first")
    await posts_of(pages, two, "second")
    text = words(await pages.text(f"{POSTS}?source={one.id}"))
    assert "Only posts of One" in text
    assert "first" in text
    assert "second" not in text


async def test_b3_posts_can_be_limited_by_score_and_processing(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages)
    await store_new(pages, source, "first")
    ids = await articles_of(pages)
    await pages.app.store.articles.mark_processed("default", ids, pages.app.clock.now())
    await store_new(pages, source, "second", score=0.4)
    await store_new(pages, source, "third", score=0.9)
    await pages.app.followers.catch_up()

    async def shown(query: str) -> list[str]:
        html = await pages.text(f"{POSTS}?{query}")
        return sorted(re.findall(r'<p class="excerpt">([^<]+)</p>', html))

    assert await shown("score=0.5") == ["third"]
    assert await shown("processed=true") == ["first"]
    assert await shown("processed=false") == ["second", "third"]
    assert await shown("score=0.4&q=second") == await shown("score=nan&q=second") == ["second"]
    assert await shown("processed=x") == ["first", "second", "third"]
    assert "No posts match" in await pages.text(f"{POSTS}?score=5")


async def test_arrivals_are_the_new_posts_of_the_list(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages)
    await store_new(pages, source, "seen")

    async def counted(html: str) -> dict[str, Any]:
        [url] = re.findall(r'data-count-url="([^"]+)"', html)
        return dict((await pages.get(unescape(url))).json)

    lists = ["", "?score=0.5", "?q=river", f"?source={source.id}", "?until=2001-01-01", "?q=-sea"]
    before = [await pages.text(f"{POSTS}{query}") for query in lists]
    assert [await counted(html) for html in before] == [{"count": 0, "more": False}] * len(lists)
    await store_new(pages, source, "river", score=0.7)
    await store_new(pages, await source_of(pages), "sea")
    await pages.app.followers.catch_up()
    assert [(await counted(html))["count"] for html in before] == [2, 1, 1, 1, 0, 1]
    await store_new(pages, source, *(f"river {n}" for n in range(30)))
    await pages.app.followers.catch_up()
    assert await counted(before[0]) == await counted(before[2]) == {"count": 25, "more": True}
    assert "data-count-url" not in await pages.text(f"{POSTS}?q=(", status=422)


async def test_posts_are_paged_and_new_posts_do_not_disturb_pages(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages)
    await posts_of(pages, source, *(f"body {n:02}" for n in range(30)))
    for path in (POSTS, f"{POSTS}?source={source.id}"):
        first = await pages.text(path)
        await posts_of(pages, source, f"much newer, seen on {path}")
        [next_url] = re.findall(r'href="([^"]+cursor=[^"]+)" rel="next"', first)
        second = await pages.text(unescape(next_url))
        shown = re.findall(r"body \d\d", words(first + second))
        assert [int(name[5:]) for name in shown] == sorted({int(name[5:]) for name in shown})
        assert "much newer" not in second
        assert "First page" in second
    assert (await pages.get(f"{POSTS}?cursor=nonsense")).status == 422


async def test_u4_foreign_text_is_escaped_and_links_are_harmless(pages: Visited):
    source = await source_of(pages, label=f"Label {EVIL}")
    long = (EVIL + " ") * 30
    await posts_of(pages, source, long, title=f"Title {EVIL}", author=f"Author {EVIL}",
                   url="https://a.example/\"><script>alert(3)</script>")  # fmt: skip
    await posts_of(pages, source, "two", url="javascript:alert(4)", title="No link")
    await posts_of(pages, source, "three", url="data:text/html,x", title="No link either")
    await articles_of(pages)
    read = [
        f"{POSTS}/{post.id}"
        for post in await newest_posts(pages.app.store, podcast_id="default", limit=9)
    ]
    for path in (POSTS, ARTICLES, *read):
        html = await pages.text(path)
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "javascript:" not in html
        assert "data:text" not in html
        outside = re.findall(r'<a href="https?:[^>]*>', html)
        assert all('rel="noopener noreferrer nofollow"' in link for link in outside)
    assert f"Title {EVIL}" in words(await pages.text(POSTS))
    assert re.search(r'<a href="https?:', await pages.text(ARTICLES))


async def test_aggregation_reports_the_new_articles(pages_by_each: Visited):
    pages = pages_by_each
    plain, digest = await source_of(pages), await source_of(pages, aggregate=True)
    assert "Nothing waits" in await pages.text(ARTICLES)
    await posts_of(pages, plain, "one", "two")
    await posts_of(pages, digest, "three", "four", "five")
    [action] = re.findall(r'action="([^"]+/aggregate)"', await pages.text(ARTICLES))
    answer = await pages.send(action)
    assert answer.status == 303
    text = words(await pages.text(answer.headers["Location"]))
    assert "3 articles made of 5 posts." in text
    assert "digest of 3 posts" in text
    again = await pages.send(f"{ARTICLES}/aggregate")
    assert "Nothing to do" in await pages.text(again.headers["Location"])
    await posts_of(pages, plain, "six")
    one = await pages.send(f"{ARTICLES}/aggregate")
    assert "1 article made. Posts in it: 1." in await pages.text(one.headers["Location"])


async def test_a_digest_keeps_its_line_breaks(pages: Visited):
    digest = await source_of(pages, aggregate=True)
    await posts_of(pages, digest, "The newer one", "The older one")
    await articles_of(pages)
    html = await pages.text(ARTICLES)
    [whole] = re.findall(r'<div class="whole rendered"[^>]*>(.*?)</div>', html, re.DOTALL)
    assert whole.count("<h3>") == 0 and whole.count("<h4>") == 2  # a heading for every post (T1)
    assert whole.count("<p>The older one</p>") == whole.count("<p>The newer one</p>") == 1
    assert "The first title · The first title Read all" in words(html)  # its headlines


async def test_an_article_can_be_marked_repeatedly(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "one", "two")
    newest, _ = await articles_of(pages)
    fields: dict[str, Any] = {"only": newest, "article": "chosen, but another button was pressed"}
    for said in ("1 article is processed now.", "they were processed already"):
        answer = await pages.send(f"{ARTICLES}/processed?show=all", fields)
        assert answer.headers["Location"].startswith(f"{ARTICLES}?show=all&")
        assert said in await pages.text(answer.headers["Location"])
    assert await processed(pages) == [True, False]


async def test_chosen_articles_are_marked_together(pages: Visited):
    await posts_of(pages, await source_of(pages), "one", "two", "three")
    await articles_of(pages)
    ids = ids_in(await pages.text(ARTICLES))
    assert len(ids) == 3
    answer = await pages.send(f"{ARTICLES}/processed", {"article": ids[:2]})
    html = await pages.text(answer.headers["Location"])
    assert "2 articles are processed now." in html
    assert ids_in(html) == ids[2:]
    assert words(await pages.text(f"{ARTICLES}?show=processed")).count(" processed ") == 2
    assert ids_in(await pages.text(f"{ARTICLES}?show=all")) == ids[2:]


async def test_an_empty_selection_is_reported(pages: Visited):
    await posts_of(pages, await source_of(pages), "one")
    await articles_of(pages)
    answer = await pages.send(f"{ARTICLES}/processed")
    assert answer.status == 422
    assert b"Choose the articles to mark first." in answer.body
    assert len(ids_in(answer.body.decode())) == 1


async def test_if_an_article_was_deleted_none_is_marked(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "one")
    [known] = await articles_of(pages)
    for unknown in ("nobody's", "x" * 9999, "é"):
        answer = await pages.send(f"{ARTICLES}/processed", {"article": [known, unknown]})
        assert answer.status == 422
        assert b"gone, so none was marked" in answer.body
    assert (await pages.send(f"{ARTICLES}/processed", {"article": "\0"})).status == 422
    assert await processed(pages) == [False]


async def test_articles_are_paged_and_marking_stays_on_the_page(pages: Visited):
    await posts_of(pages, await source_of(pages), *(f"body {n}" for n in range(30)))
    await articles_of(pages)
    first = await pages.text(f"{ARTICLES}?show=all")
    [next_url] = re.findall(r'href="([^"]+cursor=[^"]+)" rel="next"', first)
    second = await pages.text(unescape(next_url))
    assert len(ids_in(first)) == 25
    assert len(ids_in(second)) == 5
    assert not set(ids_in(first)) & set(ids_in(second))
    [action] = re.findall(r'action="([^"]+/processed[^"]*)"', second)
    answer = await pages.send(unescape(action), {"only": ids_in(second)[0]})
    assert answer.status == 303, (action, words(answer.body.decode()))
    after = await pages.text(answer.headers["Location"])
    assert ids_in(after) == ids_in(second)[1:]
    assert (await pages.get(f"{ARTICLES}?cursor=nonsense")).status == 422


async def test_the_feeds_are_linked_with_login_instructions(pages: Visited):
    html = await pages.text(ARTICLES)
    assert "No login is needed on this machine" in html
    for kind in ("atom", "json"):
        path = f"/api/users/default/podcasts/default/feed.{kind}"
        assert f'href="{path}"' in html
        assert (await pages.get(path)).status == 200
    admin = await pages.admin()
    assert "an access token as its password" in await pages.text(ARTICLES, token=admin)


async def test_u2_users_neither_see_nor_change_objects_of_others(pages_by_each: Visited):
    pages = pages_by_each
    ann, bob = await pages.person("ann"), await pages.person("bob")
    podcast = await pages.podcast("ann", "ann")
    theirs = await pages.podcast("bob", "bob")
    source = await source_of(pages, "ann")
    await posts_of(pages, source, "a secret of hers")
    [article] = await articles_of(pages, "ann")
    base, own = f"/podcasts/{podcast.id}", f"/podcasts/{theirs.id}"
    assert "a secret of hers" in await pages.text(f"{base}/posts", token=ann)
    post = (await newest_posts(pages.app.store, podcast_id=podcast.id, limit=1))[0].id
    for path in (f"{base}/posts", f"{base}/posts/{post}", f"{own}/posts/{post}",
                 f"{base}/articles", f"{own}/posts?source={source.id}",
                 "/podcasts/nobody/posts", f"{own}/posts?source=nobody"):  # fmt: skip
        html = await pages.text(path, status=404, token=bob)
        assert "There is nothing here" in html
        assert "secret" not in html
    for path, status in ((f"{base}/posts/{post}/story/undo", 404),
                         (f"{own}/posts/{post}/story/undo", 404),
                         (f"{base}/articles/aggregate", 404), (f"{base}/articles/processed", 404),
                         (f"{own}/articles/processed", 422)):  # fmt: skip
        answer = await pages.send(path, {"article": article}, token=bob)
        assert answer.status == status, path
        assert b"secret" not in answer.body
    [found] = await newest_articles(pages.app.store, podcast.id, limit=10)
    assert not found.is_processed


async def test_u3_a_get_request_changes_nothing(pages: Visited):
    await posts_of(pages, await source_of(pages), "one")
    for action in ("aggregate", "processed"):
        answer = await pages.get(f"{ARTICLES}/{action}")
        assert (answer.status, answer.headers["Location"]) == (303, ARTICLES)
    assert await processed(pages) == []


async def test_u6_the_secrets_of_a_source_are_masked_where_its_posts_are_listed(pages: Visited):
    source = await source_of(pages, label=None, url="https://user:pass@a.example/f?token=geheim")
    posts: list[Post] = await posts_of(pages, source, "x", **FRESH)
    html = await pages.text(POSTS)
    assert posts[0].title in html
    assert "geheim" not in html  # U6
    assert "user:pass" not in html


async def test_b2_filtered_posts_are_shown_on_request(pages: Visited):
    source = await source_of(pages)
    hidden, shown = await posts_of(pages, source, "an advertisement", "the news")
    sql = "UPDATE posts SET filtered_by = 'source.block' WHERE id = :id"
    await pages.app.store.database.execute(sql, {"id": hidden.id})
    for query, expected in (("", [shown]), ("?filtered=only", [hidden]),
                            ("?filtered=any", [hidden, shown])):  # fmt: skip
        html = await pages.text(POSTS + query)
        assert re.findall(r'<li data-post="([^"]+)"', html) == [post.id for post in expected]
    assert "hidden by the filter source.block" in words(await pages.text(f"{POSTS}/{hidden.id}"))
