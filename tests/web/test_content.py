"""Posts and articles on their pages: shown as text, aggregated, marked, and nobody else's."""

import re
from html import unescape
from typing import Any

from headwater.model import Post
from tests.api.filling import articles_of, posts_of, source_of
from tests.web.conftest import Visited
from tests.web.test_hosts import EVIL, words

POSTS, ARTICLES = "/podcasts/default/posts", "/podcasts/default/articles"
FRESH = {"title": "Fresh"}


def ids_in(html: str) -> list[str]:
    """The articles that can be chosen."""
    return re.findall(r'name="article" value="([^"]+)"', html)


async def processed(pages: Visited) -> list[bool]:
    """Of every article whether it is processed, newest first."""
    found = await pages.app.store.articles.newest("default", limit=100)
    return [article.is_processed for article in found]


async def test_posts_are_shown_newest_first_with_where_they_are_from(pages_by_each: Visited):
    pages = pages_by_each
    source = await source_of(pages, label="River news", url="https://a.example/feed")
    long = "The river rose. " * 60
    await posts_of(pages, source, "Short and new", long.strip(), author="Ann Weir")
    html = await pages.text(POSTS)
    text = words(html)
    assert text.index("Short and new") < text.index("The river rose.")
    assert re.search(r"River news stored (now|\d+ s ago) by Ann Weir", text)
    assert html.count("<details") == 1  # the short one is whole as it is
    assert f'aria-label="The whole text">{long.strip()}</div>' in html
    assert f'href="{POSTS}?source={source.id}"' in html


async def test_without_posts_the_page_teaches_how_they_come(pages: Visited):
    html = await pages.text(POSTS)
    assert "No posts yet" in html
    assert "/podcasts/default/add" in html
    source = await source_of(pages)
    assert "brought nothing so far" in await pages.text(f"{POSTS}?source={source.id}")


async def test_posts_of_one_source_alone(pages: Visited):
    one, two = await source_of(pages, label="One"), await source_of(pages, label="Two")
    await posts_of(pages, one, "first")
    await posts_of(pages, two, "second")
    text = words(await pages.text(f"{POSTS}?source={one.id}"))
    assert "Only posts of One" in text
    assert "first" in text
    assert "second" not in text


async def test_posts_come_in_pages_that_new_posts_do_not_disturb(pages_by_each: Visited):
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


async def test_u4_what_strangers_wrote_is_text_and_links_are_harmless(pages: Visited):
    source = await source_of(pages, label=f"Label {EVIL}")
    long = (EVIL + " ") * 30
    await posts_of(pages, source, long, title=f"Title {EVIL}", author=f"Author {EVIL}",
                   url="https://a.example/\"><script>alert(3)</script>")  # fmt: skip
    await posts_of(pages, source, "two", url="javascript:alert(4)", title="No link")
    await posts_of(pages, source, "three", url="data:text/html,x", title="No link either")
    await articles_of(pages)
    for path in (POSTS, ARTICLES):
        html = await pages.text(path)
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "javascript:" not in html
        assert "data:text" not in html
        outside = re.findall(r'<a href="https?:[^>]*>', html)
        assert outside
        assert all('rel="noopener noreferrer nofollow"' in link for link in outside)
        assert f"Title {EVIL}" in words(html)


async def test_aggregation_says_what_it_made(pages_by_each: Visited):
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
    assert "No post waited" in await pages.text(again.headers["Location"])
    await posts_of(pages, plain, "six")
    one = await pages.send(f"{ARTICLES}/aggregate")
    assert "1 article made. Posts in it: 1." in await pages.text(one.headers["Location"])


async def test_a_digest_keeps_its_lines(pages: Visited):
    digest = await source_of(pages, aggregate=True)
    await posts_of(pages, digest, "The newer one", "The older one")
    await articles_of(pages)
    html = await pages.text(ARTICLES)
    [whole] = re.findall(r'<div class="whole"[^>]*>(.*?)</div>', html, re.DOTALL)
    assert whole == "The older one\n\n---\n\nThe newer one"
    assert "The older one · The newer one" in words(html)


async def test_one_article_is_marked_and_marking_it_again_does_no_harm(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "one", "two")
    newest, _ = await articles_of(pages)
    fields: dict[str, Any] = {"only": newest, "article": "chosen, but another button was pressed"}
    for said in ("1 article is processed now.", "they were processed already"):
        answer = await pages.send(f"{ARTICLES}/processed?show=all", fields)
        assert answer.headers["Location"].startswith(f"{ARTICLES}?show=all&done=")
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


async def test_whoever_chose_nothing_is_told_so(pages: Visited):
    await posts_of(pages, await source_of(pages), "one")
    await articles_of(pages)
    answer = await pages.send(f"{ARTICLES}/processed")
    assert answer.status == 422
    assert b"Choose the articles to mark first." in answer.body
    assert len(ids_in(answer.body.decode())) == 1


async def test_an_article_that_is_gone_meanwhile_marks_none(pages_by_each: Visited):
    pages = pages_by_each
    await posts_of(pages, await source_of(pages), "one")
    [known] = await articles_of(pages)
    for unknown in ("nobody's", "x" * 9999, "é"):
        answer = await pages.send(f"{ARTICLES}/processed", {"article": [known, unknown]})
        assert answer.status == 422
        assert b"gone, so none was marked" in answer.body
    assert (await pages.send(f"{ARTICLES}/processed", {"article": "\0"})).status == 422
    assert await processed(pages) == [False]


async def test_articles_come_in_pages_and_marking_stays_on_them(pages: Visited):
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


async def test_the_feeds_are_linked_with_how_a_reader_logs_in(pages: Visited):
    html = await pages.text(ARTICLES)
    assert "No login is needed on this machine" in html
    for kind in ("atom", "json"):
        path = f"/api/users/default/podcasts/default/feed.{kind}"
        assert f'href="{path}"' in html
        assert (await pages.get(path)).status == 200
    admin = await pages.admin()
    assert "an access token as its password" in await pages.text(ARTICLES, token=admin)


async def test_u2_nobody_sees_or_touches_what_is_somebody_elses(pages_by_each: Visited):
    pages = pages_by_each
    ann, bob = await pages.person("ann"), await pages.person("bob")
    podcast = await pages.podcast("ann", "ann")
    theirs = await pages.podcast("bob", "bob")
    source = await source_of(pages, "ann")
    await posts_of(pages, source, "a secret of hers")
    [article] = await articles_of(pages, "ann")
    base, own = f"/podcasts/{podcast.id}", f"/podcasts/{theirs.id}"
    assert "a secret of hers" in await pages.text(f"{base}/posts", token=ann)
    for path in (f"{base}/posts", f"{base}/articles", f"{own}/posts?source={source.id}",
                 "/podcasts/nobody/posts", f"{own}/posts?source=nobody"):  # fmt: skip
        html = await pages.text(path, status=404, token=bob)
        assert "There is nothing here" in html
        assert "secret" not in html
    for path, status in ((f"{base}/articles/aggregate", 404), (f"{base}/articles/processed", 404),
                         (f"{own}/articles/processed", 422)):  # fmt: skip
        answer = await pages.send(path, {"article": article}, token=bob)
        assert answer.status == status, path
        assert b"secret" not in answer.body
    [found] = await pages.app.store.articles.newest(podcast.id, limit=10)
    assert not found.is_processed


async def test_u3_following_a_link_does_nothing(pages: Visited):
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
