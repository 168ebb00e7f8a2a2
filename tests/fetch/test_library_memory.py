"""Documents that need much memory in the libraries: parsed in parts, or refused (H1, M8)."""

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import ManyEntries, TooExpensive
from headwater.fetch.feed import element_text, feed_entries, xml_stream
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.feed.xml_repair import repaired
from headwater.fetch.library_memory import (
    MAX_INTERNED_BYTES,
    forget_names,
    interned_names,
    return_freed_memory,
    return_large_blocks,
)
from headwater.fetch.net.large_bodies import MEDIUM_BODY
from headwater.fetch.pool.parser_pool import ParserPool
from headwater.fetch.pool.worker_process import WORKER, Job, ParserProcess
from headwater.fetch.text import html_to_text
from tests.fetch.test_parser_pool import children
from tests.hostile.documents import GOOD_TITLE, good, item, numbered, rss

pytestmark = pytest.mark.slow  # measures processes that use hundreds of megabytes

URL = "http://site.example/feed"
_PEAK = Path("/proc/self/clear_refs")  # resets the peak
_WORD = "<b>" + "x" * 28 + "</b>"
_TEXT_AND_TAIL = "<b>xxxxxxxxxxxxxx</b>yyyyyyyyyyyyyy"
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
def test_h1_incremental_parsing_agrees_with_parsing_the_tree(document, monkeypatch):
    whole = parse_feed(document, url=URL)
    monkeypatch.setattr(xml_stream, "LARGE_BYTES", -1)
    for size in (7, 100, 65536):
        monkeypatch.setattr(xml_stream, "PIECE_BYTES", size)
        read = parse_feed(document, url=URL)
        assert {e.title for e in read.entries} == {e.title for e in whole.entries}
        assert sorted(read.entries, key=str) == sorted(whole.entries, key=str)
        assert (read.complete, read.title) == (whole.complete, whole.title)


@pytest.mark.parametrize("inner", ["x<a/>" * 400_000, _TEXT_AND_TAIL * 250_000])
@pytest.mark.parametrize("odd", ["", " & "])
def test_h1_a_too_large_first_entry_is_refused_before_it_is_complete(inner, odd):
    with pytest.raises(TooExpensive, match="one entry is made of too many elements"):
        parse_feed(rss("<item><description>\U0001f600", odd, inner), url=URL)


@pytest.mark.parametrize("opening", ["", "<item><description>"])
def test_m2_entries_before_too_many_elements_are_kept(opening):
    for end in ("", "<item><title>Late"):
        feed = parse_feed(rss(good(), opening, "x<a/>" * 400_000, end), url=URL)
        assert [entry.title for entry in feed.entries] == [GOOD_TITLE]
        assert not feed.complete


