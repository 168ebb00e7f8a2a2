"""Selects the main text of a page (W1)."""

from collections.abc import Sequence

from headwater.fetch.page.boilerplate import Boilerplate
from headwater.fetch.page.clutter import lines_without_clutter
from headwater.fetch.page.html_blocks import Block, HtmlPage, Line
from headwater.fetch.page.trafilatura_locator import located_block

_ENOUGH = 200  # characters of an article that is not a teaser (W1)
_TEASER_FACTOR = 3  # if the text elsewhere is this much longer, the articles are teasers
_SHORT_IN_MAIN = 500  # characters: a shorter text is only a part of what `<main>` is about
# Parts of a text rather than containers of a text.
_PARAGRAPHS = frozenset(
    {"p", "li", "ul", "ol", "dl", "dd", "dt", "blockquote", "pre", "figure"}
    | {"h1", "h2", "h3", "h4", "h5", "h6"}
)
_TEXT_PARTS = _PARAGRAPHS | {"tr", "tbody", "td"}  # a cell may be the layout of a whole page
_MAX_ANCESTORS = 4  # enclosing blocks whose score a line increases
_DECAY = 0.6  # factor for each further one out


def main_lines(page: HtmlPage, html: str) -> list[Line]:
    """The lines of the clear article, else of the block with the most text; may be empty."""
    articles = [block for block in page.blocks if block.name == "article"]
    boilerplate = Boilerplate(page)
    lengths = boilerplate.lengths
    largest = max(articles, key=lambda block: lengths[block.index], default=None)
    article = [] if largest is None else lines_without_clutter(page, largest, boilerplate)
    length = _length(article)
    if length >= _ENOUGH and len(articles) == 1:
        return article
    elsewhere = _whole_if_short(page, _lines_elsewhere(page, html, boilerplate), boilerplate)
    is_clear = length >= _ENOUGH or (length and len(articles) == 1)
    if is_clear and _length(elsewhere) < _TEASER_FACTOR * length:
        return article
    return elsewhere or article


def _length(lines: Sequence[Line]) -> int:
    return sum(len(line.text) + 1 for line in lines) - 1 if lines else 0


def _lines_elsewhere(page: HtmlPage, html: str, boilerplate: Boilerplate) -> list[Line]:
    located = located_block(page, html)
    if located is not None and _is_inside(page, located, boilerplate):
        located = None
    while located is not None and located.name in _PARAGRAPHS:
        located = page.blocks[located.parent]  # a paragraph alone is a part of the text
    blocks = (located, _block_with_most_text(page, boilerplate), page.blocks[0])
    found = (
        lines_without_clutter(page, block, boilerplate) for block in blocks if block is not None
    )
    return next((lines for lines in found if lines), [])


def _whole_if_short(page: HtmlPage, lines: list[Line], boilerplate: Boilerplate) -> list[Line]:
    """The whole content of a page if the text found in it is short: `<main>`, else the body.

    Price lists, products and status pages have no text to tell from the rest: each line counts.
    """
    mains = [block for block in page.blocks if block.name == "main"]
    root, short = (mains[0], _SHORT_IN_MAIN) if len(mains) == 1 else (page.blocks[0], _ENOUGH)
    if _length(lines) >= short:
        return lines
    return max(lines, lines_without_clutter(page, root, boilerplate), key=_length)


def _is_inside(page: HtmlPage, block: Block, boilerplate: Boilerplate) -> bool:
    while block.index:
        if boilerplate.includes(block):
            return True
        block = page.blocks[block.parent]
    return False


def _block_with_most_text(page: HtmlPage, boilerplate: Boilerplate) -> Block | None:
    """The block with the most text, directly or a few levels down."""
    scores = [0.0] * len(page.blocks)
    for line in page.lines:
        weight = max(0.0, len(line.text) - line.link_length)
        for block in _containers(page, line.block, boilerplate):
            scores[block.index] += weight
            weight *= _DECAY
    best = max(page.blocks, key=lambda block: scores[block.index])
    return best if scores[best.index] else None


def _containers(page: HtmlPage, block: Block, boilerplate: Boilerplate) -> list[Block]:
    """The nearest enclosing blocks that can contain a text, innermost first."""
    found: list[Block] = []
    for _ in range(4 * _MAX_ANCESTORS):  # a limit keeps deep nesting linear
        if block.name == "form" or boilerplate.includes(block):
            break
        if block.name not in _TEXT_PARTS:
            found.append(block)
        if block.index == 0 or len(found) == _MAX_ANCESTORS:
            break
        block = page.blocks[block.parent]
    return found
