"""Articles as Atom and JSON Feed: valid, escaped, and parsed by our own reader."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.fetch import read_feed
from headwater.formats.article_feeds import ATOM, JSON_FEED, atom_feed, json_feed
from headwater.model import Article, Completeness, Entry, Podcast
from tests.factories import NOW

PODCAST = Podcast("default", "default", "Morning <News> & more", NOW)
ADDRESS = "http://127.0.0.1:8420/api/users/default/podcasts/default/feed?limit=2&x=1"
WRITERS = {ATOM: atom_feed, JSON_FEED: json_feed}
BOTH = pytest.mark.parametrize("media_type", list(WRITERS))
ATOM_NAME = "{http://www.w3.org/2005/Atom}"


def an_article(**changes: Any) -> Article:
    plain = Article(
        id="019c6513-d000-8f0e-9c55-0a4be1d37f26",
        source_id="s",
        title="A title",
        body="A body.",
        url="https://example.org/a",
        published_at=NOW - timedelta(hours=2),
        author="Ada",
        content_hash="h",
        created_at=NOW,
    )
    return replace(plain, **changes)


def written(media_type: str, *articles: Article, podcast: Podcast = PODCAST) -> bytes:
    return WRITERS[media_type](podcast, articles, address=ADDRESS)


def read_back(media_type: str, document: bytes) -> list[Entry]:
    return read_feed(document, content_type=media_type, url=ADDRESS)


@BOTH
def test_our_own_reader_returns_what_was_written(media_type: str):
    text = 'Fish & <b>chips</b> "quoted" &amp; <script>alert(1)</script> ]]> end'
    title = 'Fish & chips for < 5 "quid"'  # readers treat markup in titles differently
    article = an_article(title=title, body=text, author=text)
    (entry,) = read_back(media_type, written(media_type, article))
    assert replace(entry, markdown=None, completeness=Completeness.UNKNOWN) == Entry(
        id="urn:uuid:019c6513-d000-8f0e-9c55-0a4be1d37f26",
        title=title,
        url="https://example.org/a",
        published_at=article.published_at,
        author=text,
        body=text,
    )


@BOTH
def test_unknown_values_are_left_out(media_type: str):
    article = an_article(published_at=None, author=None)
    (entry,) = read_back(media_type, written(media_type, article))
    # Atom requires an author of the feed, which its entries inherit (R6)
    assert entry.author == (PODCAST.name if media_type == ATOM else None)
    assert entry.published_at == NOW  # when it was made
    document = written(media_type, article)
    assert b"null" not in document
    assert b"None" not in document


@BOTH
@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://example.org/a?b=1&c=2#part", "https://example.org/a?b=1&c=2#part"),
        ("https://user:secret@example.org/feed", "https://example.org/feed"),
        ("javascript:alert(1)", None),
        ("data:text/html,<script>", None),
        ("@name", None),
        ("not a url", None),
    ],
)
def test_u4_links_are_http_and_carry_no_credentials(media_type: str, url: str, link: str | None):
    document = written(media_type, an_article(url=url))
    parsed = _plain(media_type, document)
    assert parsed["links"] == ([] if link is None else [link])
    assert b"secret" not in document


@BOTH
def test_u7_control_characters_are_removed(media_type: str):
    odd = "a\x00b\x08c\x1bd\x7fe\x80f\ud800g\ufffeh\r\ni\tj"
    document = written(media_type, an_article(title=odd, body=odd, author=odd))
    (entry,) = read_back(media_type, document)
    assert (entry.title, entry.author, entry.body) == ("abcdefgh i j",) * 3


@BOTH
@given(text=st.text(), url=st.text())
def test_u7_no_text_breaks_a_document(media_type: str, text: str, url: str):
    article = an_article(title=text, body=text, author=text, url=url)
    podcast = replace(PODCAST, name=text or "x")
    parsed = _plain(media_type, written(media_type, article, article, podcast=podcast))
    assert parsed["count"] == 2


@BOTH
def test_a_podcast_without_articles_is_a_valid_empty_feed(media_type: str):
    document = written(media_type)
    assert read_back(media_type, document) == []
    assert _plain(media_type, document)["title"] == "Morning <News> & more"


def test_atom_has_all_required_elements():
    newer = an_article(id="other", created_at=NOW + timedelta(minutes=1))
    document = written(ATOM, newer, an_article())
    root = etree.fromstring(document)
    assert root.tag == f"{ATOM_NAME}feed"
    assert _texts(root, "id") == ["urn:headwater:podcast:default"]
    assert _texts(root, "updated") == ["2026-02-17T12:01:00.000Z"]
    (self_link,) = root.findall(f"{ATOM_NAME}link")
    assert dict(self_link.attrib.items()) == {"rel": "self", "type": ATOM, "href": ADDRESS}
    for entry in root.findall(f"{ATOM_NAME}entry"):
        for name in ("id", "title", "updated", "content", "author"):
            assert len(entry.findall(ATOM_NAME + name)) == 1, name
        content = entry.find(f"{ATOM_NAME}content")
        assert content is not None
        assert dict(content.attrib.items()) == {"type": "html"}
    seen = feedparser.parse(document)
    assert not seen.bozo
    assert (seen.version, seen.feed.title) == ("atom10", "Morning <News> & more")


def test_json_feed_has_all_required_fields():
    document = json.loads(written(JSON_FEED, an_article()))
    assert document == {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Morning <News> & more",
        "feed_url": ADDRESS,
        "items": [
            {
                "id": "urn:uuid:019c6513-d000-8f0e-9c55-0a4be1d37f26",
                "url": "https://example.org/a",
                "title": "A title",
                "content_html": "<p>A body.</p>\n",
                "content_text": "A body.",
                "date_published": "2026-02-17T10:00:00.000Z",
                "date_modified": "2026-02-17T12:00:00.000Z",
                "authors": [{"name": "Ada"}],
            }
        ],
    }


@BOTH
def test_the_same_articles_give_the_same_bytes_and_early_years_have_four_digits(media_type: str):
    early = an_article(published_at=datetime(33, 4, 3, tzinfo=UTC))
    assert written(media_type, early) == written(media_type, early)
    assert b"0033-04-03T00:00:00.000Z" in written(media_type, early)


def _plain(media_type: str, document: bytes) -> dict[str, Any]:
    """The result of a strict parser."""
    if media_type == JSON_FEED:
        parsed = json.loads(document)
        links = [item["url"] for item in parsed["items"] if "url" in item]
        return {"title": parsed["title"], "count": len(parsed["items"]), "links": links}
    root = etree.fromstring(document)
    entries = root.findall(f"{ATOM_NAME}entry")
    links = [link.get("href") for entry in entries for link in entry.findall(f"{ATOM_NAME}link")]
    return {"title": _texts(root, "title")[0], "count": len(entries), "links": links}


def _texts(root: Any, name: str) -> list[str | None]:
    return [element.text for element in root.findall(ATOM_NAME + name)]


@BOTH
def test_t1_the_content_of_feeds_is_rendered_markdown(media_type: str):
    article = an_article(body="Head one two", markdown="# Head\n\n- *one*\n- <b>two")
    (entry,) = read_back(media_type, written(media_type, article))
    assert entry.markdown == "# Head\n\n- *one*\n- \\<b>two"


@BOTH
def test_e3_a_follow_up_names_the_article_before_it(media_type: str):
    earlier = "019c6513-d000-8f0e-9c55-000000000001"
    document = written(media_type, an_article(follow_up_of=earlier), an_article())
    name = f"urn:uuid:{earlier}"
    if media_type == JSON_FEED:
        first, second = json.loads(document)["items"]
        assert first["_headwater"] == {"follow_up_of": name}
        assert "_headwater" not in second
    else:
        threading = "{http://purl.org/syndication/thread/1.0}in-reply-to"
        found = etree.fromstring(document).iter(threading)
        assert [element.get("ref") for element in found] == [name]
    assert len(read_back(media_type, document)) == 2
