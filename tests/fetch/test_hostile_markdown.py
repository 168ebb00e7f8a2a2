"""Expensive documents of 10 MB are converted to Markdown within the budgets (T1, H2, M5)."""

import pytest

from headwater.clock import SystemClock
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.pool.parser_pool import ParserPool

URL = "https://example.org/feed"
SIZE = 10_000_000
# Seconds: a conversion takes a few, on a busy machine more; one that is not linear takes hours.
PATIENCE = 300
PIECES = {
    "lists": "<ul><li>x",
    "quotes": "<blockquote>x",
    "inline": "<b><i><a href='/x'>x",
    "tables": "<table><tr><td>x",
    "paragraphs": "<p>x ",
    "metacharacters": "*_`[]<>&\\|~#x ",
    "code": "<pre>x\n",
    "images": "x<img alt=y>",
    "attribute": 'x<a href="',
}


def document(piece: str) -> str:
    return piece * (SIZE // len(piece))


async def converted(data: bytes, *, is_page: bool) -> Feed:
    """What a worker makes of a document within the default limit of its memory."""
    async with ParserPool(clock=SystemClock(), timeout_seconds=PATIENCE) as parsers:
        parse = parsers.page if is_page else parsers.feed
        return await parse(data, content_type=None, url=URL)


@pytest.mark.slow
@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("is_page", [False, True], ids=["feed", "page"])
@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
async def test_t1_h2_m5_an_expensive_document_of_10_mb_is_converted(piece: str, is_page: bool):
    html = document(piece)
    if not is_page:
        html = f"<rss><channel><item><description><![CDATA[{html}]]></description></item></channel>"
    (entry,) = (await converted(html.encode(), is_page=is_page)).entries
    assert "x" in entry.body
    if entry.markdown is not None:  # beyond its limit of memory there is none
        assert "x" in entry.markdown
        assert len(entry.markdown) <= 3 * SIZE
