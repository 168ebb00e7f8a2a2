"""From what somebody pastes to a URL, and where feeds usually are."""

import pytest

from headwater.errors import BadUrl
from headwater.operations.adding import as_url, common_places, front_page


@pytest.mark.parametrize(
    ("pasted", "url"),
    [
        ("https://example.org/feed", "https://example.org/feed"),
        ("  http://example.org/ \n", "http://example.org/"),
        ("example.org", "https://example.org"),
        ("example.org/blog?x=1", "https://example.org/blog?x=1"),
        ("example.org:8443/feed", "https://example.org:8443/feed"),
        ("//example.org/feed", "https://example.org/feed"),
        ("localhost", "https://localhost"),
        ("feed://example.org/rss", "https://example.org/rss"),
        ("feed:https://example.org/rss", "https://example.org/rss"),
        ("feed:http://example.org/rss", "http://example.org/rss"),
        ("@jack", "@jack"),
        ("x.com/jack", "https://x.com/jack"),
        # refused later, by whoever reads URLs, and not mistaken for hosts
        ("mailto:ann@example.org", "mailto:ann@example.org"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("ftp://example.org/", "ftp://example.org/"),
    ],
)
def test_what_is_pasted_becomes_a_url(pasted: str, url: str):
    assert as_url(pasted) == url


@pytest.mark.parametrize(
    ("pasted", "told"),
    [
        ("", "paste the address"),
        ("  ", "paste the address"),
        ("jack", "@jack"),
        ("a\0b.org", "one line"),
    ],
)
def test_what_is_no_address_is_answered_with_what_would_be_one(pasted: str, told: str):
    with pytest.raises(BadUrl, match=told) as raised:
        as_url(pasted)
    assert raised.value.field == "url"


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://a.org", ["/feed", "/rss.xml", "/atom.xml", "/index.xml"]),
        ("https://a.org/?x=1", ["/feed", "/rss.xml", "/atom.xml", "/index.xml"]),
        ("https://a.org/blog/", ["/blog/feed", "/feed", "/rss.xml", "/atom.xml"]),
    ],
)
def test_feeds_are_looked_for_at_four_places_at_most(url: str, places: list[str]):
    assert common_places(url) == [f"https://a.org{place}" for place in places]


def test_common_places_are_those_of_a_url():
    with pytest.raises(BadUrl):
        common_places("http://[")


@pytest.mark.parametrize(
    ("url", "front"),
    [
        ("https://a.org/x/y?z", "https://a.org/"),
        ("https://a.org/", None),
        ("https://a.org", None),
        ("http://a.org:81/x", "http://a.org:81/"),
    ],
)
def test_the_front_page_is_that_of_the_same_site(url: str, front: str | None):
    assert front_page(url) == front
