"""Enclosures, categories, language, image and completeness of entries (T2, T3)."""

import json

import pytest

from headwater.fetch import read_feed, read_page
from headwater.model import Completeness, Enclosure, Entry
from headwater.rules.completeness import completeness

_URL = "https://example.org/feed"
_NAMESPACES = (
    'xmlns:media="http://search.yahoo.com/mrss/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" '
    'xmlns:content="http://purl.org/rss/1.0/modules/content/"'
)


def an_rss_entry(inner: str, head: str = "") -> Entry:
    document = (
        f"<rss {_NAMESPACES}><channel>{head}<item><title>T</title>"
        f"<link>https://example.org/1</link>{inner}</item></channel></rss>"
    )
    (entry,) = read_feed(document.encode(), url=_URL)
    return entry


def test_t2_metadata_of_rss():
    entry = an_rss_entry(
        '<enclosure url="https://example.org/a.mp3" type="audio/mpeg" length="123"/>'
        '<media:group><media:content url="/b.mp4" type="video/mp4" fileSize="x"/></media:group>'
        "<category>News</category><category>News</category>"
        "<dc:subject>Rivers &amp; lakes</dc:subject>"
        '<itunes:image href="https://example.org/c.jpg"/><dc:language>de</dc:language>',
        head="<language>en-us</language>",
    )
    assert entry.enclosures == (
        Enclosure("https://example.org/a.mp3", "audio/mpeg", 123),
        Enclosure("https://example.org/b.mp4", "video/mp4", None),
    )
    assert entry.categories == ("News", "Rivers & lakes")
    assert (entry.language, entry.image_url) == ("de", "https://example.org/c.jpg")


def test_t2_metadata_of_atom_and_json_feed():
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr"><entry><title>T</title><id>1</id>'
        '<link rel="enclosure" href="/a.ogg" type="audio/ogg" length="5"/>'
        '<category term="x" label="X"/>'
        "</entry></feed>"
    )
    item = {
        "id": "1",
        "content_text": "x",
        "attachments": [{"url": "/a.ogg", "mime_type": "audio/ogg", "size_in_bytes": 5}],
        "tags": ["X"],
        "image": "/i.png",
    }
    version = "https://jsonfeed.org/version/1.1"
    feed = json.dumps({"version": version, "language": "fr", "items": [item]})
    for document, image in ((atom, None), (feed, "https://example.org/i.png")):
        (entry,) = read_feed(document.encode(), url=_URL)
        assert entry.enclosures == (Enclosure("https://example.org/a.ogg", "audio/ogg", 5),)
        assert (entry.categories, entry.language, entry.image_url) == (("X",), "fr", image)


def test_t2_metadata_is_limited():
    entry = an_rss_entry(
        "".join(f'<enclosure url="/{n}"/><category>{n}</category>' for n in range(50))
    )
    assert (len(entry.enclosures), len(entry.categories)) == (16, 32)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", " \x01JavaScript:x"])
def test_t2_no_script_or_data_url_leaves_the_parser(url: str):
    written = url.replace("\x01", "")
    entry = an_rss_entry(
        f'<enclosure url="{written}" type="image/png"/><media:thumbnail url="{written}"/>'
        f"<description>&lt;a href='{written}'&gt;x&lt;/a&gt; "
        "&lt;a href='jav\tascript:x'&gt;y</description>"
    )
    assert (entry.enclosures, entry.image_url, entry.markdown) == ((), None, "x y")
    document = f"<rss><channel><item><title>T</title><link>{written}</link></item></channel></rss>"
    (linked,) = read_feed(document.encode(), url=_URL)
    assert (linked.url, linked.has_link) == (_URL, False)
    page = read_page(
        f'<html><meta property="og:image" content="{written}"><p>Text'.encode(), url=_URL
    )
    assert page.image_url is None


def test_t2_metadata_of_a_page():
    page = read_page(
        b'<html lang="sv"><head><base href="/x/"><meta property="og:image" content="/i.png"></head>'
        b'<body><article><h1>Head</h1><p>Some <b>text</b> and <a href="y">a link</a>.</article>',
        url="https://example.org/page",
    )
    assert (page.language, page.image_url) == ("sv", "https://example.org/i.png")
    assert page.markdown == "# Head\n\nSome **text** and [a link](https://example.org/x/y)."
    assert page.completeness is Completeness.FULL


@pytest.mark.parametrize(
    ("text", "has_content", "expected"),
    [
        ("The whole story.", True, "full"),
        ("It begins …", True, "excerpt"),
        ("It begins [...]", True, "excerpt"),
        ("It begins […] The post Rain appeared first on The Blog.", True, "excerpt"),
        ("It begins. Read more »", True, "excerpt"),
        ("It begins. Continue reading Rain in March →", True, "excerpt"),
        ("Short.", False, "excerpt"),
        ("x" * 500, False, "unknown"),
    ],
)
def test_t3_completeness(text: str, has_content: bool, expected: str):
    assert completeness(text, has_content=has_content) == expected


def test_t3_completeness_of_entries():
    full = "<content:encoded>All of it.</content:encoded>"
    assert an_rss_entry(full).completeness is Completeness.FULL
    teaser = "<description>Some of it.</description>"
    assert an_rss_entry(teaser).completeness is Completeness.EXCERPT
    assert an_rss_entry("").completeness is Completeness.UNKNOWN
