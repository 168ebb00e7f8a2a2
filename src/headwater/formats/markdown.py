"""Renders Markdown as HTML that is safe to show (T1).

The Markdown is our own, and still the result is cleaned: two independent steps must fail before
markup of a feed reaches a page.
"""

from functools import cache
from html import escape
from typing import TYPE_CHECKING

import nh3

from headwater.rules.markdown_text import markdown_of_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_RENDERED = 100_000  # characters; rendering more would take too long (H2)
_TAGS = set(
    "p br h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong a "
    "table thead tbody tr th td hr".split()
)
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}


def markdown_to_html(markdown: str, *, top_level: int = 1) -> str:
    """Safe HTML; a longer text becomes paragraphs without any other structure.

    `top_level` is the level of a first-level heading on the page.
    """
    if len(markdown) > MAX_RENDERED:
        return _paragraphs(markdown)
    renderer = _renderer()
    markdown = markdown.encode("utf-8", "replace").decode()  # a lone surrogate cannot be cleaned
    tokens = renderer.parse(markdown)
    for token in tokens if top_level > 1 else ():
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + top_level - 1)}"
    return nh3.clean(
        renderer.renderer.render(tokens, renderer.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )


def content_html(markdown: str | None, body: str, *, top_level: int = 1) -> str:
    """The HTML of a post or article; without Markdown, that of its plain text."""
    text = markdown if markdown is not None else markdown_of_text(body)
    return markdown_to_html(text, top_level=top_level)


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{escape(each)}</p>" for each in text.split("\n\n") if each)


@cache
def _renderer() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # slow to import, and most commands do not need it

    return MarkdownIt("commonmark", {"html": False}).enable("table")
