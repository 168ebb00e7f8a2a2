"""Which posts report the same story: links, texts, and the evaluation of both (I1, I3)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from headwater.rules.stories import (
    MARKS_IN_COMMON,
    WINDOW,
    ComparedText,
    StoryPost,
    best_match,
    canonical_link,
    marks_of,
)
from tests.factories import NOW
from tests.story_texts import EDITS, TextGenerator

TEXT = TextGenerator(1).text(120)
OTHER = TextGenerator(2).text(120)
PAIRS = 300


def a_story_post(seq: int, text: str = TEXT, **changes: Any) -> StoryPost:
    """A post of its own source."""
    fields: dict[str, Any] = {
        "id": f"post {seq}",
        "source_id": f"source {seq}",
        "at": NOW,
        "text": ComparedText.of(text),
    }
    return StoryPost(seq=seq, **(fields | changes))


def marks_in_common(one: str, two: str) -> int:
    """How many marks of two texts are the same."""
    found = (
        marks_of("default", f"https://{host}/1", f"https://{host}/feed", text).text
        for host, text in (("a.example", one), ("b.example", two))
    )
    return len(set.intersection(*map(set, found)))


def is_merged(one: str, two: str) -> bool:
    """Whether posts of two sources with these texts become one story."""
    if marks_in_common(one, two) < MARKS_IN_COMMON:
        return False
    return best_match(a_story_post(2, two), [], [a_story_post(1, one)]) is not None


@pytest.mark.parametrize("edit", EDITS)
def test_i3_copies_are_recognised(edit: str):
    texts = TextGenerator(seed=11)
    # a third of a shorter text has less than 40 words, which are not compared (I1)
    lengths = (130, 150, 200, 300, 500) if edit == "cut to a third" else (60, 90, 150, 300, 500)
    originals = [texts.text(texts.rng.choice(lengths)) for _ in range(PAIRS)]
    merged = sum(is_merged(text, EDITS[edit](texts, text)) for text in originals)
    assert merged >= 0.95 * PAIRS


@pytest.mark.parametrize("place", ["before", "behind"])
def test_i3_unrelated_texts_with_the_same_boilerplate_stay_apart(place: str):
    texts = TextGenerator(seed=13)
    wrong = 0
    for _ in range(500):
        boilerplate = texts.boilerplate()
        pair = [texts.text(texts.rng.choice((45, 60, 90, 150, 300))) for _ in range(2)]
        one, two = (
            f"{boilerplate} {t}" if place == "before" else f"{t} {boilerplate}" for t in pair
        )
        wrong += is_merged(one, two)
    assert wrong <= 1


@pytest.mark.parametrize("place", ["before", "behind", "both", "byline"])
@pytest.mark.parametrize("words", [35, 50, 70, 100, 150])
def test_i3_unrelated_texts_in_a_long_common_frame_stay_apart(words: int, place: str):
    texts = TextGenerator(seed=17)
    assert sum(is_merged(*texts.framed(place, words)) for _ in range(100)) == 0


@pytest.mark.parametrize("place", ["before", "behind"])
def test_i3_copies_with_another_short_introduction_or_footer_are_recognised(place: str):
    texts = TextGenerator(seed=19)
    for _ in range(50):
        text = texts.text(150)
        one, two = (
            f"{own} {text}" if place == "before" else f"{text} {own}"
            for own in (texts.text(20), texts.text(20))
        )
        assert is_merged(one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("https://example.org/a?utm_source=rss&utm_medium=feed", "https://example.org/a"),
        ("http://www.example.org/a/", "https://EXAMPLE.org/a"),
        ("https://example.org/a?id=1&fbclid=x#xtor=RSS-1", "https://example.org/a?id=1"),
        ("https://example.org:443/a?b=2&a=1", "https://example.org/a?a=1&b=2"),
        ("https://example.org/a#:~:text=water", "https://example.org/a"),
    ],
)
def test_i1_links_to_one_page_are_the_same_link(one: str, two: str):
    assert canonical_link(one) == canonical_link(two) is not None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("https://example.org/a", "https://example.org/b"),
        ("https://example.org/a?id=1", "https://example.org/a?id=2"),
        ("https://example.org/log#v1", "https://example.org/log#v2"),
        ("https://example.org/a", "https://example.org:8080/a"),
        ("https://example.org/a", "https://other.example/a"),
    ],
)
def test_i1_links_to_different_pages_differ(one: str, two: str):
    assert canonical_link(one) != canonical_link(two)


@pytest.mark.parametrize(
    "url", ["https://example.org", "https://www.example.org/", "https://[", ""]
)
def test_i1_a_whole_site_is_no_link_to_a_story(url: str):
    assert canonical_link(url) is None


def test_i1_a_link_to_the_source_itself_identifies_no_story():
    marks = marks_of(
        "default", "https://example.org/page?utm_source=a", "http://example.org/page", ""
    )
    assert marks.link is None
    assert marks_of("default", "https://example.org/a", "https://example.org/feed", "").link


def test_i1_marks_of_podcasts_differ():
    one, two = (marks_of(p, "https://example.org/a", "https://example.org/f", TEXT) for p in "ab")
    assert one.link != two.link
    assert not set(one.text) & set(two.text)


def test_i1_the_same_link_is_enough():
    post, other = a_story_post(2, "Short."), a_story_post(1, "Also short.")
    assert best_match(post, [other], []) == other


def test_i1_two_posts_of_one_source_are_not_grouped_by_text_alone():
    post, other = a_story_post(2), a_story_post(1, source_id="source 2")
    assert best_match(post, [], [other]) is None
    assert best_match(post, [other], [other]) == other  # also by link


def test_i1_a_text_alone_does_not_lead_to_a_story_with_a_post_of_the_same_source():
    other, second = a_story_post(1, story_id="story"), a_story_post(2, OTHER, story_id="other")
    post = a_story_post(3)
    assert best_match(post, [], [other], {"story"}) is None
    assert best_match(post, [], [other], {"other"}) == other
    assert best_match(post, [other], [other], {"story"}) == other  # also by link
    edited = a_story_post(4, TextGenerator(7).edited(TEXT, 0.1), story_id="third")
    assert best_match(post, [], [other, second, edited], {"story"}) == edited


def test_i1_a_link_that_a_source_gives_to_several_posts_identifies_none():
    live = [a_story_post(1, TEXT), a_story_post(2, OTHER, source_id="source 1")]
    post = a_story_post(3, TextGenerator(3).text(120))
    assert best_match(post, live, []) is None
    assert best_match(a_story_post(4, TEXT), live, []) == live[0]  # its text decides


@pytest.mark.parametrize(("words", "merged"), [(39, False), (40, True)])
def test_i1_short_texts_are_not_compared(words: int, merged: bool):
    text = TextGenerator(4).text(words)
    assert is_merged(text, text) == merged


@pytest.mark.parametrize(
    ("apart", "merged"), [(WINDOW, True), (WINDOW + timedelta(seconds=1), False)]
)
def test_i1_a_story_lasts_seven_days(apart: timedelta, merged: bool):
    earlier: datetime = NOW - apart
    post, other = a_story_post(2), a_story_post(1, at=earlier)
    assert (best_match(post, [], [other]) is not None) == merged
    assert (best_match(post, [other], []) is not None) == merged


def test_i1_the_most_similar_post_is_chosen_then_the_earliest():
    texts = TextGenerator(5)
    edited = a_story_post(1, texts.edited(TEXT, 0.1))
    copies = [a_story_post(3), a_story_post(2)]
    assert best_match(a_story_post(4), [], [edited, *copies]) == copies[1]


def test_i1_a_text_inside_a_longer_one_is_another_story():
    item = TextGenerator(6).text(60)
    roundup = f"{OTHER} {item}"
    assert best_match(a_story_post(2, roundup), [], [a_story_post(1, item)]) is None


def test_i1_texts_without_spaces_are_compared():
    sentence = "今天早上河水上涨了两米多居民们被要求离开家园前往附近的学校避难市长说情况正在好转"
    text = sentence + "但是下午可能还会下雨所以大家必须小心谨慎注意安全"
    assert is_merged(text, f"新华社消息{text}")
    assert not is_merged(text, sentence[::-1] * 2)
