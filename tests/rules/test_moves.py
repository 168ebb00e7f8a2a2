"""Which permanent redirects are suggested (Y4), and the steps of a search for a feed (Y5)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model import (
    Failure,
    FailureType,
    Outcome,
    OutcomeKind,
    Redirect,
    SourceType,
    SuggestionKind,
)
from headwater.rules.feed_search import (
    after_candidate,
    after_page,
    after_unreadable_page,
    new_search,
    result_text,
    wants_search,
)
from headwater.rules.moves import followed_redirect, is_confirmed
from tests.factories import a_source

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TO = "https://new.example/feed"


@pytest.mark.parametrize(
    ("polls", "days", "expected"),
    [(5, 3, True), (4, 30, False), (50, 2.99, False), (500, 300, True), (0, 30, False)],
)
def test_y4_five_polls_over_three_days_confirm_a_redirect(polls: int, days: float, expected: bool):
    assert is_confirmed(Redirect(TO, NOW - days * DAY, polls), NOW) is expected


def test_y4_a_redirect_is_suggested_once_and_withdrawn_when_it_ends():
    known = Redirect(TO, NOW - 4 * DAY, polls=4)
    source = a_source(redirect=known)
    redirect, suggested = followed_redirect(source, TO, NOW, is_other=False)
    assert redirect == replace(known, polls=5, is_suggested=True)
    suggestion = suggested[SuggestionKind.MOVE]
    assert suggestion is not None
    assert suggestion.detail == {"url": TO}
    source = replace(source, redirect=redirect)
    again, nothing = followed_redirect(source, TO, NOW + DAY, is_other=False)
    assert again is not None
    assert (again.polls, nothing) == (6, {})
    for moved_to, is_other in ((None, False), ("https://else.example/", False), (TO, True)):
        _, withdrawn = followed_redirect(source, moved_to, NOW, is_other=is_other)
        assert withdrawn == {SuggestionKind.MOVE: None}


def test_y4_a_redirect_to_something_else_never_counts_again():
    source = a_source(redirect=Redirect(TO, NOW, polls=0))
    for _ in range(10):
        redirect, suggested = followed_redirect(source, TO, NOW + 30 * DAY, is_other=False)
        assert redirect is not None
        assert (redirect.polls, suggested) == (0, {})


GONE = Failure(FailureType.PERMANENT, "404", "HTTP 404")
PAGE = Failure(FailureType.TRANSIENT, "parse", "a page", is_page=True)


@pytest.mark.parametrize(
    ("failure", "changes", "expected"),
    [
        (GONE, {"first_poll_done": True}, True),
        (GONE, {"first_poll_done": False}, False),
        (PAGE, {"first_poll_done": True}, True),
        (PAGE, {"first_poll_done": False}, False),
        (replace(PAGE, is_page=False), {"first_poll_done": True}, False),
        (replace(GONE, by_host=True), {"first_poll_done": True}, False),
        (replace(GONE, local=True), {"first_poll_done": True}, False),
        (GONE, {"first_poll_done": True, "type": SourceType.WEBSITE}, False),
        (replace(GONE, type=FailureType.TRANSIENT), {"first_poll_done": True}, False),
        (None, {"first_poll_done": True}, False),
    ],
)
def test_y5_which_failures_start_a_search(
    failure: Failure | None, changes: dict[str, object], expected: bool
):
    source = a_source(**changes)
    outcome = Outcome(source, source, OutcomeKind.FAILED, NOW, failure=failure)
    assert wants_search(outcome) is expected


def test_y5_a_feed_that_never_worked_is_searched_for_when_it_is_disabled():
    before = a_source(first_poll_done=False)
    outcome = Outcome(before, replace(before, enabled=False), OutcomeKind.FAILED, NOW, failure=GONE)
    assert wants_search(outcome)


def test_y5_a_search_has_at_most_two_pages_and_three_candidates():
    search = new_search(a_source(url="https://a.example/blog/feed"), NOW)
    assert search.next_url == "https://a.example/blog/feed"
    search = after_unreadable_page(search, "HTTP 404", NOW)
    assert search.next_url == "https://a.example/"
    links = [(f"https://a.example/{n}", "") for n in range(9)]
    search = after_page(search, [*links, ("https://a.example/blog/feed", "")], NOW)
    for number in range(3):
        assert search.next_url == f"https://a.example/{number}"
        search = after_candidate(search, NOW, is_feed=number == 1)
    assert search.next_url is None
    assert [feed.url for feed in search.found] == ["https://a.example/1"]


def test_y5_the_front_page_is_left_out_if_the_first_page_has_a_feed():
    search = new_search(a_source(url="https://a.example/feed"), NOW)
    search = after_page(search, [("https://a.example/new", "News")], NOW)
    search = after_candidate(search, NOW, is_feed=True, title="News")
    assert search.next_url is None
    assert result_text(search) == "found 1 feed on https://a.example/feed"


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([], "no other feed is linked from the page at its URL"),
        (["x"], "the feed that is linked from the page at its URL cannot be read"),
        (["x", "y"], "none of the 2 feeds that are linked from the page at its URL can be read"),
    ],
)
def test_y5_the_result_of_a_search_in_one_line(links: list[str], text: str):
    search = new_search(a_source(url="https://a.example/"), NOW)
    search = after_page(search, [(f"https://a.example/{one}", "") for one in links], NOW)
    for _ in links:
        search = after_candidate(search, NOW, is_feed=False)
    assert search.next_url is None
    assert result_text(search) == text