@pytest.fixture(scope="module")
def apart() -> Iterator[Executor]:
    """A separate process for the measurement."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.skipif(not _PEAK.exists(), reason="only Linux reports the peak memory of a process")
@pytest.mark.parametrize(
    "document",
    [
        lambda: _one_entry(_WORD * 173_000),
        lambda: _one_entry(" & ", _TEXT_AND_TAIL * 133_000),
        lambda: _one_entry("<b a='1'>xxxxxxxxxx</b>" * 120_000),
        lambda: _one_entry(_WORD * 70_000, "ab " * 2_400_000),
        lambda: _one_entry(" & ", "a &amp; b <i> " * 740_000),
        lambda: _json_items(100_000),
        lambda: _json_feed('"\U0001f600"' + ",0" * 800_000) + b" " * 8_000_000,
        lambda: _json_feed('"a"' + ',"\U0001f600"' * 750_000),
    ],
)
def test_h1_documents_just_within_the_limits_stay_within_the_memory_limit(document, apart):
    """The service holds document and body at the same time; all of it may be 150 MB."""
    megabytes, complete = apart.submit(_taken, document()).result()
    assert complete
    assert megabytes < 110


def _one_entry(*inner: str) -> bytes:
    """An entry with one wide character."""
    return rss("<item><description>\U0001f600", *inner, "</description></item>")


def _json_feed(items: str) -> bytes:
    return f'{{"version": "https://jsonfeed.org/version/1.1", "items": [{items}]}}'.encode()


def _json_items(count: int) -> bytes:
    items = (
        f'{{"id":"{n}","url":"http://a.b/{n}","title":"\U0001f600","content_text":"b{n}","x":"2026"}}'
        for n in range(count)
    )
    return _json_feed(",".join(items))


def _taken(document: bytes) -> tuple[float, bool]:
    """Growth of this process in MB while it parses a feed, and whether it is complete."""
    return_large_blocks()
    return_freed_memory()
    _PEAK.write_text("5")
    before = _megabytes("VmRSS")
    complete = parse_feed(document, url=URL).complete
    return _megabytes("VmHWM") - before, complete


def _megabytes(name: str, process: int | str = "self") -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(name))


def test_h1_markup_in_cdata_is_no_element():
    long = "<item><title>L</title><description><![CDATA[" + "<b>x" * 400_000
    feed = parse_feed(rss(good(), long + "]]></description></item>"), url=URL)
    assert [len(entry.body) for entry in feed.entries][1] == 400_000


@pytest.mark.parametrize("odd", [b"&", b"<"])
def test_h1_repairing_does_not_multiply_the_size_of_a_document(odd):
    document = b"<rss><item>" + (odd * 90_000 + b"<b/>") * 20
    mended, _ = repaired(document)
    assert len(mended) < 3 * len(document)


@pytest.mark.parametrize("value", ["[]", "{}", "0", '"ab"'])
def test_h1_too_many_json_values_are_refused_before_they_are_all_parsed(value):
    document = '{"version": "https://jsonfeed.org/version/1", "items": [' + f"{value}," * 950_000
    for end in ("0]}", ""):
        with pytest.raises(TooExpensive, match="values"):
            parse_feed((document + end).encode(), url=URL)


def test_m8_no_more_entries_are_parsed_than_requested():
    document = rss(numbered(range(2001)))
    assert len(parse_feed(document, url=URL, max_entries=2001).entries) == 2001
    json_feed = b'{"version": "jsonfeed", "items": [%s]}' % b",".join([b'{"id": "a"}'] * 2001)
    for each in (document, json_feed, json_feed[:-2]):
        with pytest.raises(ManyEntries):
            parse_feed(each, url=URL, max_entries=2000)


def test_m8_of_too_many_entries_the_first_ones_are_kept():
    most = feed_entries.MAX_ENTRIES
    json_feed = _json_feed(",".join(f'{{"id":"{n}"}}' for n in range(most + 1)))
    small = b"<rss>" + b"<item/>" * (most + 1)
    assert len(small) < xml_stream.LARGE_BYTES
    for document in (rss(numbered(range(most + 1))), small + b"</rss>", json_feed, json_feed[:-2]):
        feed = parse_feed(document, url=URL)
        assert len(feed.entries) == most
        assert not feed.complete


@pytest.mark.parametrize("letters", ["M1,2L3,4", '{\\"a\\": [1, 2]}'])
def test_m4_text_is_not_counted_as_json_values(letters):
    items = ",".join(f'{{"id":"{n}","content_text":"{letters * 20_000}"}}' for n in range(25))
    document = _json_feed(items)
    for each in (document, document[:-2]):
        assert len(parse_feed(each, url=URL).entries) == 25


def test_h1_an_item_of_too_many_values_is_refused_in_a_broken_document_too():
    document = b'{"a": \\", "items": [{"id": "a", "x": [0' + b",0" * 1_000_000 + b"]}]}"
    with pytest.raises(TooExpensive, match="values"):
        parse_feed(document, url=URL)


def test_h1_too_many_different_keys_are_refused():
    keys = ",".join(f'"k{n:x}":0' for n in range(400_000))
    with pytest.raises(TooExpensive, match="values"):
        parse_feed(_json_feed(f'{{"id": "a", "x": {{{keys}}}}}'), url=URL)


@pytest.mark.parametrize("mark", ["<![CDATA[{}]]>", "{}"])
def test_m2_a_text_longer_than_the_parser_accepts_is_cut(mark):
    long = f"<item><description>{mark.format('ä' * 5_010_000)}</description></item>"
    feed = parse_feed(rss(good(), long, good()), url=URL)
    assert [len(entry.body) for entry in feed.entries][1] == 4_995_000
    assert len(feed.entries) == 3
    assert not feed.complete


def test_h1_long_markup_gives_the_same_result_as_short_markup(monkeypatch):
    marked = (
        "a<p>b <b>c</b>d</p>e<script>x <b>y</b></script>f&amp;amp;<br/>g&lt;b&gt;\n<Div>h</Div>i",
        "<x:p xmlns:x='urn:x'>a</x:p>b<style/>c<table><tr><td>d</td><td>e</td></tr></table> f ",
    )
    documents = [rss(f"<item><description>{each}</description></item>") for each in marked]
    short = [parse_feed(each, url=URL).entries for each in documents]
    monkeypatch.setattr(element_text, "LONG_MARKUP", 0)
    assert [parse_feed(each, url=URL).entries for each in documents] == short


def test_h1_long_text_in_parts_gives_the_same_result_as_in_one(monkeypatch):
    chance = random.Random(7)
    texts = ["".join(chance.choices(_PIECES, k=chance.randint(1, 30))) for _ in range(2000)]
    readers = (html_to_text.html_to_text, html_to_text.one_line, html_to_text.decoded_line)
    whole = [read(each) for each in texts for read in readers]
    monkeypatch.setattr(html_to_text, "LONG_TEXT", 3)
    monkeypatch.setattr(html_to_text, "PART", 5)
    monkeypatch.setattr(html_to_text, "PIECES", 2)
    assert [read(each) for each in texts for read in readers] == whole


async def test_h1_element_names_are_not_cached_for_ever():
    async with ParserPool(clock=SystemClock()) as parsers:
        forget_names()
        document = rss(good(), "<!--", "x" * 50_000, "-->")
        for _ in range(MAX_INTERNED_BYTES // len(document)):
            await parsers.feed(document, content_type=None, url=URL)
        before = interned_names()
        assert before is not None
        feed = await parsers.feed(document, content_type=None, url=URL)
        assert interned_names() is not before
        assert len(feed.entries) == 1


def test_h1_a_worker_does_not_cache_names_for_ever_either():
    """It would be a dozen megabytes of names that no two documents share."""
    worker = ParserProcess(WORKER, memory_mb=512)
    worker.start()
    sizes = []
    try:
        for first in range(0, 150, 50):
            for number in range(first, first + 50):
                names = "".join(f"<n{number}.{n}/>" for n in range(4000))
                job = Job("feed", rss(good(), names), None, URL, 10.0)
                assert len(worker.work(job).entries) == 1
            (pid,) = children(b"worker_main")
            sizes.append(_megabytes("VmData", pid))
    finally:
        worker.end()
    assert sizes[-1] - sizes[0] < 6, sizes


async def test_h1_large_documents_are_parsed_one_at_a_time_until_they_are_stored():
    large = rss(good(), "<!--", "x" * MEDIUM_BODY, "-->")
    medium = rss(good(), "<!--", "x" * (1 << 20), "-->")
    many = rss(numbered(range(2500)))
    async with ParserPool(clock=SystemClock()) as parsers:

        async def read(document: bytes) -> Feed:
            return await parsers.feed(document, content_type=None, url=URL)

        first, *others = [await read(large), await read(medium), await read(many)]
        waiting = [asyncio.create_task(read(each)) for each in (large, medium)]
        for _ in range(2):  # others continue
            assert (await read(rss(good(), "<!--", "x" * 70_000, "-->"))).permit is None
        assert not any(task.done() for task in waiting)
        for held, task in zip((first, others[0]), waiting, strict=True):
            assert held.permit is not None
            held.permit.release()
            assert (await task).permit is not None
        assert len(others[1].entries) == 2500
