"""Filters: which posts they hide, and the polls that store them."""

from dataclasses import replace

import pytest

from headwater.model import Completeness, FilteredBy, SourceType
from headwater.query.evaluator import Searchable
from headwater.rules.admission import Known, NewByDate, admit, new_by_date
from headwater.rules.filters import filtered_by, has_filters, searchable
from headwater.rules.full_text import pages_to_visit
from headwater.rules.outcome import without_filtered_posts
from headwater.rules.webhook_messages import happenings
from headwater.source_settings import FullText
from tests.factories import NOW, a_policy, a_post, a_source, a_subject, an_entry
from tests.rules.poll_outcomes import unchanged

POLICY = a_policy()
BANK = a_post(title="The bank raises rates", body="A long story about money.")


@pytest.mark.parametrize(
    ("source", "podcast", "reason"),
    [
        ({}, {}, None),
        ({"keep": "bank"}, {}, None),
        ({"keep": "fish"}, {}, FilteredBy.SOURCE_KEEP),
        ({"block": "bank"}, {}, FilteredBy.SOURCE_BLOCK),
        ({"block": "fish"}, {}, None),
        ({"keep": "bank", "block": "money"}, {}, FilteredBy.SOURCE_BLOCK),
        ({"keep": "fish", "block": "money"}, {}, FilteredBy.SOURCE_BLOCK),
        ({}, {"keep": "bank"}, None),
        ({}, {"keep": "fish"}, FilteredBy.PODCAST_KEEP),
        ({}, {"block": "bank"}, FilteredBy.PODCAST_BLOCK),
        ({"keep": "bank"}, {"block": "bank"}, FilteredBy.PODCAST_BLOCK),
        ({"keep": "fish"}, {"block": "bank"}, FilteredBy.SOURCE_KEEP),
        ({"keep": "bank"}, {"keep": "fish"}, FilteredBy.PODCAST_KEEP),
        ({"block": "(("}, {}, None),  # written by other means: it filters nothing
    ],
)
def test_b2_a_post_that_is_blocked_or_not_kept_is_filtered(source, podcast, reason):
    subject = replace(a_subject(**source), **podcast)
    assert filtered_by(subject, BANK) is reason
    assert has_filters(subject) is bool(source or podcast)


def test_b2_a_poll_stores_filtered_posts_with_the_reason():
    subject = a_subject(block="title:second", include_history=True)
    entries = [an_entry("first"), an_entry("second")]
    dated = new_by_date(subject.source, entries, NOW, POLICY)
    admission = admit(subject, dated, Known(), NOW, POLICY)
    reasons = {post.title: post.filtered_by for post in admission.posts}
    assert reasons == {
        "The first title": None,
        "The second title": FilteredBy.SOURCE_BLOCK,
    }
    assert not admission.skipped


def test_b2_an_unchanged_answer_evaluates_nothing():
    assert admit(a_subject(block="x"), NewByDate((), 3), Known(), NOW, POLICY).posts == ()


def test_b2_t4_the_page_of_a_filtered_post_is_not_visited():
    source = a_source(full_text=FullText.ON)
    shown, hidden = a_post("one"), a_post("two", filtered_by=FilteredBy.SOURCE_KEEP)
    assert [post for post, _ in pages_to_visit(source, [shown, hidden])] == [shown]


def test_b2_events_and_webhooks_report_posts_that_are_shown():
    shown, hidden = a_post("one"), a_post("two", filtered_by=FilteredBy.PODCAST_BLOCK)
    outcome = replace(unchanged(a_source()), posts=(shown, hidden))
    assert without_filtered_posts(outcome).posts == (shown,)
    assert [happening.subject for happening in happenings(outcome)] == [shown.id]
    assert without_filtered_posts(replace(outcome, posts=(shown,))).posts == (shown,)


def test_b1_what_a_post_is_searched_by():
    source = a_source(label="Bank news", title="Bank", type=SourceType.RSS)
    post = replace(
        BANK,
        page_text="The whole page.",
        categories=("Economy",),
        language="en",
        completeness=Completeness.FULL,
        filtered_by=FilteredBy.SOURCE_KEEP,
        published_at=None,
    )
    item = searchable(source, post, is_processed=True)
    assert isinstance(item, Searchable)
    assert (item.title, item.text, item.at) == (post.title, "The whole page.", post.created_at)
    assert (item.is_filtered, item.is_processed) == (True, True)
    assert (item.source.label, item.categories, item.language) == ("Bank news", ("Economy",), "en")
    website = searchable(replace(source, type=SourceType.WEBSITE), post)
    assert website.text == post.body  # `page_text` is the page with what did not change
