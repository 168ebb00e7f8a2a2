"""Locates the main text of a page with trafilatura (W1)."""

import logging
import re
from collections.abc import Iterator

from lxml import etree
from lxml import html as lxml_html

from headwater.fetch.page.html_blocks import Block, HtmlPage, exceeds

# libxml2 parses no deeper, and trafilatura needs some 60 µs per line; larger pages do without it.
_MAX_DEPTH = 200
_MAX_LINES = 20_000
_MAX_TAGS = 20_000  # an element needs 4 KB of memory there, an attribute 1 KB (H1)
_MAX_ATTRIBUTES = 50_000
_SMALL = 100_000  # characters, too few to exceed these limits by much
_MAX_LENGTH = 4_000_000  # characters of markup
_MAX_TEXT = 1_000_000  # characters of text
_COVERED = 0.7  # of the located text must lie inside the block
_AGREEING = 0.6  # of a line's word triples must occur in the located text
_WORD = re.compile(r"\w+")

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it warns about every unusual page


def located_block(page: HtmlPage, html: str) -> Block | None:
    """The smallest block with most of the main text; None if trafilatura found none."""
    if page.overloaded or page.depth > _MAX_DEPTH or len(page.lines) > _MAX_LINES:
        return None
    if _is_too_large(page, html):
        return None
    found = {triple for line in _main_text(html).splitlines() for triple in _triples(line)}
    covered = page.sums([_agreement(line.text, found) for line in page.lines])
    most = covered[0] * _COVERED
    if not most:
        return None
    # blocks with most of the text are nested: the last one is the smallest
    return next(block for block in reversed(page.blocks) if covered[block.index] >= most)


def _is_too_large(page: HtmlPage, html: str) -> bool:
    """Whether the tree would need too much memory (H1)."""
    if len(html) <= _SMALL:
        return False
    if len(html) > _MAX_LENGTH or sum(len(line.text) for line in page.lines) > _MAX_TEXT:
        return True
    return exceeds(html, tags=_MAX_TAGS, attributes=_MAX_ATTRIBUTES)


def _main_text(html: str) -> str:
    parser = lxml_html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False
    )
    # slow to import, and only the processes that parse pages need it
    from trafilatura import bare_extraction

    try:
        tree = lxml_html.document_fromstring(html.encode(), parser=parser)
        document = bare_extraction(tree, fast=True, include_comments=False)
    except (etree.LxmlError, ArithmeticError, AssertionError, AttributeError, LookupError):
        return ""
    except (RuntimeError, TypeError, ValueError):
        return ""
    text = getattr(document, "text", None)
    return text if isinstance(text, str) else ""


def _agreement(line: str, found: set[tuple[str, ...]]) -> int:
    triples = set(_triples(line))
    if not triples or len(triples & found) < _AGREEING * len(triples):
        return 0
    return len(line)


def _triples(line: str) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(line)
    return zip(words, words[1:], words[2:], strict=False)
