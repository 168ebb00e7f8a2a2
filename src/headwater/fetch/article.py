"""Which part of a page is what somebody wanted to tell (W1)."""

from headwater.fetch.clutter import is_apart, text_without_clutter
from headwater.fetch.locate import located_block
from headwater.fetch.page import Block, Page

_ENOUGH = 200  # characters that make an article one of several (W1)
_DWARFED = 3  # times longer is the text elsewhere that shows that the articles are mere hints
# Parts of a text rather than a place where a text stands.
_TEXT_PARTS = frozenset(
    {"p", "li", "ul", "ol", "dl", "dd", "dt", "blockquote", "pre", "figure", "tr", "tbody", "td"}
    | {"h1", "h2", "h3", "h4", "h5", "h6"}
)
_REACH = 4  # blocks around a line that its text speaks for
_FADING = 0.6  # how much less it speaks for each one further out


def main_text(page: Page, html: str) -> str:
    """The text of the clear article, else of the block with the most text; "" if there is none."""
    articles = [block for block in page.blocks if block.name == "article"]
    text = _text_of_largest(page, articles)
    if text and len(articles) == 1:
        return text
    elsewhere = _text_elsewhere(page, html)
    if len(text) >= _ENOUGH and len(elsewhere) < _DWARFED * len(text):
        return text
    return elsewhere or text


def _text_of_largest(page: Page, articles: list[Block]) -> str:
    if not articles:
        return ""
    lengths = page.lengths()
    return text_without_clutter(page, max(articles, key=lambda block: lengths[block.index]))


def _text_elsewhere(page: Page, html: str) -> str:
    located = located_block(page, html)
    if located is not None and _stands_apart(page, located):
        located = None
    blocks = (located, _block_with_most_text(page), page.blocks[0])
    texts = (text_without_clutter(page, block) for block in blocks if block is not None)
    return next((text for text in texts if text), "")


def _stands_apart(page: Page, block: Block) -> bool:
    while block.index:
        if is_apart(block):
            return True
        block = page.blocks[block.parent]
    return False


def _block_with_most_text(page: Page) -> Block | None:
    """The block that most text stands in, directly or a few levels down."""
    scores = [0.0] * len(page.blocks)
    for line in page.lines:
        weight = max(0.0, len(line.text) - line.link_length)
        for block in _around(page, line.block):
            scores[block.index] += weight
            weight *= _FADING
    best = max(page.blocks, key=lambda block: scores[block.index])
    return best if scores[best.index] else None


def _around(page: Page, block: Block) -> list[Block]:
    """The nearest blocks around a line that a text can stand in, the innermost first."""
    found: list[Block] = []
    for _ in range(4 * _REACH):  # a limit, so that deep nesting costs no more than its length
        if block.name == "form" or is_apart(block):
            break
        if block.name not in _TEXT_PARTS:
            found.append(block)
        if block.index == 0 or len(found) == _REACH:
            break
        block = page.blocks[block.parent]
    return found
