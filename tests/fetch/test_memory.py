"""Documents that would take memory by the piece: read in parts, or refused before (H1, M8)."""

import asyncio
import random

import pytest

from headwater.clock import SystemClock
from headwater.errors import ManyEntries, TooExpensive
from headwater.fetch import text, xmlfeed, xmlstream
from headwater.fetch.body import MEDIUM_BODY
from headwater.fetch.feed import Feed, parse_feed
from headwater.fetch.memory import _thread_state, forget_names
from headwater.fetch.parsers import Parsers
from headwater.fetch.repair import repaired
from tests.hostile.documents import good, item, numbered, rss

URL = "http://site.example/feed"
_NAMES = "_ParserDictionaryContext"
_PIECES = (
    "a", "b ", " ", "\n", "\x01", "\x85", "\u2003", "\U0001f600", "\ud800", "&amp;", "&lt", "<p>",
    "<b>", "</b>", "<br/>", "<!-- x -->", "<script>a b</script>", "&#65;", "&", "<", "x y", "\0",
)  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        rss(*(item(f"T{n}", f"B{n}", date="Mon, 02 Jan 2006 15:04:05 GMT") for n in range(30))),
        rss(good(), "<item><description><p>Some <b>words</b></p></description></item>"),
        rss(good(), "<item><title>Cut off")[:-20],
        (
            b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/x/"><title>A</title>'
            b'<entry><id>1</id><link href="y"/><content>H</content></entry></feed>'
        ),
        (
            b'<rdf:RDF xmlns:rdf="urn:r"><item rdf:about="http://a/1"><title>I</title></item>'
            b"<channel><title>Comes last</title></channel></rdf:RDF>"
        ),
        (
            b"<CHANNEL HREF='http://a/'><TITLE>C</TITLE><ITEM HREF='http://a/1'><TITLE>I</TITLE></ITEM>"
            b"</CHANNEL>"
        ),
        (
            b"<rss><channel><x:item><title>Odd</title></x:item><item><title>Good</title></item>"
            b"</channel></rss>"
        ),
        b"<item><title>Alone</title><item><title>Inside</title></item></item>",
    ],
)
def test_h1_a_feed_read_entry_by_entry_is_what_it_is_as_a_tree(document, monkeypatch):
    whole = parse_feed(document, url=URL)
    monkeypatch.setattr(xmlfeed, "LARGE_BYTES", -1)
    for size in (7, 100, 65536):
        monkeypatch.setattr(xmlstream, "_PIECE", size)
        read = parse_feed(document, url=URL)
        assert {e.title for e in read.entries} == {e.title for e in whole.entries}
        assert sorted(read.entries, key=str) == sorted(whole.entries, key=str)
        assert (read.complete, read.title) == (whole.complete, whole.title)


@pytest.mark.parametrize("opening", ["", "<item><description>"])
def test_h1_too_many_elements_are_refused_before_they_are_all_there(opening):
    with pytest.raises(TooExpensive, match="more than 300,000 elements"):
        parse_feed(rss(good(), opening, "x<a/>" * 400_000), url=URL)


def test_h1_markup_in_cdata_is_no_element():
    long = "<item><title>L</title><description><![CDATA[" + "<b>x" * 400_000
    feed = parse_feed(rss(good(), long + "]]></description></item>"), url=URL)
    assert [len(entry.body) for entry in feed.entries][1] == 400_000


@pytest.mark.parametrize("odd", [b"&", b"<"])
def test_h1_mending_does_not_make_a_document_many_times_as_large(odd):
    document = b"<rss><item>" + (odd * 90_000 + b"<b/>") * 20
    mended, _ = repaired(document)
    assert len(mended) < 3 * len(document)


@pytest.mark.parametrize("value", ["[]", "{}", "0", '"ab"'])
def test_h1_too_many_values_of_json_are_refused_before_they_are_all_there(value):
    document = '{"version": "https://jsonfeed.org/version/1", "items": [' + f"{value}," * 950_000
    for end in ("0]}", ""):
        with pytest.raises(TooExpensive, match="values"):
            parse_feed((document + end).encode(), url=URL)


def test_m8_no_more_entries_are_read_than_asked_for():
    document = rss(numbered(range(2001)))
    assert len(parse_feed(document, url=URL, most=2001).entries) == 2001
    json_feed = b'{"version": "jsonfeed", "items": [%s]}' % b",".join([b'{"id": "a"}'] * 2001)
    for each in (document, json_feed, json_feed[:-2]):
        with pytest.raises(ManyEntries):
            parse_feed(each, url=URL, most=2000)


def test_h1_long_text_in_parts_is_what_it_is_in_one(monkeypatch):
    chance = random.Random(7)
    texts = ["".join(chance.choices(_PIECES, k=chance.randint(1, 30))) for _ in range(2000)]
    readers = (text.html_to_text, text.one_line, text.decoded_line)
    whole = [read(each) for each in texts for read in readers]
    monkeypatch.setattr(text, "LONG_TEXT", 3)
    monkeypatch.setattr(text, "_PART", 5)
    monkeypatch.setattr(text, "_PIECES", 2)
    assert [read(each) for each in texts for read in readers] == whole


async def test_h1_names_of_elements_are_not_kept_for_ever():
    async with Parsers(clock=SystemClock()) as parsers:
        forget_names()
        for _ in range(99):
            await parsers.feed(rss(good()), content_type=None, url=URL)
        assert _NAMES in _thread_state()
        before = _thread_state()[_NAMES]
        feed = await parsers.feed(rss(good()), content_type=None, url=URL)
        assert _thread_state()[_NAMES] is not before
        assert len(feed.entries) == 1


async def test_h1_large_documents_are_read_one_at_a_time_until_they_are_stored():
    large = rss(good(), "<!--", "x" * MEDIUM_BODY, "-->")
    medium = rss(good(), "<!--", "x" * (1 << 20), "-->")
    many = rss(numbered(range(2500)))
    async with Parsers(clock=SystemClock()) as parsers:

        async def read(document: bytes) -> Feed:
            return await parsers.feed(document, content_type=None, url=URL)

        first, *others = [await read(large), await read(medium), await read(many)]
        waiting = [asyncio.create_task(read(each)) for each in (large, medium)]
        for _ in range(2):  # others go on
            assert (await read(rss(good(), "<!--", "x" * 70_000, "-->"))).leave is None
        assert not any(task.done() for task in waiting)
        for held, task in zip((first, others[0]), waiting, strict=True):
            assert held.leave is not None
            held.leave.let_go()
            assert (await task).leave is not None
        assert len(others[1].entries) == 2500
