"""What a URL entrusts to its host stays out of texts that the host had a say in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import Answer
from headwater.rules.admission import NO_ENTRIES, NOTHING
from headwater.rules.discretion import discreet
from headwater.rules.failure import classify
from headwater.rules.outcome import failed, succeeded
from tests.factories import NOW, a_policy, a_source, a_subject


@pytest.mark.parametrize(
    ("url", "text", "told"),
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
        ("http://a.example/feed", "nothing to hide", "nothing to hide"),
        ("http://[half:hunter22@/?x", "hunter22", "hunter22"),
    ],
)
def test_u6_what_a_host_echoes_is_hidden(url, text, told):
    assert discreet(text, url) == told


@given(st.text(max_size=200), st.text(max_size=200))
def test_h4_no_url_and_no_text_raises(text, url):
    discreet(text, url)


def test_u6_neither_errors_nor_redirects_of_a_poll_hold_what_was_echoed():
    subject = a_subject(a_source(url="http://me:hunter22@a.example/feed?token=abcdef"))
    failure = classify(errors.BadStatus(429, "HTTP 429 from http://a.example/hunter22/abcdef"))
    outcome = failed(subject, failure, started_at=NOW, now=NOW, policy=a_policy())
    told = "HTTP 429 from http://a.example/***/***"
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.source.last_error) == (told, told)
    assert outcome.hold is not None
    assert outcome.hold.reason == told
    answer = Answer(200, unchanged=True, redirected_to="http://a.example/in/hunter22")
    outcome = succeeded(
        subject, answer, NO_ENTRIES, NOTHING, started_at=NOW, now=NOW, policy=a_policy()
    )
    assert outcome.redirected_to == "http://a.example/in/***"
