"""The feed links of a page (N15, M5)."""

import time

import pytest

from headwater.fetch.page.feed_links import MAX_FEED_LINKS, FeedLink, feed_links

PAGE = "https://blog.example.org/about/"
RSS = "application/rss+xml"


def found(html, url=PAGE):
    return [link.url for link in feed_links(html.encode(), content_type="text/html", url=url)]


def test_a_page_names_its_feeds_with_title_and_type():
    html = """<html><head><title>x</title>
        <link rel="alternate" type="application/rss+xml" title="News &amp; more" href="/feed">
        <link rel=alternate type=application/atom+xml href=atom.xml>
        <link rel='alternate home' type='Application/Feed+JSON; charset=utf-8' href='//c.org/f'>
        <link rel="stylesheet" type="text/css" href="/s.css"></head><body>Hello</body></html>"""
    assert feed_links(html.encode(), url=PAGE) == (
        FeedLink("https://blog.example.org/feed", "News & more", RSS),
        FeedLink("https://blog.example.org/about/atom.xml", "", "application/atom+xml"),
        FeedLink("https://c.org/f", "", "application/feed+json"),
    )


@pytest.mark.parametrize(
    "tag",
    [
        '<link rel="alternate" type="text/html" href="/de">',
        '<link rel="alternate" type="application/json" href="/wp-json/1">',
        '<link rel="alternate" type="application/json+oembed" href="/oembed">',
        '<link rel="stylesheet" type="application/rss+xml" href="/feed">',
        '<link rel="alternate" type="application/rss+xml">',
        '<link rel="alternate" type="application/rss+xml" href="">',
        '<link rel="alternate" type="application/rss+xml" href="javascript:alert(1)">',
        '<link rel="alternate" type="application/rss+xml" href="file:///etc/passwd">',
        '<link rel="alternate" type="application/rss+xml" href="ftp://a.org/feed">',
        '<link rel="alternate" type="application/rss+xml" href="http://a b.org/feed">',
        '<link rel="alternate" type="application/rss+xml" href="http://[::1/feed">',
        '<!-- <link rel="alternate" type="application/rss+xml" href="/old"> -->',
        '<script>"<link rel=alternate type=application/rss+xml href=/js>"</script>',
        '<a rel="alternate" type="application/rss+xml" href="/a">',
    ],
)
def test_n2_links_that_are_no_feed_or_no_url_are_left_out(tag):
    assert found(f"<head>{tag}</head>") == []


def test_links_are_resolved_against_the_base_of_a_page():
    html = f'<base href="https://cdn.example.org/x/"><link rel=alternate type={RSS} href=f>'
    assert found(html) == ["https://cdn.example.org/x/f"]


def test_n6_credentials_of_the_page_are_not_in_its_links():
    html = f"<link rel=alternate type={RSS} href=/f>"
    assert found(html, "https://me:secret@a.org/") == ["https://a.org/f"]


def test_each_feed_is_returned_once_and_their_number_is_limited():
    html = "".join(f"<link rel=alternate type={RSS} href=/{n // 2}>" for n in range(200))
    assert found(html) == [f"https://blog.example.org/{n}" for n in range(MAX_FEED_LINKS)]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"<link", b"<link rel=alternate " * 9])
def test_h4_broken_pages_have_no_links(data):
    assert feed_links(data, url=PAGE) == ()


@pytest.mark.parametrize("piece", ["<link ", "<link rel='", "<base href=", "<!--", "<link x=y>"])
def test_m5_hostile_pages_take_linear_time(piece):
    def seconds(size):
        document = (piece * (size // len(piece))).encode()
        started = time.process_time()
        feed_links(document, url=PAGE)
        return time.process_time() - started

    assert seconds(2_000_000) < 5
