"""Names of X users in the URLs of sources (X1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BadUrl
from headwater.rules.x_users import user_name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("river", "river"),
        ("@River_1", "River_1"),
        ("  @river ", "river"),
        ("https://x.com/River", "River"),
        ("http://twitter.com/river/", "river"),
        ("https://www.twitter.com/river", "river"),
        ("https://mobile.x.com/river?lang=en", "river"),
        ("HTTPS://X.COM/river#top", "river"),
        ("https://x.com:443/@river", "river"),
        ("x.com/river", "river"),
        ("twitter.com/river", "river"),
        ("home", "home"),
        ("a" * 15, "a" * 15),
    ],
)
def test_x1_a_name_is_found_in_every_spelling(url, name):
    assert user_name(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "",
        "@",
        "@@river",
        "a" * 16,
        "river bank",
        "rivière",
        "٣",
        "https://x.com/",
        "https://x.com/river/status/1",
        "https://x.com/search?q=river",
        "https://x.com/home",
        "https://example.org/river",
        "https://x.com.example.org/river",
        "https://nitter.net/river",
        "ftp://x.com/river",
        "../2/tweets",
        "river?x=1",
        "river%2F..",
    ],
)
def test_x1_an_invalid_user_is_refused_in_one_line(url):
    with pytest.raises(BadUrl) as caught:
        user_name(url)
    assert caught.value.field == "url"
    assert "\n" not in str(caught.value)


@given(st.text(max_size=40))
def test_x1_no_text_gives_a_name_that_could_change_the_path(text):
    try:
        name = user_name(text)
    except BadUrl:
        return
    assert name.isascii()
    assert name.replace("_", "a").isalnum()
    assert len(name) <= 15
