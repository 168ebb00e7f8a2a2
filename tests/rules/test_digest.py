"""How posts become articles."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import SourceType
from headwater.rules.admission import content_hash
from headwater.rules.digest import (
    MAX_CHARACTERS,
    MAX_POSTS,
    articles_from,
    digest_sizes,
    is_aggregating,
)
from tests.factories import NOW, a_policy, a_post, a_source

POLICY = a_policy()
NITTER = a_source(url="https://nitter.net/ada/rss")
MORNING = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def digest_of(*posts, source=NITTER):
    (article,) = articles_from(source, posts, NOW, POLICY)
    return article


@pytest.mark.parametrize(
    ("type_", "url", "wish", "aggregates"),
    [
        (SourceType.TWITTER, "@name", None, True),
        (SourceType.TWITTER, "@name", False, False),
        (SourceType.RSS, "https://nitter.net/name/rss", None, True),
        (SourceType.RSS, "https://NITTER.NET.:8080/name/rss", None, True),
        (SourceType.RSS, "https://eu.nitter.net/name/rss", None, True),
        (SourceType.RSS, "https://a.b.nitter.net/name/rss", None, True),
        (SourceType.RSS, "https://notnitter.net/name/rss", None, False),
        (SourceType.RSS, "https://nitter.net.example.org/rss", None, False),
        (SourceType.RSS, "https://example.org/nitter.net", None, False),
        (SourceType.RSS, "https://nitter.net/name/rss", False, False),
        (SourceType.RSS, "https://example.org/rss", None, False),
        (SourceType.RSS, "https://example.org/rss", True, True),
        (SourceType.WEBSITE, "https://example.org/", True, True),
        (SourceType.WEBSITE, "https://example.org/", None, False),
        (SourceType.RSS, "no url at all", None, False),
    ],
)
def test_a1_the_setting_of_the_source_counts_else_its_type_and_host(type_, url, wish, aggregates):
    assert is_aggregating(a_source(type=type_, url=url, aggregate=wish), POLICY) is aggregates


def test_a1_the_hosts_are_configured():
    policy = a_policy(aggregate_hosts=("status.example.org",))
    assert is_aggregating(a_source(url="https://status.example.org/rss"), policy)
    assert not is_aggregating(NITTER, policy)
    assert not is_aggregating(NITTER, a_policy(aggregate_hosts=()))


def test_a2_a_digest_has_its_posts_oldest_first_each_under_its_date():
    article = digest_of(
        a_post("late", published_at=MORNING + 5 * HOUR, author="@late"),
        a_post("early", published_at=MORNING, author="@ada"),
    )
    assert article.title == "Posts from @ada — Feb 16, 2026"
    assert article.body == (
        "2026-02-16T08:00:00Z\nThe early body.\n\n---\n\n2026-02-16T13:00:00Z\nThe late body."
    )
    assert article.author == "@ada"
    assert article.url == NITTER.url
    assert article.published_at == MORNING + 5 * HOUR
    assert article.content_hash == content_hash(article.body)
    assert article.source_id == NITTER.id
    assert article.created_at == NOW
    assert not article.is_processed


def test_a2_a_digest_links_all_its_posts_oldest_first():
    late, early = a_post("late"), a_post("early", published_at=MORNING)
    assert digest_of(late, early).post_ids == (early.id, late.id)


@pytest.mark.parametrize(
    ("newest", "day"),
    [
        (datetime(2026, 2, 16, 8, 0, tzinfo=UTC), "Feb 16, 2026"),
        (datetime(2026, 3, 1, 0, 0, tzinfo=UTC), "Mar 1, 2026"),
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), "Dec 31, 2026"),
        (datetime.fromisoformat("2026-05-09T23:30:00-02:00"), "May 10, 2026"),
        (datetime.fromisoformat("2026-09-10T00:30:00+09:00"), "Sep 9, 2026"),
    ],
)
def test_a2_the_title_has_the_day_of_the_newest_post_in_utc_without_a_leading_zero(newest, day):
    oldest = a_post("old", published_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert digest_of(oldest, a_post("new", published_at=newest)).title == f"Posts from Ada — {day}"


@pytest.mark.parametrize("author", [None, ""])
def test_a2_without_an_author_the_title_names_the_host(author):
    posts = [a_post("a", author=author, published_at=MORNING), a_post("b", author="Bob")]
    article = digest_of(*posts, source=a_source(url="https://EU.nitter.net:8080/ada/rss"))
    assert article.title == "Posts from eu.nitter.net — Feb 17, 2026"
    assert not article.author


def test_a2_the_host_of_an_x_source_is_x():
    source = a_source(type=SourceType.TWITTER, url="@ada")
    posts = [a_post("a", author=None), a_post("b", author=None)]
    assert digest_of(*posts, source=source).title.startswith("Posts from x.com — ")


def test_a2_undated_posts_are_ordered_by_storage_and_have_no_header():
    article = digest_of(
        a_post("third", published_at=MORNING + 2 * HOUR),
        a_post("second", published_at=None, created_at=MORNING + HOUR),
        a_post("first", published_at=MORNING),
    )
    assert article.body == (
        "2026-02-16T08:00:00Z\nThe first body."
        "\n\n---\n\nThe second body."
        "\n\n---\n\n2026-02-16T10:00:00Z\nThe third body."
    )


def test_a2_a_digest_of_undated_posts_is_dated_by_the_day_they_were_stored():
    posts = [a_post(name, published_at=None, created_at=MORNING) for name in ("a", "b")]
    article = digest_of(*posts)
    assert article.title == "Posts from Ada — Feb 16, 2026"
    assert sorted(article.body.split("\n\n---\n\n")) == ["The a body.", "The b body."]


def test_a2_a_header_is_in_utc_and_whole_seconds():
    zoned = datetime.fromisoformat("2026-02-16T09:30:00.999+01:30")
    body = digest_of(a_post("a", published_at=zoned), a_post("b")).body
    assert body.startswith("2026-02-16T08:00:00Z\nThe a body.")


@pytest.mark.parametrize("source", [NITTER, a_source(), a_source(aggregate=True)])
def test_a2_a_single_post_becomes_a_separate_article(source):
    post = a_post()
    article = digest_of(post, source=source)
    assert (article.title, article.body, article.url) == (post.title, post.body, post.url)
    assert (article.author, article.published_at) == (post.author, post.published_at)
    assert article.content_hash == post.content_hash
    assert article.post_ids == (post.id,)
    assert article.created_at == NOW


def test_a2_a_source_that_does_not_aggregate_gives_one_article_per_post():
    posts = [a_post("a"), a_post("b"), a_post("c", published_at=None)]
    articles = articles_from(a_source(), posts, NOW, POLICY)
    assert sorted(article.title for article in articles) == [post.title for post in posts]
    assert len({article.id for article in articles}) == 3


def test_a2_a_single_undated_post_stays_undated():
    assert digest_of(a_post(published_at=None)).published_at is None


def test_a2_no_posts_give_no_articles():
    assert articles_from(NITTER, [], NOW, POLICY) == []


posts = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.none() | st.datetimes(datetime(2026, 1, 1), datetime(2026, 3, 1)),
    ),
    min_size=2,
    max_size=8,
    unique_by=lambda pair: pair[0],
).map(
    lambda pairs: [
        a_post(str(n), published_at=date and date.replace(tzinfo=UTC)) for n, date in pairs
    ]
)


@given(posts, st.randoms(use_true_random=False))
def test_a3_the_order_of_the_posts_does_not_change_the_digest(stored, rng):
    shuffled = list(stored)
    rng.shuffle(shuffled)
    assert digest_of(*stored) == digest_of(*shuffled)


@given(posts, st.booleans())
def test_a2_every_post_is_linked_exactly_once(stored, wish):
    articles = articles_from(a_source(aggregate=wish), stored, NOW, POLICY)
    linked = [post_id for article in articles for post_id in article.post_ids]
    assert sorted(linked) == sorted(post.id for post in stored)
    assert len(articles) == (1 if wish else len(stored))


def test_a2_an_article_of_one_post_has_a_different_id():
    post = a_post("only")
    (article,) = articles_from(a_source(aggregate=False), [post], NOW, a_policy())
    assert article.id != post.id
    assert article.post_ids == (post.id,)


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([], []),
        ([0], [1]),
        ([1] * MAX_POSTS, [MAX_POSTS]),
        ([1] * (MAX_POSTS + 1), [MAX_POSTS, 1]),
        ([MAX_CHARACTERS // 2, MAX_CHARACTERS // 2], [2]),
        ([MAX_CHARACTERS // 2, MAX_CHARACTERS // 2, 1], [2, 1]),
        ([1, 5 * MAX_CHARACTERS, 1, 1], [1, 1, 2]),
    ],
)
def test_a2_the_size_of_a_digest_is_bounded(lengths, sizes):
    assert list(digest_sizes(lengths)) == sizes


def test_a2_posts_beyond_the_bound_continue_in_the_next_digest_oldest_first():
    posts = [a_post(str(n), published_at=MORNING + n * HOUR) for n in range(MAX_POSTS + 3)]
    first, second = articles_from(NITTER, posts[::-1], NOW, POLICY)
    assert first.post_ids == tuple(post.id for post in posts[:MAX_POSTS])
    assert second.post_ids == tuple(post.id for post in posts[MAX_POSTS:])
    assert first.id != second.id


def test_a2_a_single_remaining_post_becomes_a_separate_article():
    posts = [a_post(str(n), published_at=MORNING + n * HOUR) for n in range(MAX_POSTS + 1)]
    _, alone = articles_from(NITTER, posts, NOW, POLICY)
    assert alone.post_ids == (posts[-1].id,)
    assert (alone.title, alone.body) == (posts[-1].title, posts[-1].body)
