"""Feeds of every format become entries (R1, R4, R5, R6)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headwater.errors import NotAFeed
from headwater.fetch.feed.feed_document import parse_feed, read_feed
from headwater.model import Completeness, Entry

URL = "https://example.org/blog/feed.xml"
NAMESPACES = (
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" '
    'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" '
    'xmlns:media="http://search.yahoo.com/mrss/" '
    'xmlns:atom="http://www.w3.org/2005/Atom" '
    'xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"'
)


def rss(*items: str, head: str = "<title>Feed</title>") -> bytes:
    inner = "".join(f"<item>{item}</item>" for item in items)
    return f'<rss version="2.0" {NAMESPACES}><channel>{head}{inner}</channel></rss>'.encode()


def atom(*entries: str, attributes: str = "") -> bytes:
    inner = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom" {attributes}>{inner}</feed>'.encode()


def only(data: bytes, url: str = URL) -> Entry:
    (entry,) = read_feed(data, url=url)
    return entry


def body_of(item: str) -> str:
    return only(rss(item)).body


def author_of(item: str) -> str | None:
    return only(rss(item)).author


RSS_2 = rss(
    "<title>One</title><link>https://example.org/1</link><guid>https://example.org/1</guid>"
    "<pubDate>Mon, 16 Feb 2026 08:00:00 GMT</pubDate><dc:creator>Ann</dc:creator>"
    "<description>&lt;p&gt;Text&lt;/p&gt;</description>"
)
RSS_1 = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <channel><title>Feed</title><link>https://example.org/</link></channel>
  <item rdf:about="https://example.org/1"><title>One</title><link>https://example.org/1</link>
  <dc:date>2026-02-16T08:00:00Z</dc:date><dc:creator>Ann</dc:creator>
  <description>Text</description></item></rdf:RDF>"""
