"""Parses an HTML page to lines of text and the blocks that contain them, in linear time (M5).

Of inline tags only the share of link text is kept: the blocks are all that is needed to tell an
article from its surroundings.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice

from headwater.fetch.text.html_attributes import ATTRIBUTE, MAX_ATTRIBUTES, attributes_of
from headwater.fetch.text.html_to_text import (
    ATTRIBUTES,
    BLOCKS,
    COMMENT,
    HIDDEN_ELEMENT,
    decoded_line,
    one_line,
)

TOKEN = re.compile(
    rf"<(?:{HIDDEN_ELEMENT}"
    rf"|(?i:title)(?=[\s/>]){ATTRIBUTES}(?:>(?P<title>.*?)(?:</(?i:title)(?=[\s/>])[^>]*+>|\Z)|\Z)"
    rf"|(?P<end>/?+)(?P<name>[a-zA-Z][^\s/>]*+)(?:>|(?P<attributes>{ATTRIBUTES})(?:>|\Z))"
    rf"|{COMMENT})",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NOT_DISPLAYED = re.compile(r"(?i)display\s*:\s*none")
_MAX_TITLE = 100_000  # characters of its markup
_VOID = frozenset({"br", "hr", "col", "link", "meta", "frame"})
# Inline elements whose content is judged as a whole.
_EMBEDDED = frozenset({"svg", "noscript", "audio", "canvas"})
EDGES = BLOCKS | _EMBEDDED
_OPENING = EDGES - _VOID - {"html", "head", "body"}
# A start tag of the first kind ends an open element of the second: HTML's implied end tags.
_ENDS = {
    **{name: (name,) for name in ("li", "option", "tr")},
    **dict.fromkeys(("dd", "dt"), ("dd", "dt")),
    **dict.fromkeys(("td", "th"), ("td", "th")),
}
_LISTS = frozenset({"ul", "ol", "dl", "menu", "table", "select"})
# Beyond these limits the text is still read, but no longer divided into blocks.
_MAX_BLOCKS = 50_000
_MAX_LINES = 100_000
_MAX_ATTRIBUTE_COUNT = 1_000
_MAX_WORDS = 250_000  # of classes, ids and roles
_MAX_META = 50_000
_MAX_PIECES = 50_000  # of the text of a line, before they are joined (H1)
_MAX_SEARCHED = 8  # open elements searched for one to end; keeps deep nesting linear


@dataclass(slots=True, eq=False)
class Block:
    """A block element, with the range of lines that it contains."""

    name: str
    words: frozenset[str]  # of its class and role
    id_words: frozenset[str]
    hidden: bool
    index: int  # among the blocks of the page
    parent: int  # the index of the enclosing block
    first_line: int
    start: int  # the position of its start tag
    end_line: int = 0


@dataclass(slots=True)
class Line:
    """The text between two edges of blocks."""

    text: str
    block: Block
    link_length: int
    start: int  # its range of the page's characters
    end: int


@dataclass(slots=True)
class HtmlPage:
    """A parsed page; the first block is the page itself."""

    lines: list[Line] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # in the order of their start tags
    title: str = ""
    language: str = ""  # of the root element
    meta: dict[str, list[str]] = field(default_factory=dict)  # by name or property
    depth: int = 0
    overloaded: bool = False  # one tag has more attributes than tree builders can handle

    def lengths(self) -> list[int]:
        """The length of each block's text."""
        return self.sums([len(line.text) for line in self.lines])

    def own_lengths(self) -> list[int]:
        """The length of each block's text without the text of links."""
        return self.sums([max(0, len(line.text) - line.link_length) for line in self.lines])

    def sums(self, values: list[int]) -> list[int]:
        """Add up, for each block, one value per line; linear however deep blocks are nested."""
        before = list(accumulate(values, initial=0))
        return [before[block.end_line] - before[block.first_line] for block in self.blocks]

    def lines_of(self, block: Block) -> list[Line]:
        """The lines inside a block."""
        return self.lines[block.first_line : block.end_line]


def read_blocks(html: str) -> HtmlPage:
    """Parse a page in any state; linear in its length."""
    reader = _BlockReader()
    position = 0
    for token in TOKEN.finditer(html):
        reader.add_text(html[position : token.start()], position)
        position = token.end()
        if token["name"]:
            reader.add_tag(token)
        elif token["title"]:
            reader.add_title(token["title"])
    reader.add_text(html[position:], position)
    return reader.finish()


