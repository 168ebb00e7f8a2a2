"""HTML to plain text and Markdown in one pass over the tokens (R4, T1, M5)."""

import re
from collections.abc import Iterator
from itertools import zip_longest

from headwater.fetch.text.html_to_text import (
    ATTRIBUTES,
    COMMENT,
    HEAD,
    HIDDEN_ELEMENT,
    HIDDEN_STARTS,
    LONG_TEXT,
    PIECES,
    SEPARATORS,
    decoded_line,
    decoded_parts,
    joined_line,
    one_line,
)
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.fetch.text.usual_paragraphs import FIRST_PARAGRAPHS, USUAL_PARAGRAPHS

_TOKEN = re.compile(  # its groups are the slash of an end tag, the name and the attributes
    rf"<(?:(?=[{HIDDEN_STARTS}])(?:{HIDDEN_ELEMENT})"
    rf"|(/?+)([a-zA-Z][^\s/>]*+)(?:>|({ATTRIBUTES})(?:>|\Z))|{COMMENT})",
    re.DOTALL,
)
_PARAGRAPHS_OR_TOKEN = re.compile(f"({USUAL_PARAGRAPHS})|{_TOKEN.pattern}", re.DOTALL)
MAX_TAGS = 100_000  # of long markup, whose structure is kept


def write_html(html: str, markdown: MarkdownWriter) -> str:
    """The plain text, as `html_to_text` returns it; the same tokens go to `markdown`."""
    if "<" not in html:
        markdown.text(html)
        return decoded_line(html)
    if len(html) > LONG_TEXT:
        parts = _parts(html, markdown)
        return joined_line(part for text in parts for part in decoded_parts(text))
    if head := HEAD.match(html):
        html = html[head.end() :]
    pieces: list[str] = []  # of the plain text
    start = _write_first_paragraphs(html, markdown, pieces)
    if pieces and start == len(html):  # most descriptions
        return one_line(pieces[0])
    tokens = iter(_PARAGRAPHS_OR_TOKEN.split(html[start:]))
    for text, paragraphs, slash, name, attributes in zip_longest(*[tokens] * 5):
        if text:
            pieces.append(markdown.short_text(text))
        if name:
            markdown.tag(name, slash, attributes)
            pieces.append(SEPARATORS[name])
        elif paragraphs:
            plain = markdown.usual_paragraphs(paragraphs)
            if plain is None:
                _write_tokens(paragraphs, markdown, pieces)
            else:
                pieces += (" ", plain, " ")
    return one_line("".join(pieces).replace("\0", ""))


def _write_first_paragraphs(html: str, markdown: MarkdownWriter, pieces: list[str]) -> int:
    """Write the text and usual paragraphs at the start; returns where they end."""
    first = FIRST_PARAGRAPHS.match(html)
    if first is None:
        return 0
    text, paragraphs = first.groups("")
    plain = markdown.usual_paragraphs(f"{text}</p>{paragraphs}")
    if plain is None:
        return 0
    pieces += (plain, " ")
    return first.end()


def _write_tokens(html: str, markdown: MarkdownWriter, pieces: list[str]) -> None:
    tokens = iter(_TOKEN.split(html))
    for text, slash, name, attributes in zip_longest(*[tokens] * 4):
        if text:
            pieces.append(markdown.short_text(text))
        if name:
            markdown.tag(name, slash, attributes)
            pieces.append(SEPARATORS[name])


def write_plain(text: str, markdown: MarkdownWriter) -> str:
    """The same for text without markup."""
    markdown.plain(text)
    return one_line(text)


def _parts(html: str, markdown: MarkdownWriter) -> Iterator[str]:
    """The text of long markup in parts; no character reference extends across a tag (H1).

    Markup with very many tags keeps its words in Markdown, but no further structure (H2).
    """
    head = HEAD.match(html)
    pieces: list[str] = []
    position = head.end() if head else 0
    tags_left = MAX_TAGS
    for token in _TOKEN.finditer(html, position):
        text = html[position : token.start()]
        slash, name, attributes = token.groups()
        tags_left -= 1
        if tags_left >= 0:
            markdown.text(text)
        if tags_left == 0:
            markdown.text(SEPARATORS[name])
        elif tags_left > 0 and name:
            markdown.tag(name, slash, attributes)
        pieces += (text, SEPARATORS[name])
        position = token.end()
        if len(pieces) > PIECES or tags_left == 0:
            yield (part := "".join(pieces))
            if tags_left < 0:
                markdown.text(part)
            pieces.clear()
    yield (part := "".join((*pieces, html[position:])))
    markdown.text(part if tags_left < 0 else html[position:])
