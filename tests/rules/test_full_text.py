"""Which pages are visited for their full text, and which texts are used (T4)."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headwater.errors import BadStatus, LocalFault, NameNotFound, TimedOut
from headwater.model import Completeness, Outcome, Source, SourceType
from headwater.rules.digest import articles_from
from headwater.rules.failure_kinds import classify
from headwater.rules.full_text import (
    GIVE_UP_AFTER,
    MAX_COMPARED,
    MAX_PAGES_PER_POLL,
    PageVisit,
    compared_page,
    entries_to_compare,
    failed_visit,
    fetched_page,
    full_text_advice,
    is_visit_due,
    page_completeness,
    pages_to_visit,
    reason_against,
    result_of_page,
    visited_page,
    wall_in,
)
from headwater.rules.outcome import failed
from headwater.rules.policy import HoldScope, HostOverride, Policy
from headwater.source_settings import FullText
from tests.factories import NOW, a_post, a_source, a_subject, an_entry

TEASER = (
    "The city council approved the new harbour bridge on Tuesday after a debate of nine hours. "
    "Construction is expected to begin in the spring, said mayor Ellen Okafor."
)
STORY = (
    f"{TEASER} Opponents had asked for a tunnel, which engineers called three times as expensive. "
    "The bridge will have four lanes, a cycle path and a tram line to the eastern districts. "
    "Residents of the old fishing quarter fear noise; the council promised a barrier of glass."
)
SUMMARY = (  # written separately, not the first lines of the story
    "Harbour bridge approved: mayor Okafor wants construction to begin in spring, while residents "
    "of the fishing quarter fear noise."
)
GERMAN = (
    "Der Stadtrat hat am Dienstag nach neunstündiger Debatte den Bau der neuen Hafenbrücke "
    "beschlossen. Die Arbeiten sollen im Frühjahr beginnen, sagte die Bürgermeisterin. Gegner "
    "hatten einen Tunnel verlangt, den Ingenieure für dreimal so teuer halten. Die Brücke bekommt "
    "vier Fahrspuren, einen Radweg und eine Straßenbahn in die östlichen Stadtteile."
)
BLOCKED = (
    "Sorry, you have been blocked. You are unable to access this site. Why have I been blocked? "
    "This website is using a security service to protect itself from online attacks. The action "
    "you just performed triggered the security solution. There are several actions that could "
    "trigger this block including submitting a certain word or phrase, a SQL command or malformed "
    "data. You can email the site owner to let them know you were blocked. Please include what "
    "you were doing when this page came up and the Ray ID found at the bottom of this page."
)
COOKIES = (
    "We value your privacy. We and our 842 partners store and access information on a device, "
    "such as cookies, and process personal data for personalised advertising, measurement and "
    "audience research. Please accept all cookies or choose your preferences before you continue "
    "to our site. You can change your choice at any time at the bottom of each page."
)
PAYWALL = f"{TEASER} Subscribe to continue reading. Already a subscriber? Log in to your account."
CHINESE = "市議會星期二批准興建新的海港大橋。市長表示工程預計在春天開始。"
CHINESE_STORY = (
    CHINESE + "反對者曾要求興建隧道,但工程師認為費用會高出三倍。大橋將有四條車道和電車。"
)

USED = {
    "the teaser is the beginning": (TEASER, STORY),
    "a teaser that invites to read on": (f"{TEASER[:120]}… Read more", STORY),
    "a summary of its own": (SUMMARY, STORY),
    "a title only": ("Council approves harbour bridge", STORY),
    "a script without spaces": (CHINESE, CHINESE_STORY),
    "a long story that mentions JavaScript": (TEASER, f"{STORY * 6} Please enable JavaScript."),
}
NOT_USED = {
    "a block page": (TEASER, BLOCKED, "something else"),
    "a block page for a title only": ("Council approves harbour bridge", BLOCKED, "something else"),
    "a cookie wall": (TEASER, COOKIES, "accept all cookies"),
    "a login form": (SUMMARY, "Log in to continue. E-mail. Forgot your password? " * 6, "Log in"),
    "a page that needs JavaScript": (
        "News",
        "You need to enable JavaScript to run this.",
        "enable",
    ),
    "a paywall below the teaser": (TEASER, PAYWALL, "Subscribe"),
    "the story in another language": (TEASER, GERMAN, "something else"),
    "another script": (TEASER, CHINESE_STORY * 4, "something else"),
    "the same text": (STORY, STORY, "no more text"),
    "less than 1.3 times the text": (TEASER, TEASER + TEASER[: len(TEASER) // 4], "no more text"),
    "nothing to compare": ("…", STORY, "something else"),
}


@pytest.mark.parametrize(("feed", "page"), USED.values(), ids=USED)
def test_t4_a_longer_text_that_shares_the_words_of_the_feed_is_used(feed, page):
    assert reason_against(feed, page) is None


@pytest.mark.parametrize(("feed", "page", "reason"), NOT_USED.values(), ids=NOT_USED)
def test_t4_any_other_text_is_not_used_and_the_reason_is_said(feed, page, reason):
    assert reason in (reason_against(feed, page) or "")


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("Subscribe to our letter for readers", "Subscribe to our letter for readers"),
        ("You are already a membership holder", "already a membership"),
        (f"Subscribers {'x' * 38} accessibility here", f"Subscribers {'x' * 38}…"),
    ],
)
def test_t4_the_reason_quotes_whole_words(page, shown):
    assert wall_in(page) == shown


def test_t4_only_the_newest_20_posts_with_a_page_of_their_own_are_visited():
    source = a_source(full_text=FullText.ON)
    posts = [a_post(f"{n}", seq=n) for n in range(30)]
    without = [a_post("none", url=source.url, seq=98), a_post("mail", url="mailto:a@b.c", seq=99)]
    found = pages_to_visit(source, [*posts, *without])
    assert [post.seq for post, _ in found] == list(range(29, 29 - MAX_PAGES_PER_POLL, -1))
    assert {host for _, host in found} == {"example.org"}


@pytest.mark.parametrize(
    "source",
    [
        a_source(),
        a_source(full_text=FullText.ON, type=SourceType.WEBSITE),
        a_source(full_text=FullText.ON, type=SourceType.TWITTER),
    ],
    ids=["off", "a page", "X"],
)
def test_t4_other_sources_have_no_pages_to_visit(source):
    assert pages_to_visit(source, [a_post()]) == []


def test_t4_p2_a_page_has_the_delay_of_its_source_on_the_same_host_only():
    source = a_source(url="https://a.org/feed", host="a.org", poll_delay_seconds=7)
    assert visited_page(source, "https://a.org/1").poll_delay_seconds == 7
    assert visited_page(source, "https://b.org/1").poll_delay_seconds is None
    assert fetched_page(visited_page(source, "https://b.org/1")).type is SourceType.WEBSITE


def a_visit(**changes: object) -> PageVisit:
    plain = PageVisit(a_post(), "example.org", 0, NOW, None)
    return replace(plain, **changes)  # type: ignore[arg-type]


def outcome_of(
    error: Exception | None, policy: Policy | None = None, now: datetime = NOW
) -> Outcome:
    subject = a_subject(page())
    assert error is not None
    failure = classify(error)
    return failed(subject, failure, started_at=now, now=now, policy=policy or Policy())


def page() -> Source:
    return fetched_page(visited_page(a_source(full_text=FullText.ON), "https://example.org/first"))


def test_t4_a_transient_failure_has_three_attempts_within_six_hours():
    visit, now, waits = a_visit(), NOW, []
    while True:
        result = failed_visit(visit, outcome_of(TimedOut("too slow"), now=now), now)
        assert "too slow" in (result.error or "")
        if result.retry is None:
            break
        waits.append((result.retry.not_before - now) / timedelta(minutes=1))
        visit, now = result.retry, result.retry.not_before
    assert waits == [10, 60]
    assert result.kind == "failed"
    assert now <= NOW + GIVE_UP_AFTER


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (BadStatus(404, "HTTP 404"), None),
        (BadStatus(403, "HTTP 403"), None),
        (NameNotFound("no such host", name="example.org"), 1),  # maybe an outage of ours
        (BadStatus(503, "HTTP 503"), 1),
        (LocalFault("no file descriptors left"), 0),
    ],
)
def test_t4_permanent_failures_are_final_and_local_ones_are_no_attempt(error, attempts):
    result = failed_visit(a_visit(), outcome_of(error), NOW)
    assert (result.retry and result.retry.attempts) == attempts


@pytest.mark.parametrize("scope", [HoldScope.HOST, HoldScope.SOURCE])
@pytest.mark.parametrize(("seconds", "is_retried"), [(7200, True), (10 * 3600, False)])
def test_t4_p9_the_next_attempt_is_after_the_hold_and_within_six_hours(seconds, is_retried, scope):
    policy = Policy(host_overrides={"example.org": HostOverride(hold_scope=scope)})
    error = BadStatus(429, "HTTP 429", host="example.org", hold_seconds=seconds)
    result = failed_visit(a_visit(), outcome_of(error, policy), NOW)
    assert (result.retry is not None) == is_retried
    if result.retry is not None:
        assert result.retry.not_before == NOW + timedelta(seconds=seconds)


def test_t3_t4_the_text_of_a_page_can_be_an_excerpt_too():
    assert page_completeness(an_entry(body=STORY)) is Completeness.FULL
    assert page_completeness(an_entry(body=f"{STORY} Read more")) is Completeness.EXCERPT


def test_t4_a_used_page_is_in_the_result_and_another_one_is_not():
    visit = a_visit(post=a_post(body=TEASER))
    outcome = Outcome(page(), page(), kind="unchanged", started_at=NOW)  # type: ignore[arg-type]
    entry = an_entry(body=STORY)
    assert (
        result_of_page(visit, outcome, entry).page,
        result_of_page(visit, outcome, entry).kind,
    ) == (
        entry,
        "used",
    )
    rejected = result_of_page(visit, outcome, an_entry(body=BLOCKED))
    assert (rejected.page, rejected.kind, bool(rejected.error)) == (None, "rejected", True)


def test_t4_articles_are_made_of_the_text_of_the_page():
    post = a_post(body=TEASER, page_text=STORY, markdown="**story**")
    (single,) = articles_from(a_source(), [post], NOW, Policy())
    assert (single.body, single.markdown, single.content_hash) == (
        STORY,
        "**story**",
        post.content_hash,
    )
    (digest,) = articles_from(a_source(aggregate=True), [post, a_post("2")], NOW, Policy())
    assert STORY in digest.body
    (watched,) = articles_from(a_source(type=SourceType.WEBSITE), [post], NOW, Policy())
    assert watched.body == TEASER  # of a page, `page_text` has more than what is delivered


def test_t4_the_first_entries_that_may_be_excerpts_are_compared():
    source = a_source()
    entries = [an_entry(url=f"https://example.org/{n}") for n in range(5)]
    without_page = an_entry(url=source.url)
    whole = an_entry(url="https://example.org/whole", completeness=Completeness.FULL)
    assert entries_to_compare(source, [without_page, whole, *entries]) == entries[:MAX_COMPARED]


@pytest.mark.parametrize(
    ("pages", "worthwhile", "reason"),
    [
        ([STORY, STORY, BLOCKED], True, f"the pages have {len(STORY):,} characters"),
        ([STORY, BLOCKED], False, "1 of 2 pages have more text; the page "),
        ([TEASER], False, "0 of 1 pages have more text; the page has no more text"),
        ([], False, "the feed has the whole text"),
    ],
)
def test_t4_full_text_is_worthwhile_if_most_pages_have_more_text(pages, worthwhile, reason):
    advice = full_text_advice([compared_page(an_entry(body=TEASER), text) for text in pages])
    assert advice.worthwhile is worthwhile
    assert advice.reason.startswith(reason)
    assert len(advice.compared) == len(pages)


@pytest.mark.parametrize(
    ("not_before", "due"),
    [
        (NOW, True),
        (NOW + timedelta(seconds=1), False),
        (NOW + GIVE_UP_AFTER, False),
        (NOW + timedelta(days=400), True),  # the clock was set back
    ],
)
def test_t4_h6_a_visit_is_due_at_its_time_or_if_a_wrong_clock_set_it(not_before, due):
    assert is_visit_due(a_visit(not_before=not_before), NOW) is due
