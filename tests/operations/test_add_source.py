"""From pasted text to a URL, and common feed locations."""

import pytest

from headwater.errors import BadUrl
from headwater.operations.add_source import common_feed_urls
from headwater.rules.feed_search import front_page
from headwater.rules.pasted_addresses import as_url


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
        # refused later by the URL parser, and not mistaken for hosts
        ("mailto:ann@example.org", "mailto:ann@example.org"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("ftp://example.org/", "ftp://example.org/"),
    ],
)
def test_pasted_text_is_turned_into_a_url(pasted: str, url: str):
    assert as_url(pasted) == url


@pytest.mark.parametrize(
    ("pasted", "reported"),
    [
        ("", "paste the address"),
        ("  ", "paste the address"),
        ("jack", "@jack"),
        ("a\0b.org", "one line"),
    ],
)
def test_the_error_for_an_invalid_address_shows_a_valid_one(pasted: str, reported: str):
    with pytest.raises(BadUrl, match=reported) as raised:
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
def test_at_most_four_common_feed_locations_are_tried(url: str, places: list[str]):
    assert common_feed_urls(url) == [f"https://a.org{place}" for place in places]


def test_common_feed_locations_are_derived_from_the_url():
    with pytest.raises(BadUrl):
        common_feed_urls("http://[")


@pytest.mark.parametrize(
    ("url", "front"),
    [
        ("https://a.org/x/y?z", "https://a.org/"),
        ("https://a.org/", None),
        ("https://a.org", None),
        ("http://a.org:81/x", "http://a.org:81/"),
    ],
)
def test_the_front_page_is_on_the_same_site(url: str, front: str | None):
    assert front_page(url) == front
