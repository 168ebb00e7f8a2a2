"""Posts of changed pages: what is new in them (W5)."""

from dataclasses import replace

import pytest

from headwater.model import SourceType
from headwater.rules.page_versions import PageVersions, new_text, noise_suggestion
from headwater.watch_settings import Delivery, WatchSettings
from tests.factories import NOW, a_post, a_source

ADDITIONS = WatchSettings(ignore=("It is #:#",), deliver=Delivery.ADDITIONS)


def a_page(**settings):
    return a_source(type=SourceType.WEBSITE, **settings)


def a_version(text):
    return a_post(body=" ".join(text.split()), page_text=text, markdown=f"# {text}")


def stored(watch, old, new, kept=None):
    source, before = a_page(watch=watch), PageVersions([a_version(old)], kept)
    return new_text(source, a_version(new), before)


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        ("Milk 1.20\nTea 2.00", "Milk 1.30\nTea 2.00", "Milk 1.30"),
        ("One. Two.", "Zero. One. Two. Three.", "Zero. Three."),
        ("A\nB", "New A\nA\nNew B\nB", "New A New B"),
        ("It is 12:00\nA", "It is 12:01\nA\nB", "B"),
        ("Milk. Fresh.\t1.20\nTea\t2.00", "Milk. Fresh.\t1.30\nTea\t2.00", "Milk. Fresh. 1.30"),
        ("It is\t12:00\nA", "It is\t12:01\nA\nB", "B"),
    ],
)
def test_w5_the_body_has_what_is_new_and_identity_is_that_of_the_page(old, new, body):
    whole, post = a_version(new), stored(ADDITIONS, old, new)
    assert post == replace(whole, body=body, markdown=post.markdown)
    assert post.markdown.split() == body.split()


def test_w5_new_lines_are_paragraphs_of_the_markdown():
    assert stored(ADDITIONS, "A", "A\nB *b*\n- c").markdown == "B \\*b\\*\n\n\\- c"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("One. Two. Three.", "One. Three."),
        ("A\nB\nC", "C\nA"),
        ("It is 12:00\nA\nB", "It is 12:01\nB"),
    ],
)
def test_w5_nothing_new_makes_no_post(old, new):
    assert stored(ADDITIONS, old, new) is None
    if "It is" not in old:
        assert stored(None, old, new) == a_version(new)  # the whole page has changed


def test_w5_the_text_that_was_kept_counts_if_the_post_is_older_or_deleted():
    source, post = a_page(watch=ADDITIONS), a_version("A\nB\nC")
    for posts in ([], [a_version("A")]):
        stored = new_text(source, post, PageVersions(posts, "A\nB"))
        assert stored is not None
        assert stored.body == "C"
    assert new_text(source, post, PageVersions()) == post  # the first one has everything


def test_w4_a_further_ignored_line_alone_makes_no_post():
    watch = WatchSettings(ignore=("It is #:#",))
    assert stored(watch, "It is 12:00\nA", "It is 12:01\nA") is None
    assert stored(watch, "It is 12:00\nA", "It is 12:01\nB") is not None


def test_w6_the_id_of_a_suggestion_depends_on_source_and_lines_only():
    def suggested(source, minutes):
        *older, newest = (a_version(f"It is 12:{n:02}\nA") for n in minutes)
        return noise_suggestion(source, newest, PageVersions(older[::-1]), NOW)

    source = a_page()
    one, other = suggested(source, (1, 2, 3)), suggested(source, (2, 3, 4))
    assert one is not None
    assert one == other
    assert one.detail == {"ignore": ["It is #:#"]}
    assert suggested(a_page(id="other"), (1, 2, 3)).id != one.id
    assert suggested(source, (2, 3)) is None
