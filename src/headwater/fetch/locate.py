"""Where the main text of a page stands, by trafilatura's judgement (W1)."""

import logging
import re
from collections.abc import Iterator

from lxml import etree
from lxml import html as lxml_html

from headwater.fetch.page import Block, Page, has_more

# libxml2 reads no deeper, and trafilatura needs some 60 µs a line: beyond this we do without.
_MAX_DEPTH = 200
_MAX_LINES = 20_000
_MAX_TAGS = 20_000  # an element takes 4 KB of memory there, an attribute one (H1)
_MAX_ATTRIBUTES = 50_000
_SMALL = 100_000  # characters, in which there are fewer of both, or nearly so
_MAX_LENGTH = 4_000_000  # characters, of which so many
_MAX_TEXT = 1_000_000  # are seen
_COVERED = 0.7  # of the located text must lie inside the block
_AGREEING = 0.6  # of a line's word triples must occur in the located text
_WORD = re.compile(r"\w+")

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it warns of every odd page


def located_block(page: Page, html: str) -> Block | None:
    """The smallest block that holds most of the main text; None where nothing was found."""
    if page.overloaded or page.depth > _MAX_DEPTH or len(page.lines) > _MAX_LINES:
        return None
    if _is_too_large(page, html):
        return None
    found = {triple for line in _main_text(html).splitlines() for triple in _triples(line)}
    covered = page.sums([_agreement(line.text, found) for line in page.lines])
    most = covered[0] * _COVERED
    if not most:
        return None
    # blocks that hold most of the text lie inside each other: the last one is the smallest
    return next(block for block in reversed(page.blocks) if covered[block.index] >= most)


def _is_too_large(page: Page, html: str) -> bool:
    """Whether all those who look at the tree would take too much memory (H1)."""
    if len(html) <= _SMALL:
        return False
    if len(html) > _MAX_LENGTH or sum(len(line.text) for line in page.lines) > _MAX_TEXT:
        return True
    return has_more(html, tags=_MAX_TAGS, attributes=_MAX_ATTRIBUTES)


def _main_text(html: str) -> str:
    parser = lxml_html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False
    )
    # takes a third of a second to load, and only the processes that parse pages need it
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