def start_tags(html: str, names: Container[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The start tags with one of these names and their attributes, in order."""
    for token in TOKEN.finditer(html):
        name = (token["name"] or "").lower()
        if name in names and not token["end"]:
            yield name, attributes_of(token["attributes"] or "")


def exceeds(html: str, *, tags: int, attributes: int) -> bool:
    """Whether the page has more start tags, or more attributes in all, than this."""
    for token in TOKEN.finditer(html):
        if token["name"] and not token["end"]:
            tags -= 1
            attributes -= len(ATTRIBUTE.findall(token["attributes"] or "", 0, 2 * attributes))
        if tags < 0 or attributes <= 0:
            return True
    return False


class _BlockReader:
    """The state of one pass over a page."""

    def __init__(self) -> None:
        self.page = HtmlPage()
        self.open: list[Block] = []
        self.open_names: dict[str, int] = {}
        self.pieces: list[str] = []
        self.start = self.end = 0  # of the line so far
        self.link_length = 0
        self.in_link = False
        self.words_left = _MAX_WORDS
        self.metas_left = _MAX_META
        self._open("html", "", 0)

    def add_text(self, raw: str, position: int) -> None:
        if raw:
            if not self.pieces:
                self.start = position
            self.end = position + len(raw)
            self.pieces.append(raw)
            if self.in_link:
                self.link_length += len(raw.strip())

    def add_title(self, raw: str) -> None:
        if not self.page.title and not self.open_names.get("svg"):
            self.page.title = decoded_line(raw[:_MAX_TITLE])

    def add_tag(self, token: re.Match[str]) -> None:
        name = token["name"].lower()
        attributes = token["attributes"] or ""
        if len(attributes) > MAX_ATTRIBUTES:
            several = islice(ATTRIBUTE.finditer(attributes), _MAX_ATTRIBUTE_COUNT, None)
            self.page.overloaded |= next(several, None) is not None
        if name == "a":
            self.in_link = not token["end"]
        elif name == "meta":
            self._add_meta(attributes)
        elif name == "html" and not self.page.language:
            self.page.language = attributes_of(attributes).get("lang", "")
        if name in EDGES:
            self._end_line()
        elif len(self.pieces) > _MAX_PIECES:
            self.pieces = ["\0".join(self.pieces)]
        if name in _OPENING and token["end"]:
            self._close_named(name)
        elif name in _OPENING and len(self.page.blocks) < _MAX_BLOCKS:
            self._open_new(name, attributes, token.start())

    def finish(self) -> HtmlPage:
        self._end_line(last=True)
        while self.open:
            self._close()
        return self.page

    def _end_line(self, *, last: bool = False) -> None:
        if len(self.page.lines) >= _MAX_LINES and not last:
            self.pieces.append(" ")
        elif self.pieces:
            raw = "\0".join(self.pieces)
            self.pieces = []
            if text := decoded_line(raw):
                self.page.lines.append(
                    Line(text, self.open[-1], self.link_length, self.start, self.end)
                )
            self.link_length = 0

    def _open_new(self, name: str, raw_attributes: str, position: int) -> None:
        if self.open[-1].name == "p" and name in BLOCKS:
            self._close()
        ended = _ENDS.get(name, ())
        for block in reversed(self.open[-_MAX_SEARCHED:]) if ended else ():
            if block.name in ended:
                self._close_named(block.name)
                break
            if block.name in _LISTS:
                break
        self._open(name, raw_attributes, position)

    def _open(self, name: str, raw_attributes: str, position: int) -> None:
        words, id_words, hidden = _words_and_visibility(raw_attributes)
        if words or id_words:
            self.words_left -= len(words) + len(id_words)
            if self.words_left <= 0:
                words = id_words = frozenset()
        index = len(self.page.blocks)
        parent = self.open[-1].index if self.open else index
        block = Block(name, words, id_words, hidden, index, parent, len(self.page.lines), position)
        self.page.blocks.append(block)
        self.open.append(block)
        self.open_names[name] = self.open_names.get(name, 0) + 1
        self.page.depth = max(self.page.depth, len(self.open))

    def _close_named(self, name: str) -> None:
        if self.open_names.get(name):
            while self.open[-1].name != name:
                self._close()
            self._close()

    def _close(self) -> None:
        block = self.open.pop()
        block.end_line = len(self.page.lines)
        self.open_names[block.name] -= 1

    def _add_meta(self, raw_attributes: str) -> None:
        self.metas_left -= 1
        if self.metas_left < 0:
            return
        attributes = attributes_of(raw_attributes)
        content = one_line(attributes.get("content", ""))
        for key in ("name", "property"):
            if content and key in attributes:
                self.page.meta.setdefault(attributes[key].strip().lower(), []).append(content)


def _words_and_visibility(raw_attributes: str) -> tuple[frozenset[str], frozenset[str], bool]:
    """The words in class and role of an element, those in its id, and whether it is hidden."""
    if not raw_attributes:
        return frozenset(), frozenset(), False
    attributes = attributes_of(raw_attributes)
    words = _words(f"{attributes.get('class', '')} {attributes.get('role', '')}")
    hidden = "hidden" in attributes or bool(_NOT_DISPLAYED.search(attributes.get("style", "")))
    return words, _words(attributes.get("id", "")), hidden


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
