"""The Markdown of the lines that make up the main text of a page (T1)."""

from collections.abc import Sequence

from headwater.fetch.page.html_blocks import EDGES, TOKEN, Block, HtmlPage, Line
from headwater.fetch.text.html_attributes import attributes_of
from headwater.fetch.text.html_to_markdown import MAX_TAGS
from headwater.fetch.text.html_to_text import BLOCKS
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.fetch.text.web_links import web_link

_MAX_OUTER = 8  # elements around the first line
_STRUCTURE = frozenset(
    {"ul", "ol", "li", "blockquote", "table", "tbody", "thead", "tr", "td", "th"}
)
_MAX_HEAD = 100_000  # characters of a page in which its base URL is declared


def page_markdown(html: str, page: HtmlPage, lines: Sequence[Line], base: str) -> str:
    """Convert the part of the page that contains these lines; other text in it is left out.

    `base` resolves relative links.
    """
    if not lines:
        return ""
    first, last = _start(page, lines[0].block), lines[-1].end
    markdown = MarkdownWriter(base, length=sum(line.end - line.start for line in lines))
    kept = iter(lines)
    line = next(kept)
    position, tags_left = first, MAX_TAGS
    for token in TOKEN.finditer(html, first, last):
        while line.end <= position and line is not lines[-1]:
            line = next(kept)
        is_kept = line.start <= position < line.end
        if is_kept:
            markdown.text(html[position : token.start()])
        position = token.end()
        name = (token["name"] or "").lower()
        tags_left -= 1
        if name in EDGES and (name not in BLOCKS or tags_left < 0):
            markdown.end_block()
        elif name and tags_left > 0 and (is_kept or name != "img"):
            markdown.tag(name, token["end"], token["attributes"])
    if position < last:
        markdown.text(html[position:last])
    return markdown.finish()


def _start(page: HtmlPage, block: Block) -> int:
    """The position of the tags that give the first line its structure."""
    for _ in range(_MAX_OUTER):
        outer = page.blocks[block.parent]
        if outer.name not in _STRUCTURE:
            break
        block = outer
    return block.start


def base_url(html: str, url: str) -> str:
    """The URL that relative links of a page refer to."""
    for token in TOKEN.finditer(html, 0, _MAX_HEAD):
        name = (token["name"] or "").lower()
        if name == "base":
            return web_link(attributes_of(token["attributes"] or "").get("href"), url) or url
        if name == "body":
            break
    return url
