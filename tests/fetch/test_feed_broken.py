"""Broken, truncated and hostile feeds are parsed as far as possible without side effects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NotAFeed
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.feed.xml_repair import MAX_DEPTH, repaired
from headwater.model import Entry

URL = "https://example.org/feed"
GOOD = (
    b'<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel><title>T</title>'
    b"<item><title>One &amp; only</title><link>https://example.org/1</link>"
    b"<description><![CDATA[<p>first</p>]]></description></item>"
    b"<item><title>Two</title><link>https://example.org/2</link>"
    b"<description>&lt;p&gt;second&lt;/p&gt;</description></item>"
    b"</channel></rss>"
)


def feed(data: bytes) -> Feed:
    return parse_feed(data, url=URL)


def entries(inner: bytes) -> tuple[Entry, ...]:
    return feed(b"<rss><channel>" + inner + b"</channel></rss>").entries


def titles(inner: bytes) -> list[str]:
    return [entry.title for entry in entries(inner)]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (b"<item><title>AT&T</title></item>", ["AT&T"]),
        (b"<item><title>caf&eacute; &nbsp; &unknown;</title></item>", ["café &unknown;"]),
        (b"<item><title>a &#xD800; b&#0;c</title></item>", ["a \ufffd bc"]),
        (b"<item><title>a\x00b\x0bc</title></item>", ["abc"]),
        (b"<item><title>1 < 2</title></item>", ["1 < 2"]),
        (b"<item><title>a<br>b<p>c</title></item><item><title>d</title></item>", ["a b c", "d"]),
        (b"<item><title>a</item><item><title>b</title></item>", ["a", "b"]),
        (b"<item><title>a</title><item><title>b</title></item>", ["a", "b"]),
        (b"<x:y><item><title>a</title></item>", ["a"]),
        (b"<item a=1 b c='>'><title>a</title></item>", ["a"]),
        (b"<item><title a='1' a='2'>a</title></item></p></b>", ["a"]),
        (b"<item><title>]]></title></item>", ["]]>"]),
    ],
)
def test_r1_ill_formed_xml_is_parsed_leniently(inner, expected):
    assert titles(inner) == expected


@pytest.mark.parametrize(
    "junk",
    [
        b"\r\n  ",
        b"\xef\xbb\xbf\xef\xbb\xbf",
        b"<br />\n<b>Warning</b>: something on line 3<br />\n",
        b"junk {",
        b"<!-- <rss> -->",
        b'<?xml-stylesheet href="x"?>',
        b'<!DOCTYPE rss SYSTEM "http://127.0.0.1/x.dtd">',
        b'<!DOCTYPE rss [<!ENTITY a "]">]>',
    ],
)
def test_r1_junk_before_the_root_element_is_ignored(junk):
    read = feed(junk + GOOD)
    assert [entry.title for entry in read.entries] == ["One & only", "Two"]
    assert read.complete


def test_r1_junk_after_the_root_element_is_ignored():
    read = feed(GOOD + b"<!-- cached --><script>x</script>&")
    assert (len(read.entries), read.complete) == (2, True)


def test_r1_a_feed_inside_a_page_is_found():
    assert len(feed(b"<html><body>" + GOOD + b"</body></html>").entries) == 2


@pytest.mark.parametrize("end", range(GOOD.index(b"<channel"), len(GOOD)))
def test_r1_a_truncated_document_is_incomplete_and_keeps_its_entries(end):
    read = feed(GOOD[:end])
    assert not read.complete
    if end > GOOD.index(b"</item>"):
        assert read.entries[0].body == "first"


def test_r1_a_document_cut_inside_its_root_tag_is_no_feed():
    with pytest.raises(NotAFeed, match="cut off"):
        feed(b"<rss version=")


def test_r1_a_root_end_tag_in_cdata_is_ignored():
    assert not feed(b"<rss><channel><item><title>x</title><![CDATA[</rss>").complete


def test_m1_internal_entities_are_not_expanded():
    doctype = b'<!DOCTYPE rss [<!ENTITY a "boom"><!ENTITY b "&a;&a;">]>'
    read = feed(doctype + b"<rss><channel><item><title>x &b;</title></item></channel></rss>")
    assert read.entries[0].title == "x &b;"


def test_m1_external_entities_are_not_fetched():
    doctype = b'<!DOCTYPE rss [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    read = feed(doctype + b"<rss><channel><item><title>x &a;</title></item></channel></rss>")
    assert read.entries[0].title == "x &a;"


HOSTILE = {
    "deep": b"<description>" + b"<b>" * 50_000 + b"x" + b"</b>" * 50_000 + b"</description>",
    "never closed": b"<div>" * 50_000,
    "attributes": b"<a " + b" ".join(b'a%d="1"' % i for i in range(20_000)) + b"/>",
    "namespaces": b"<a " + b" ".join(b'xmlns:a%d="u"' % i for i in range(20_000)) + b"/>",
    "declarations without end": b"<title>" + b"-xmlns" * 100_000 + b"</title>",
    "long name": b"<" + b"x" * 1_000_000 + b">",
    "long text": b"<guid>" + b"x" * 1_000_000 + b"</guid>",
    "ampersands": b"<title>" + b"&" * 500_000 + b"</title>",
    "angle brackets": b"<title>" + b"<" * 500_000 + b"</title>",
    "quotes": b"<a " + b"\"'" * 300_000 + b">",
    "open cdata": b"<![CDATA[" * 50_000,
    "open comments": b"<!--" * 50_000,
    "bad dates": b"<pubDate>1 1 1 1 1 1 1 1</pubDate>" * 20_000,
    "bad authors": b"<author>" + b"a@" * 300_000 + b"</author>",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_m2_hostile_entries_are_bounded_and_earlier_ones_are_kept(what):
    read = entries(b"<item><title>before</title></item><item>" + HOSTILE[what] + b"</item>")
    assert read[0].title == "before"
    assert len(read) == 2


def test_m2_the_repaired_document_stays_below_the_depth_limit():
    mended, closed = repaired(b"<rss>" + b"<a>" * 10_000 + b"x" + b"</a>" * 10_000 + b"</rss>")
    assert mended.count(b"<a>") == mended.count(b"</a>") == MAX_DEPTH - 1
    assert closed


def test_m6_no_unstorable_text_is_returned():
    read = entries(
        b"<item><title>a\x01b\xed\xa0\x80c</title><link>https://x/\x02y\nz</link>"
        b"<guid>g\x03\nh</guid><author>q\x04</author></item>"
    )
    for value in (read[0].title, read[0].url, read[0].id, read[0].author, read[0].body):
        assert value is not None
        value.encode("utf-8")
        assert value.isprintable()


def test_m8_a_feed_of_many_entries_is_parsed_completely():
    inner = b"".join(b"<item><title>t%d</title></item>" % i for i in range(20_000))
    assert len(entries(inner)) == 20_000


def never_raises(data: bytes, content_type: str | None = None) -> None:
    try:
        read = parse_feed(data, content_type=content_type, url=URL)
    except NotAFeed as error:
        assert "\n" not in str(error)
        return
    for entry in read.entries:
        f"{entry.id}{entry.title}{entry.url}{entry.author}{entry.body}".encode()


@given(st.binary(max_size=300), st.none() | st.text(max_size=30))
def test_h4_random_bytes_raise_nothing_but_not_a_feed(data, content_type):
    never_raises(data, content_type)


PIECES = [
    *b"<rss> </rss> <channel> </channel> <item> </item> <item/> <title> </title>".split(),
    *b"<link> </link> <guid> <pubDate> <![CDATA[ ]]> <!-- --> <? ?> <!DOCTYPE & &# &#x".split(),
    *b"&amp; ; <p> </p> <br> <entry> <feed> <a:b > < { } [ http://[ text".split(),
    *(b"<link href='", b"'/>", b" xml:base='http://[/'", b'"', b"'", b"\x00", b"\xff", b" "),
    *(b"\xed\xa0\x80", b'"items":', b"\xc2\x92"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_h4_random_markup_raises_nothing_but_not_a_feed(data):
    never_raises(data)
    never_raises(b"<rss><channel><item>" + data)


@given(st.data())
def test_h4_damaged_feeds_raise_nothing_but_not_a_feed(data):
    at = data.draw(st.integers(0, len(GOOD)))
    length = data.draw(st.integers(0, 20))
    other = data.draw(st.binary(max_size=20) | st.sampled_from(PIECES))
    never_raises(GOOD[:at] + other + GOOD[at + length :])


@pytest.mark.parametrize("name", [b"/etc/hostname", b"file:///etc/hostname", b"http://127.0.0.1/"])
def test_m3_bytes_that_look_like_a_path_are_parsed_as_content(name):
    with pytest.raises(NotAFeed):
        parse_feed(name, url="http://example.org/feed")
