"""Which posts of a source are a thread, and what its article is made of (E3)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.model import Article, Post, Source, SourceType
from headwater.rules.admission import content_hash
from headwater.rules.digest import MAX_POSTS, articles_from
from headwater.rules.threads import ThreadArticle, ThreadContext, ThreadPost, is_threaded, x_url
from headwater.source_settings import AggregateBy
from tests.factories import NOW, a_policy, a_post, a_source

NITTER = a_source(url="https://nitter.net/ada/rss", aggregate_by=AggregateBy.THREAD)
X = a_source(type=SourceType.TWITTER, url="@ada", aggregate_by=AggregateBy.THREAD)
MORNING = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)


def a_tweet(name: str, minutes: float, marker: str = "", **changes: Any) -> Post:
    """A post on Nitter, some minutes after eight."""
    at = MORNING + timedelta(minutes=minutes)
    plain: dict[str, Any] = {
        "title": f"{marker}The {name} text.",
        "body": f"The {name} text.",
        "markdown": f"The *{name}* text.",
        "url": f"https://nitter.net/ada/status/{round(minutes * 100)}#m",
        "published_at": at,
        "author": "@ada",
        "created_at": at,
        "source_id": NITTER.id,
    }
    return a_post(name, **plain | changes)


def grouped(*posts: Post, source: Source = NITTER, **context: Any) -> list[list[str]]:
    """The names of the posts of each article."""
    names = {post.id: post.body.split()[1] for post in posts}
    made = articles_of(*posts, source=source, **context)
    return [[names[id_] for id_ in article.post_ids] for article in made]


def articles_of(*posts: Post, source: Source = NITTER, **context: Any) -> list[Article]:
    return articles_from(source, posts, NOW, a_policy(), ThreadContext(**context))


SELF = "R to @ada: "


@pytest.mark.parametrize(
    ("posts", "groups"),
    [
        ([("a", 0, ""), ("b", 1, SELF), ("c", 2, SELF)], ["a b c"]),
        ([("a", 0, ""), ("b", 60, SELF), ("c", 120, SELF)], ["a b c"]),  # of the previous post
        ([("a", 0, ""), ("b", 60.1, SELF), ("c", 61, SELF)], ["a", "b c"]),
        ([("a", 0, ""), ("b", 1, "R to @Ada: ")], ["a b"]),
        ([("a", 0, ""), ("b", 1, "")], ["a", "b"]),
        ([("a", 0, ""), ("b", 1, ""), ("c", 2, SELF)], ["a", "b c"]),
        ([("a", 0, ""), ("b", 1, "R to @bob: "), ("c", 2, SELF)], ["a c", "b"]),
        ([("a", 0, ""), ("b", 1, "RT by @ada: "), ("c", 2, SELF)], ["a c", "b"]),
        ([("a", 0, SELF), ("b", 1, SELF)], ["a b"]),  # the beginning is not stored
        ([("a", 0, "R to @bob: "), ("b", 1, "R to @bob: ")], ["a", "b"]),
        ([("a", 0, ""), ("b", 0, SELF), ("c", 0, SELF)], ["a b c"]),  # R9
    ],
)
def test_e3_a_reply_to_oneself_within_an_hour_continues_a_thread_on_nitter(posts, groups):
    made = [
        a_tweet(name, minutes, marker, id=f"019c6513-{number:04}")
        for number, (name, minutes, marker) in enumerate(posts)
    ]
    assert grouped(*reversed(made)) == [group.split() for group in groups]


def test_e3_posts_of_other_authors_are_not_in_a_thread():
    posts = [a_tweet("a", 0), a_tweet("b", 1, author="@bob"), a_tweet("c", 2, "R to @bob: ")]
    assert grouped(*posts) == [["a"], ["b"], ["c"]]
    assert grouped(a_tweet("a", 0), a_tweet("b", 1, SELF, author=None)) == [["a"], ["b"]]


def test_e3_posts_of_a_conversation_on_x_are_a_thread_also_after_hours():
    posts = [
        a_tweet("a", 0, conversation_id="1"),
        a_tweet("b", 1, conversation_id="2"),
        a_tweet("c", 2),  # a reply to another user
        a_tweet("d", 600, conversation_id="1"),
        a_tweet("e", 601),
    ]
    assert grouped(*posts, source=X) == [["a", "d"], ["b"], ["c"], ["e"]]


def test_e3_the_article_is_one_text_with_title_and_link_of_the_first_post():
    link = "The *second* text by [@ada](https://nitter.net/ada), see [it](https://NITTER.net/bob/status/7#m)"
    pictures = "and [more](https://nitter.net/pic/1.jpg)"
    posts = [a_tweet("first", 0), a_tweet("second", 1, SELF, markdown=f"{link} {pictures}")]
    (article,) = articles_of(*posts)
    assert article.title == "The first text."
    assert article.url == "https://x.com/ada/status/0"
    assert article.body == "The first text.\n\nThe second text."
    assert article.markdown == (
        "The *first* text.\n\nThe *second* text by [@ada](https://x.com/ada), "
        "see [it](https://x.com/bob/status/7) and [more](https://nitter.net/pic/1.jpg)"
    )
    assert article.author == "@ada"
    assert article.published_at == MORNING + timedelta(minutes=1)
    assert article.content_hash == content_hash(article.body)
    assert (article.thread_id, article.follow_up_of) == (posts[0].id, None)


@pytest.mark.parametrize(
    ("feed", "link", "expected"),
    [
        ("https://nitter.net/ada/rss", "https://nitter.net/ada/status/1", "ada/status/1"),
        ("http://my.host:81/ada/with_replies/rss", "http://my.host:81/a/status/1#m", "a/status/1"),
        ("https://u:p@nitter.net/ada/rss", "https://nitter.net/ada/status/1?s=2", "ada/status/1"),
        ("https://nitter.net/ada/rss", "https://other.net/ada/status/1", None),
        ("https://nitter.net/ada/rss", "https://nitter.net/ada", None),
        ("https://nitter.net/ada/rss", "https://[", None),
        ("https://example.org/feed.xml", "https://example.org/ada/status/1", None),
    ],
)
def test_e3_links_to_posts_on_nitter_are_links_to_x(feed, link, expected):
    found = x_url(replace(NITTER, url=feed), link)
    assert found == (link if expected is None else f"https://x.com/{expected}")


def test_e3_a_source_is_threaded_unless_it_is_not_aggregated():
    assert is_threaded(NITTER)
    assert is_threaded(replace(NITTER, url="https://example.org/rss"))
    assert not is_threaded(replace(NITTER, aggregate=False))
    assert not is_threaded(a_source(aggregate=True))
    posts = [a_tweet("a", 0), a_tweet("b", 1, SELF)]
    assert grouped(*posts, source=replace(NITTER, aggregate=False)) == [["a"], ["b"]]


def known(name: str, minutes: float, *posts: Post, **changes: Any) -> ThreadArticle:
    at = MORNING + timedelta(minutes=minutes)
    plain = ThreadArticle(id=name, thread_id="1", seq=7, newest_at=at, posts=posts)
    return replace(plain, **changes)


def test_e3_a_reply_to_a_closed_article_is_a_follow_up_of_the_last_one_before_it():
    reply = a_tweet("late", 90, conversation_id="1")
    others = (known("later", 95), known("last", 80), known("first", 0))
    (article,) = articles_of(reply, source=X, articles=others)
    assert (article.follow_up_of, article.seq) == ("last", None)
    assert article.body == "The late text."
    (article,) = articles_of(reply, source=X, articles=(known("x", 0, thread_id="2"),))
    assert article.follow_up_of is None


def test_e3_a_reply_to_an_open_article_extends_it():
    first, reply = (a_tweet(n, m, conversation_id="1") for n, m in (("first", 0), ("late", 90)))
    open_ = known("open", 0, first, kept_until=NOW)
    (article,) = articles_of(reply, source=X, articles=(open_, known("before", -9)))
    assert (article.id, article.seq, article.follow_up_of) == ("open", 7, "before")
    assert article.body == "The first text.\n\nThe late text."
    assert article.post_ids == (first.id, reply.id)
    assert article.published_at == reply.published_at
    assert article.kept_until == NOW


def test_e3_an_article_that_would_get_too_long_is_not_extended():
    many = [a_tweet(str(n), 0, conversation_id="1") for n in range(MAX_POSTS)]
    reply = a_tweet("late", 90, conversation_id="1")
    (article,) = articles_of(reply, source=X, articles=(known("full", 0, *many),))
    assert (article.follow_up_of, article.seq) == ("full", None)


def nearby(name: str, minutes: float, marker: str = "", **changes: Any) -> ThreadPost:
    at = MORNING + timedelta(minutes=minutes)
    return replace(ThreadPost(name, f"{marker}Text", "@ada", at), **changes)


def test_e3_posts_that_are_not_aggregated_now_connect_others_on_nitter():
    posts = [a_tweet("a", 0), a_tweet("c", 100, SELF)]
    assert grouped(*posts) == [["a"], ["c"]]
    hidden = nearby("b", 50, SELF)
    assert grouped(*posts, nearby=(hidden,)) == [["a", "c"]]


def test_e3_a_reply_on_nitter_finds_the_thread_of_the_post_before_it():
    before = nearby("a", 0, thread_id="1")
    (article,) = articles_of(a_tweet("b", 9, SELF), nearby=(before,), articles=(known("x", 0),))
    assert (article.thread_id, article.follow_up_of) == ("1", "x")


def test_t4_a_thread_waits_for_the_pages_of_all_its_posts():
    posts = [
        a_tweet("b", 1, SELF),
        a_tweet("c", 2, SELF),
        a_tweet("d", 3),
        a_tweet("e", 4, "R to @b: "),
    ]
    pending = nearby("a", 0, is_pending=True)
    assert grouped(*posts, nearby=(pending,)) == [["d"], ["e"]]
    assert grouped(*posts, nearby=(replace(pending, is_pending=False),)) == [
        ["b", "c"],
        ["d"],
        ["e"],
    ]
