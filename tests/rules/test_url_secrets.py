"""Secrets of a URL are removed from texts that the host can influence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import Answer
from headwater.rules.admission import Known, NewByDate
from headwater.rules.failure_kinds import classify
from headwater.rules.outcome import failed, succeeded
from headwater.rules.url_secrets import without_url_secrets
from tests.factories import NOW, a_policy, a_source, a_subject


@pytest.mark.parametrize(
    ("url", "text", "reported"),
    [
        ("http://me:hunter22@a.example/", "no <hunter22> here", "no <***> here"),
        ("http://me:hunter22@a.example/", "Basic bWU6aHVudGVyMjI=", "Basic ***"),
        ("http://me:h%20n%2Fter@a.example/", "/h n/ter /h%20n%2Fter /h%20n/ter", "/*** /*** /***"),
        ("http://a-token-alone@a.example/", "a-token-alone.invalid", "***.invalid"),
        ("http://a.example/?api_key=S3cretValue", "s3cretvalue.invalid", "***.invalid"),
        ("http://a.example/?a=b&token=one+two", "/one two", "/***"),
        ("http://me:hunter22@a.example/?sig=deadbeef", "hunter22 deadbeef", "*** ***"),
        ("http://a.example/?page=1234", "page 1234", "page 1234"),
        ("http://me:abc@a.example/", "abc is too short to hide", "abc is too short to hide"),
        ("http://reader:hunter22@a.example/", "reader", "reader"),
        (
            "http://a.example/?url=http%3A%2F%2Fme%3Ahunter22%40b.example%2F%3Fsid%3Ddeadbeef",
            "hunter22 deadbeef",
            "*** ***",
        ),
        ("http://a.example/feed", "nothing to hide", "nothing to hide"),
        ("http://[half:hunter22@/?x", "hunter22", "hunter22"),
    ],
)
def test_u6_echoed_secrets_are_masked(url, text, reported):
    assert without_url_secrets(text, url) == reported


@given(st.text(max_size=200), st.text(max_size=200))
def test_h4_no_url_and_no_text_raises(text, url):
    without_url_secrets(text, url)


def test_u6_neither_errors_nor_redirects_of_a_poll_contain_echoed_secrets():
    subject = a_subject(a_source(url="http://me:hunter22@a.example/feed?token=abcdef"))
    failure = classify(errors.BadStatus(429, "HTTP 429 from http://a.example/hunter22/abcdef"))
    outcome = failed(subject, failure, started_at=NOW, now=NOW, policy=a_policy())
    reported = "HTTP 429 from http://a.example/***/***"
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.source.last_error) == (reported, reported)
    assert outcome.hold is not None
    assert outcome.hold.reason == reported
    answer = Answer(200, unchanged=True, redirected_to="http://a.example/in/hunter22")
    outcome = succeeded(
        subject, answer, NewByDate((), 0), Known(), started_at=NOW, now=NOW, policy=a_policy()
    )
    assert outcome.redirected_to == "http://a.example/in/***"