ATOM_1 = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Feed</title><entry>
  <id>https://example.org/1</id><title>One</title><link href="https://example.org/1"/>
  <published>2026-02-16T08:00:00Z</published><updated>2026-02-17T08:00:00Z</updated>
  <author><name>Ann</name></author><content type="html">&lt;p&gt;Text</content></entry></feed>"""
ATOM_03 = b"""<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>Feed</title><entry>
  <id>https://example.org/1</id><title mode="escaped" type="text/html">One</title>
  <link rel="alternate" type="text/html" href="https://example.org/1"/>
  <issued>2026-02-16T08:00:00Z</issued><author><name>Ann</name></author>
  <content type="application/xhtml+xml" mode="xml"><div>Text</div></content></entry></feed>"""
JSON = b"""{"version": "https://jsonfeed.org/version/1.1", "title": "Feed", "items": [{
  "id": "https://example.org/1", "title": "One", "url": "https://example.org/1",
  "date_published": "2026-02-16T08:00:00Z", "authors": [{"name": "Ann"}],
  "content_html": "<p>Text</p>"}]}"""


@pytest.mark.parametrize("data", [RSS_2, RSS_1, ATOM_1, ATOM_03, JSON])
def test_r1_every_format_gives_the_same_entries(data):
    feed = parse_feed(data, url=URL)
    assert (feed.title, feed.complete) == ("Feed", True)
    (entry,) = feed.entries
    assert (replace(entry, completeness=Completeness.UNKNOWN),) == (
        Entry(
            id="https://example.org/1",
            title="One",
            url="https://example.org/1",
            published_at=datetime(2026, 2, 16, 8, tzinfo=UTC),
            author="Ann",
            body="Text",
            markdown="Text",
        ),
    )


@pytest.mark.parametrize(
    "data",
    [
        b"<rss version='0.91'><channel><item><title>One</title></item></channel></rss>",
        b"<RSS><CHANNEL><ITEM><TITLE>One</TITLE></ITEM></CHANNEL></RSS>",
        b"<rss><item><title>One</title></item></rss>",
        b"<channel><item><title>One</title></item></channel>",
        b'<r:rss xmlns:r="u"><r:channel><r:item><title>One</title></r:item></r:channel></r:rss>',
        b'<rss xmlns="urn:unknown"><channel><item><title>One</title></item></channel></rss>',
        b"<entry xmlns='http://www.w3.org/2005/Atom'><title>One</title></entry>",
        b"<Channel xmlns='urn:rss1.1'><items><item><title>One</title></item></items></Channel>",
        b'<CHANNEL><ITEM HREF="https://example.org/1"><TITLE>One</TITLE></ITEM></CHANNEL>',
        b"<rss><channel><item><atom:title>One</atom:title></item></channel></rss>",
    ],
)
def test_r1_names_and_namespaces_are_matched_leniently(data):
    assert only(data).title == "One"


@pytest.mark.parametrize(
    ("item", "body"),
    [
        (
            "<description>&lt;p>Breaking news&lt;/p>&lt;a href='/x'>link&lt;/a></description>",
            "Breaking news link",
        ),
        ("<description>teaser</description><content:encoded>all</content:encoded>", "all"),
        ("<content:encoded>all</content:encoded><description>teaser</description>", "all"),
        ("<description>teaser</description><content:encoded> </content:encoded>", "teaser"),
        ("<description><![CDATA[a&nbsp;b <script>x()</script>c]]></description>", "a b c"),
        ("<description><p>naked</p><p>markup</p></description>", "naked markup"),
        ("<description>a<!-- hidden --> b</description>", "a b"),
        ("<itunes:summary>from itunes</itunes:summary>", "from itunes"),
        (
            "<media:group><media:description>from media</media:description></media:group>",
            "from media",
        ),
        ("<dc:description>from dc</dc:description>", "from dc"),
        ("<summary>short</summary><description>longer</description>", "longer"),
        ("<description>longer</description><summary>short</summary>", "longer"),
        ("<summary>short</summary><description> </description>", "short"),
        ('<body xmlns="http://www.w3.org/1999/xhtml"><p>xhtml</p></body>', "xhtml"),
        (
            '<x:body xmlns:x="http://www.w3.org/1999/xhtml"><x:p>a</x:p><x:script>b</x:script></x:body>',
            "a",
        ),
    ],
)
def test_r4_the_body_is_content_else_summary_as_plain_text(item, body):
    assert body_of(item) == body


@pytest.mark.parametrize(
    ("content", "body"),
    [
        ('<content type="text">a &lt;b> c</content>', "a <b> c"),
        ('<content type="html">a &lt;b>b&lt;/b> &amp;amp; c</content>', "a b & c"),
        ('<content type="xhtml"><div>a &lt;b> <i>c</i></div></content>', "a <b> c"),
        ("<content>no type &lt;i>but html&lt;/i></content>", "no type but html"),
        ("<content>1 &lt; 2 &amp; 3</content>", "1 < 2 & 3"),
        ('<content mode="base64">PHA+SGk8L3A+</content>', "Hi"),
        ('<content type="html"><div>&lt;p>a&lt;/p></div></content>', "a"),
        ("<content><div>a &lt;br/> &lt;i>b&lt;/i></div></content>", "a b"),
        ('<content type="xhtml"><div>&lt;p>a&lt;/p> &lt;p>b&lt;/p></div></content>', "a b"),
        ('<content type="xhtml"><div>write &lt;b>x&lt;/b></div></content>', "write <b>x</b>"),
        ('<content type="xhtml"><div>a &lt;br/> &lt;p/></div> b</content>', "a <br/> <p/> b"),
        ('<content type="image/png">iVBORw0KGgo=</content><summary>alt</summary>', "alt"),
        ('<content src="/x.mp3" type="audio/mpeg"/><summary>alt</summary>', "alt"),
    ],
)
def test_r4_atom_text_follows_its_type(content, body):
    assert only(atom(content)).body == body


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("AT&amp;amp;T", "AT&T"),
        ("<![CDATA[Jenny&#8217;s <b>news</b>]]>", "Jenny’s news"),
        ("<![CDATA[Vec<T> and Map<K, V>]]>", "Vec<T> and Map<K, V>"),
        ("  two\n lines ", "two lines"),
        ("don&#146;t", "don’t"),
    ],
)
def test_r4_titles_are_plain_text_too(title, text):
    assert only(rss(f"<title>{title}</title>")).title == text


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Use &lt;b&gt; or &lt;i&gt;", "Use <b> or <i>"),
        ("Use &lt;b&gt; &amp;amp; &lt;i&gt;", "Use <b> & <i>"),
        ("A &lt;b&gt;bold&lt;/b&gt; title", "A bold title"),
        ("Two&lt;br&gt;lines", "Two lines"),
    ],
)
def test_r4_an_untyped_atom_title_keeps_words_that_look_like_tags(title, text):
    assert only(atom(f"<title>{title}</title>")).title == text


def test_r5_an_empty_body_is_the_title_else_the_link():
    by_title, by_link, by_id = read_feed(
        rss(
            "<title>Only this</title><link>https://example.org/1</link>",
            "<link>https://example.org/2</link>",
            "<guid isPermaLink='false'>https://example.org/3</guid>",
        ),
        url=URL,
    )
    assert (by_title.title, by_title.body) == ("Only this", "Only this")
    assert by_link.body == by_link.title == by_link.url == "https://example.org/2"
    assert by_id.body == by_id.url == "https://example.org/3"


def test_r5_an_empty_entry_is_kept_for_admission_to_count():
    assert only(rss("<category>x</category>")).body == ""


def test_r5_a_missing_title_is_the_first_100_characters_of_the_body():
    assert only(rss(f"<description>{'x' * 300}</description>")).title == "x" * 100


@pytest.mark.parametrize(
    ("item", "link"),
    [
        ("<guid>https://example.org/g</guid>", "https://example.org/g"),
        ("<guid isPermaLink='false'>https://example.org/g</guid>", "https://example.org/g"),
        ("<guid>abc</guid><title>x</title>", URL),
        ("<link>/posts/1</link>", "https://example.org/posts/1"),
        ("<link>posts/1</link>", "https://example.org/blog/posts/1"),
        ("<link>//cdn.example.org/1</link>", "https://cdn.example.org/1"),
        ("<link>\n https://example.org/a?b=1&amp;c=2\n </link>", "https://example.org/a?b=1&c=2"),
        ("<link><![CDATA[https://example.org/a?b=1&c=2]]></link>", "https://example.org/a?b=1&c=2"),
        ("<link xml:base='https://other.example/d/'>x</link>", "https://other.example/d/x"),
        ("<atom:link href='https://example.org/a'/>", "https://example.org/a"),
        (f"<link>https://example.org/{'x' * 9000}</link>", URL),
        ("<link>http://[broken</link>", "http://[broken"),
        ("<link>//[broken</link>", URL),
    ],
)
def test_r5_links_are_resolved_and_never_missing(item, link):
    assert only(rss(item)).url == link


def test_r5_a_feed_served_by_a_relay_resolves_against_its_site():
    data = rss("<link>p/1</link>", head="<link>https://blog.example.com/</link>")
    assert only(data, "https://relay.example.net/f/1").url == "https://blog.example.com/p/1"


@pytest.mark.parametrize(
    ("links", "link"),
    [
        ('<link rel="self" href="/s"/><link rel="alternate" href="/a"/>', "/a"),
        ('<link rel="alternate" type="application/json" href="/j"/><link href="/a"/>', "/a"),
        ('<link rel="enclosure" href="/e"/><link rel="related" href="/r"/>', "/r"),
        ('<link rel="enclosure">/e</link><link type="text/html" href="/a"/>', "/a"),
    ],
)
def test_r5_the_link_of_an_atom_entry_is_its_alternate(links, link):
    assert only(atom(links)).url == "https://example.org" + link


def test_r5_xml_base_is_inherited_and_joined():
    data = atom(
        '<link href="c"/><id>e</id>', attributes='xml:base="https://example.net/a/" xml:lang="en"'
    )
    entry = only(data.replace(b"<entry>", b'<entry xml:base="b/">'))
    assert (entry.url, entry.id) == ("https://example.net/a/b/c", "https://example.net/a/b/e")


def test_r5_an_empty_href_is_the_base_that_the_entry_declares():
    link = '<link href=""/><id>tag:1</id>'
    assert only(atom(link)).url == URL  # it has no link
    data = atom(link).replace(b"<entry>", b'<entry xml:base="https://example.net/a/1">')
    assert only(data).url == "https://example.net/a/1"
    data = data.replace(b'<link href=""/>', b'<link href=""/><link rel="related" href="/r"/>')
    assert only(data).url == "https://example.net/a/1"


def test_r5_the_original_link_is_preferred_to_one_that_counts_clicks():
    link = "<link>https://feeds.example.org/~r/1</link>"
    original = "<feedburner:origLink>https://example.org/1</feedburner:origLink>"
    assert (
        only(rss(link + original)).url == only(rss(original + link)).url == "https://example.org/1"
    )
    assert (
        only(rss(link + original.replace("https://example.org/1", "n/a"))).url
        == "https://feeds.example.org/~r/1"
    )


def test_r5_the_same_body_under_different_links_gets_its_title_in_front():
    first, second, third = read_feed(
        rss(
            "<title>A</title><link>/1</link><description>Comments</description>",
            "<title>B</title><link>/2</link><description>Comments</description>",
            "<title>C</title><link>/3</link><description>Other</description>",
        ),
        url=URL,
    )
    assert [(e.body, e.plain_body) for e in (first, second, third)] == [
        ("A Comments", "Comments"),
        ("B Comments", "Comments"),
        ("Other", None),
    ]


def test_r5_the_same_body_under_the_same_link_stays():
    twice = "<title>A</title><link>/1</link><description>Text</description>"
    assert [e.body for e in read_feed(rss(twice, twice), url=URL)] == ["Text", "Text"]


@pytest.mark.parametrize(
    ("item", "author"),
    [
        ("<author>ann@example.org (Ann)</author>", "Ann"),
        ("<author>Ann &lt;ann@example.org&gt;</author>", "Ann"),
        ("<author>ann@example.org</author>", "ann@example.org"),
        ("<author> </author><dc:creator>Bob</dc:creator>", "Bob"),
        ("<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator>", "Ann"),
        ("<itunes:author>Cy</itunes:author>", "Cy"),
        ("<atom:author><atom:name>Dee</atom:name></atom:author>", "Dee"),
        ("<author><name> </name><email>e@example.org</email></author>", "e@example.org"),
        ("<title>x</title>", None),
    ],
)
def test_r6_the_author_is_the_first_one_named(item, author):
    assert author_of(item) == author


def test_r6_atom_entries_inherit_the_author_of_their_feed():
    data = atom("<title>a</title>", "<author><name>Bob</name></author>").decode()
    author = "<author><name>Ann</name></author>"
    before = data.replace("<entry>", f"{author}<entry>", 1)
    behind = data.replace("</feed>", f"{author}</feed>")
    for document in (before, behind):
        assert [e.author for e in read_feed(document.encode(), url=URL)] == ["Ann", "Bob"]
    origin = "<source><title>t</title><author><name>Cy</name></author></source>"
    copied = before.replace("<title>a</title>", origin)
    assert [e.author for e in read_feed(copied.encode(), url=URL)] == ["Cy", "Bob"]


def test_r6_rss_items_do_not_inherit_an_author():
    head = "<managingEditor>Ann</managingEditor><dc:creator>Ann</dc:creator><author>Ann</author>"
    assert only(rss("<title>a</title>", head=head)).author is None


def test_published_beats_updated_and_a_broken_date_is_ignored():
    item = "<pubDate>soon</pubDate><atom:updated>2026-02-16T08:00:00Z</atom:updated>"
    assert only(rss(item)).published_at == datetime(2026, 2, 16, 8, tzinfo=UTC)


def test_m8_titles_and_authors_are_cut():
    entry = only(rss(f"<title>{'t' * 2000}</title><dc:creator>{'a' * 900}</dc:creator>"))
    assert (len(entry.title), len(entry.author or "")) == (1000, 500)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b" \r\n ", "empty"),
        (b"<!DOCTYPE html><html><head><title>x</title></head></html>", "HTML page"),
        (b"<html><body>see <rss> for more</body></html>", "HTML page"),
        (b'{"hello": "world"}', "not a JSON Feed"),
        (b"[1, 2]", "not a JSON Feed"),
        (b"<catalog><book/></catalog>", "<catalog>"),
        (b"hello", "neither XML nor JSON"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "neither XML nor JSON"),
    ],
)
def test_r1_a_document_that_is_no_feed_is_reported_in_one_line(data, message):
    with pytest.raises(NotAFeed) as caught:
        read_feed(data, url="https://user:secret@example.org/x?token=abc")
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert "secret" not in text
    assert "abc" not in text


def test_t1_entries_that_were_seen_before_get_no_markdown():
    date = "<pubDate>Mon, 0{0} Feb 2026 08:00:00 GMT</pubDate>"
    item = date + "<description>&lt;p&gt;Day &lt;b&gt;{0}</description>"
    undated = "<description>&lt;b&gt;x</description>"
    data = rss(*map(item.format, (3, 2, 1)), undated)
    seen = parse_feed(data, url=URL, since=datetime(2026, 2, 2, 8, tzinfo=UTC)).entries
    assert [entry.markdown for entry in seen] == ["Day **3**", "Day **2**", None, "**x**"]
    everything = parse_feed(data, url=URL).entries
    assert [replace(entry, markdown=None) for entry in seen] == [
        replace(entry, markdown=None) for entry in everything
    ]


def test_r5_t1_a_shared_body_without_markdown_stays_without():
    item = "<pubDate>Mon, 02 Feb 2026 08:00:00 GMT</pubDate><description>Same</description>"
    data = rss(*(f"<title>{n}</title><link>https://example.org/{n}</link>{item}" for n in "ab"))
    seen = parse_feed(data, url=URL, since=datetime(2026, 2, 3, tzinfo=UTC)).entries
    assert [(entry.body, entry.markdown) for entry in seen] == [("a Same", None), ("b Same", None)]
