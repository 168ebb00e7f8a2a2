"""No secret in any line."""

import pytest

from headwater.logs.masking import MAX_TEXT, without_secrets
from tests.logs.recorded_log import written

SECRET = "hunter2xyz"


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{SECRET}@example.org/feed",
        f"https://{SECRET}@example.org",
        f"https://me:it's{SECRET}@example.org/",
        f"postgresql://me:{SECRET}@db.example.org/app",
        f"https://example.org/feed?api_key={SECRET}&page=2",
        f"https://example.org/feed?page=2&token={SECRET}",
        f"/feed?auth={SECRET}",
        f"https://a.example/?u=https://me:{SECRET}@b.example/",
        f"https://a.example/https://me:{SECRET}@b.example/",
        f"https://a.example/?u=https://b.example/?token={SECRET}",
        f"HTTPS://ME:{SECRET}@EXAMPLE.ORG",
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"AUTHORIZATION={SECRET}",
        f"sent BEARER  {SECRET}",
        f"connection with password={SECRET} failed",
        f"access_token={SECRET}",
    ],
)
@pytest.mark.parametrize("sentence", ["{}", "cannot fetch '{}', giving up", "x\n<{}>"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_u6_no_secret_in_any_line(lines, text, sentence, form):
    log = written(lines, form)
    text = sentence.format(text)
    log.info(text)
    log.info(
        "e", url=text, error=text, redirect_url=text, other=ValueError(text), more=[{"a": text}]
    )
    log.error("e", exc_info=ValueError(text))
    assert SECRET not in lines.getvalue()


@pytest.mark.parametrize(
    "name", ["authorization", "Cookie", "password", "api_key", "token", "client_secret"]
)
def test_u6_a_field_named_like_a_secret_is_hidden(lines, name):
    log = written(lines)
    log.info("e", **{name: SECRET})
    log.info("e", headers={name: SECRET})
    assert SECRET not in lines.getvalue()


def test_u6_a_url_with_a_blank_in_its_password_is_masked(lines):
    written(lines).info("e", url=f"https://me:a {SECRET}@example.org/feed")
    assert "url=https://example.org/feed" in lines.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/feed?page=2&format=rss",
        "mail to me@example.org about https://example.org/",
        "the bearer token is missing",
        "what? no = sign",
        "https://example.org/@name/status/1",
    ],
)
def test_u6_text_without_secrets_is_unchanged(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "part",
    ["a", "://", "@", "?", "?token=", "&", "://a@", "authorization:", "authorization ", "bearer ",
     "token=", "password", " ", "=", "\n", "://a:b@c?token=d ", "basic "],
)  # fmt: skip
def test_u6_masking_takes_bounded_time(part):
    text = part * (2_000_000 // len(part))
    assert len(without_secrets(text)) <= MAX_TEXT + 1  # checked by the time limit of the suite


def test_u6_truncation_reveals_nothing():
    text = "x" * (MAX_TEXT - 12) + f" https://me:{SECRET}@example.org/"
    assert SECRET[:3] not in without_secrets(text)
