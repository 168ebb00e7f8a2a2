"""Paragraphs of the usual kind become Markdown without a token for each of their tags (T1).

Most paragraphs of feeds contain text, a few links and some emphasis that is not nested. The pattern
admits only what needs no escaping and no decision about adjacent emphasis. `MarkdownWriter.tag` and
`MarkdownWriter.text` convert every other paragraph; both ways return the same Markdown.
"""

import re
from collections.abc import Callable
from html import unescape
from typing import NamedTuple

from headwater.rules.markdown_text import markdown_link

_MAX_PARAGRAPHS = 20  # that are converted together: an unusual character affects few others
_MAX_LENGTH = 30_000  # characters of them

_MARKERS = {"b": "**", "strong": "**", "i": "*", "em": "*"}
_TAGS = [(f"<{name}>", f"</{name}>", marker) for name, marker in _MARKERS.items()]
_SPECIAL = r"<&\\`*_\[\]~\0"  # what has a meaning in HTML or anywhere in a line of Markdown
_REFERENCE = r"&(?:#82(?:[12][0-9]|30)|[lr][sd]quo|[mn]dash|hellip);"  # quotes and dashes
_TEXT = rf"[^{_SPECIAL}!]++|!(?!\s*+<a)|{_REFERENCE}"  # `![` would begin an image
# A letter or digit at both ends may be emphasised anywhere (CommonMark's flanking rule).
_WORDS = rf"[^\W_](?:[^{_SPECIAL}]*[^\W_])?+"
_HREF = r'([^"<>&\s]*+)'
_LINK_TAG = rf'<a\s++href="{_HREF}"(?:\s++[a-z-]++="[^"<>&]*+")*+\s*+>'
_ELEMENT = rf"<(?:{'|'.join(f'{name}>{_WORDS}</{name}' for name in _MARKERS)})>"
_LINK_ELEMENT = f"{_LINK_TAG.replace('(', '(?:', 1)}{_WORDS}</a>"
_INSIDE = rf"(?:{_TEXT}|(?:{_ELEMENT}|{_LINK_ELEMENT})(?!\s*+<[^/]))*+"
_TAG = r"""<p(?:\s[^<>&="']*+(?:="[^<>&"]*+"[^<>&="']*+)*+)?+>"""
USUAL_PARAGRAPHS = rf"(?:{_TAG}{_INSIDE}</p>\s*+){{1,{_MAX_PARAGRAPHS}}}+"
# At the start of a document; its groups are text before them, or without them, and the paragraphs.
FIRST_PARAGRAPHS = re.compile(rf"({_INSIDE})(?:\Z|({USUAL_PARAGRAPHS}))", re.DOTALL)

_START = re.compile(_TAG)
_LINK = re.compile(rf"{_LINK_TAG}([^<]*+)</a>")
# URLs that `target` and `markdown_link` do not change
_PLAIN_URLS = re.compile(r"(?:https?://[A-Za-z0-9][!#$%'+,./0-9:;=?@A-Z_a-z~-]{0,8000}+ )++")


class UsualParagraphs(NamedTuple):
    """The Markdown of each paragraph that has text, and the plain text of all of them."""

    markdown: list[str]
    text: str


def usual_paragraphs(html: str, target: Callable[[str], str | None]) -> UsualParagraphs | None:
    """Convert `USUAL_PARAGRAPHS`; None if they have unusual characters.

    `target` returns the URL that a link leads to.
    """
    text = unescape(html) if "&" in html else html
    is_printable = text.isprintable()
    if not is_printable or "  " in text:
        text = " ".join(text.split())
        is_printable = text.isprintable()
    if len(text) > _MAX_LENGTH or not is_printable:
        return None
    if "<p " in text:
        text = _START.sub("<p>", text)
    plain = text = text.replace("<p>", "").replace("</p>", "\n")
    if "<a" in text:
        pieces = _LINK.split(text)  # text, href, text of the link, text, ...
        text = _with_links(pieces, target)
        del pieces[1::3]
        plain = "".join(pieces)
    for start, end, marker in _TAGS:
        if "<" not in text:
            break
        if start in text:
            text = text.replace(start, marker).replace(end, marker)
            plain = plain.replace(start, "").replace(end, "")
    lines = [stripped for line in text.split("\n") if (stripped := line.strip(" "))]
    return UsualParagraphs(lines, plain.replace("\n", " "))


def _with_links(pieces: list[str], target: Callable[[str], str | None]) -> str:
    hrefs = pieces[1::3]
    links = zip(pieces[::3], hrefs, pieces[2::3], strict=False)
    if _PLAIN_URLS.fullmatch(" ".join((*hrefs, ""))):
        parts = [f"{text}[{label}]({href})" for text, href, label in links]
    else:
        parts = [text + _link(label, target(href)) for text, href, label in links]
    return "".join((*parts, pieces[-1]))


def _link(label: str, url: str | None) -> str:
    return label if url is None else markdown_link(label, url)
