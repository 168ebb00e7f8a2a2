"""Classification of errors as failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import FailureType
from headwater.rules.failure_kinds import classify, one_line
from tests.factories import NOW

PERMANENT, TRANSIENT = FailureType.PERMANENT, FailureType.TRANSIENT


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_f1_a_missing_or_forbidden_page_is_permanent_with_its_status(status):
    failure = classify(errors.BadStatus(status, f"HTTP {status} from https://example.org/feed"))
    assert (failure.type, failure.kind, failure.status) == (PERMANENT, str(status), status)
    assert not failure.local
    assert failure.hold_seconds is None


@pytest.mark.parametrize(
    "status", [400, 402, 405, 406, 408, 409, 418, 421, 425, 429, 451, 500, 502, 503, 504, 520, 599]
)
def test_f1_every_other_status_is_transient(status):
    failure = classify(errors.BadStatus(status, "no"))
    assert (failure.type, failure.kind, failure.status) == (TRANSIENT, str(status), status)


@given(st.integers(100, 999))
def test_f1_four_statuses_are_permanent_and_no_other(status):
    permanent = classify(errors.BadStatus(status, "no")).type is PERMANENT
    assert permanent is (status in {401, 403, 404, 410})


def test_f1_a_name_that_does_not_exist_is_permanent():
    failure = classify(errors.NameNotFound("nowhere.invalid does not exist"))
    assert (failure.type, failure.kind, failure.local) == (PERMANENT, "DNS", False)


@pytest.mark.parametrize(
    "error",
    [
        errors.TimedOut("connecting took too long"),
        errors.ConnectFailed("refused"),
        errors.TlsFailed("the certificate has expired"),
        errors.NotAFeed("not a feed"),
        errors.FeedBehindLogin("a login"),
        errors.LoginPage("a login"),
        errors.NoContent("no text"),
        errors.SelectorUnmatched("no element matches"),
        errors.TooLarge("over 10 MB"),
        errors.BrokenBody("cut short"),
        errors.AddressRefused("127.0.0.1 is not public"),
        errors.BadRedirect("in a circle"),
        errors.HostBusy("no turn"),
        errors.OnHold(NOW, "HTTP 429"),
        errors.KeyMissing("add an X API key"),
        errors.TooExpensive("over 10 s"),
        errors.BadUrl("no host"),
        errors.SecretError("the key does not fit"),
        errors.FetchError("something"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_f1_every_other_error_of_a_source_is_transient(error):
    failure = classify(error)
    assert (failure.type, failure.local, failure.status) == (TRANSIENT, False, None)
    assert failure.kind != "unexpected" or type(error) in (errors.FetchError, errors.SecretError)
    assert failure.message == str(error)


@pytest.mark.parametrize(
    "error", [ValueError("?"), KeyError("x"), RecursionError(), OSError(5, "odd"), TimeoutError()]
)
def test_f1_an_unknown_error_is_transient(error):
    failure = classify(error)
    assert (failure.type, failure.local) == (TRANSIENT, False)
    assert type(error).__name__ in failure.message


@pytest.mark.parametrize("error", [errors.FeedBehindLogin("a login"), errors.LoginPage("a login")])
def test_f1_a_login_instead_of_the_document_has_its_own_kind(error):
    failure = classify(error)
    assert (failure.type, failure.kind, failure.local) == (TRANSIENT, "login", False)


def test_f1_different_failures_have_different_kinds():
    kinds = {classify(e).kind for e in (errors.TimedOut("a"), errors.TlsFailed("b"))}
    assert len(kinds | {classify(errors.ConnectFailed("c")).kind}) == 3


@pytest.mark.parametrize(
    "error",
    [
        errors.LocalFault("no route"),
        errors.NameUnresolved("the resolver did not answer"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_o1_errors_of_the_local_system_are_transient_and_local(error):
    failure = classify(error)
    assert (failure.type, failure.local) == (TRANSIENT, True)


@pytest.mark.parametrize(
    ("status", "asked_for", "held"),
    [
        (429, None, 600),
        (429, 30, 30),
        (429, 0, 0),
        (429, 86_400, 86_400),
        (503, None, None),
        (503, 120, 120),
        (500, None, None),
        (404, None, None),
    ],
)
def test_p9_a_429_without_retry_after_holds_ten_minutes_and_a_503_not(status, asked_for, held):
    error = errors.BadStatus(status, "later", host="cdn.example.org", hold_seconds=asked_for)
    failure = classify(error)
    assert failure.hold_seconds == held
    assert failure.hold_host == "cdn.example.org"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one line", "one line"),
        ("two\nlines", "two lines"),
        ("\r\n tabs\tand \x0b more \x85 breaks \u2028\n", "tabs and more breaks"),
        ("a\x00b\x1b[31mc\x7fd\x9fe", "a b [31mc d e"),
        ("half \ud800 a character", "half a character"),
        ("naïve 日本語 🙂", "naïve 日本語 🙂"),
    ],
)
def test_m6_a_message_is_one_storable_line(text, line):
    assert classify(errors.FetchError(text)).message == line


def test_m6_a_long_message_is_cut():
    message = classify(errors.FetchError("long " * 100_000)).message
    assert len(message) <= 500
    assert message.endswith("…")


@given(st.text(max_size=700), st.sampled_from([errors.FetchError, ValueError, errors.NotAFeed]))
def test_m6_no_foreign_text_breaks_the_line(text, kind):
    message = one_line(kind(text))
    assert len(message) <= 500
    assert message.isprintable()
    assert message == " ".join(message.split())
    message.encode("utf-8")


def test_m6_an_error_without_a_text_is_named():
    assert one_line(ZeroDivisionError()) == "ZeroDivisionError"
    assert one_line(ValueError("odd")) == "ValueError: odd"
