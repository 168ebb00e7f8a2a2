"""Posts keep the order of their source (R9)."""

from datetime import datetime, timedelta
from itertools import permutations

import pytest

from headwater.rules.admission import id_with_seq, numbered, timed_id
from headwater.rules.digest import articles_from
from tests.factories import NOW, a_policy, a_post, a_source, an_entry
from tests.rules.poll_outcomes import succeed

SECOND = timedelta(seconds=1)
A, B, C = NOW - 3 * SECOND, NOW - 2 * SECOND, NOW - SECOND


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ([C, B, A], "cba"),
        ([A, B, C], "abc"),
        ([B, C, A], "cab"),
        ([B, B, B], "cba"),  # newest first, unless dates indicate otherwise
        ([None, None, None], "cba"),
        ([C, A, A], "cba"),
        ([A, A, C], "abc"),
        ([None, C, C], "cba"),
        ([A, None, None], "acb"),  # one date shows no order
        ([NOW + 2 * SECOND, NOW + SECOND, None], "cba"),
    ],
)
def test_r9_the_posts_of_a_poll_are_oldest_first(dates: list[datetime | None], expected: str):
    entries = [an_entry(name, published_at=date) for name, date in zip("abc", dates, strict=True)]
    posts = succeed(a_source(), *entries).posts
    assert "".join(post.url[-1] for post in posts) == expected


def test_r9_the_order_of_a_document_is_known_from_entries_that_are_not_new():
    entries = [
        an_entry(name, published_at=date) for name, date in zip("abc", [A, B, C], strict=True)
    ]
    first = succeed(a_source(), *entries)
    thread = [an_entry(name, published_at=NOW) for name in "def"]
    rising = succeed(first.source, *entries, *thread)
    falling = succeed(first.source, *thread, *reversed(entries))
    assert [post.url[-1] for post in rising.posts] == ["d", "e", "f"]
    assert [post.url[-1] for post in falling.posts] == ["f", "e", "d"]


def test_r9_ids_sort_by_time_then_by_number():
    times = [A, B]
    numbers = [1, 2, 0xFFFF, 0x10000, (1 << 30) - 1, 1 << 30, (1 << 42) - 1]
    keys = [(time, seq) for time in times for seq in numbers]
    ids = {key: id_with_seq(timed_id(key[0], "part"), key[1]) for key in keys}
    assert sorted(keys, key=ids.__getitem__) == keys
    assert all(id_[14] == "8" and id_[19] in "89ab" and len(id_) == 36 for id_ in ids.values())


def test_r9_digests_and_articles_follow_the_numbers_of_posts():
    posts = [numbered(a_post(name), seq) for seq, name in enumerate("abcd", 1)]
    single, nitter = a_source(), a_source(url="https://nitter.net/ada/rss")
    for some in permutations(posts):
        (digest,) = articles_from(nitter, some, NOW, a_policy())
        assert digest.post_ids == tuple(post.id for post in posts)
        articles = articles_from(single, some, NOW, a_policy())
        by_id = sorted(articles, key=lambda article: article.id)
        assert [article.title for article in by_id] == [post.title for post in posts]
