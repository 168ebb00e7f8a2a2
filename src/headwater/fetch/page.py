"""An HTML page as lines of text and the blocks they stand in, read in one linear pass (M5).

Inline tags leave no trace but the share of link text: what is left of the tree is what it takes
to tell an article from what surrounds it.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice

from headwater.fetch.text import (
    ATTRIBUTES,
    BLOCKS,
    COMMENT,
    LONG_TEXT,
    UNSEEN_ELEMENT,
    decoded,
    decoded_line,
    one_line,
)

_TOKEN = re.compile(
    rf"<(?:{UNSEEN_ELEMENT}"
    rf"|(?i:title)(?=[\s/>]){ATTRIBUTES}(?:>(?P<title>.*?)(?:</(?i:title)(?=[\s/>])[^>]*+>|\Z)|\Z)"
    rf"|(?P<end>/?+)(?P<name>[a-zA-Z][^\s/>]*+)(?:>|(?P<attributes>{ATTRIBUTES})(?:>|\Z))"
    rf"|{COMMENT})",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"""([^\s=/>"']++)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"']++)))?+""", re.DOTALL
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NOT_DISPLAYED = re.compile(r"(?i)display\s*:\s*none")
_MAX_TITLE = 100_000  # characters of its markup
_MAX_ATTRIBUTES = 8_192  # characters of one tag that are looked at
_VOID = frozenset({"br", "hr", "col", "link", "meta", "frame"})
# Not set apart for a reader, but what they hold is judged as a whole.
_EMBEDDED = frozenset({"svg", "noscript", "audio", "canvas"})
_EDGES = BLOCKS | _EMBEDDED
_OPENING = _EDGES - _VOID - {"html", "head", "body"}
# A start tag of the first kind ends an open element of the second: HTML's implied end tags.
_ENDS = {
    "li": ("li",),
    "dd": ("dd", "dt"),
    "dt": ("dd", "dt"),
    "option": ("option",),
    "tr": ("tr",),
    "td": ("td", "th"),
    "th": ("td", "th"),
}
_LISTS = frozenset({"ul", "ol", "dl", "menu", "table", "select"})
# Beyond these nobody wrote the page: its text is still read, but no longer taken apart.
_MAX_BLOCKS = 50_000
_MAX_LINES = 100_000
_MAX_ATTRIBUTE_COUNT = 1_000
_MAX_WORDS = 250_000  # of classes, ids and roles
_MAX_META = 50_000
_MAX_PIECES = 50_000  # of the text of a line, before they are put together (H1)
_LOOK_UP = 8  # open elements searched for one to end; a limit keeps deep nesting linear


@dataclass(slots=True, eq=False)
class Block:
    """An element that stands apart, with the lines that it spans."""

    name: str
    words: frozenset[str]  # of its class, id and role
    hidden: bool
    index: int  # its place among the blocks of the page
    parent: int  # the index of the block around it
    first_line: int
    end_line: int = 0


@dataclass(slots=True)
class Line:
    """A run of text between two edges of blocks."""

    text: str
    block: Block
    link_length: int


@dataclass(slots=True)
class Page:
    """What was read of a page; the first block is the page itself."""

    lines: list[Line] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # in the order of their start tags
    title: str = ""
    meta: dict[str, list[str]] = field(default_factory=dict)  # by name or property
    depth: int = 0
    overloaded: bool = False  # with more attributes on one tag than tree builders can stand

    def lengths(self) -> list[int]:
        """The length of each block's text."""
        return self.sums([len(line.text) for line in self.lines])

    def own_lengths(self) -> list[int]:
        """The length of each block's text that is not the text of links."""
        return self.sums([max(0, len(line.text) - line.link_length) for line in self.lines])

    def sums(self, values: list[int]) -> list[int]:
        """Add up, for each block, one value per line; linear however deep blocks are nested."""
        before = list(accumulate(values, initial=0))
        return [before[block.end_line] - before[block.first_line] for block in self.blocks]

    def lines_of(self, block: Block) -> list[Line]:
        """The lines inside a block."""
        return self.lines[block.first_line : block.end_line]


def read_blocks(html: str) -> Page:
    """Read a page whatever its state; linear in its length."""
    reader = _Reader()
    position = 0
    for token in _TOKEN.finditer(html):
        reader.add_text(html[position : token.start()])
        position = token.end()
        if token["name"]:
            reader.add_tag(token)
        elif token["title"]:
            reader.add_title(token["title"])
    reader.add_text(html[position:])
    return reader.finish()


def start_tags(html: str, names: Container[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The start tags with one of these names, in order, with their attributes; linear too."""
    for token in _TOKEN.finditer(html):
        name = (token["name"] or "").lower()
        if name in names and not token["end"]:
            yield name, attributes_of(token["attributes"] or "")


def has_more(html: str, *, tags: int, attributes: int) -> bool:
    """Whether there are more start tags than so many, or more attributes of all of them."""
    for token in _TOKEN.finditer(html):
        if token["name"] and not token["end"]:
            tags -= 1
            attributes -= len(_ATTRIBUTE.findall(token["attributes"] or "", 0, 2 * attributes))
        if tags < 0 or attributes <= 0:
            return True
    return False


class _Reader:
    """The state of one pass over a page."""

    def __init__(self) -> None:
        self.page = Page()
        self.open: list[Block] = []
        self.open_names: dict[str, int] = {}
        self.pieces: list[str] = []
        self.link_length = 0
        self.in_link = False
        self.words_left = _MAX_WORDS
        self.metas_left = _MAX_META
        self._open("html", "")

    def add_text(self, raw: str) -> None:
        if raw:
            self.pieces.append(raw)
            if self.in_link:
                self.link_length += len(raw.strip())

    def add_title(self, raw: str) -> None:
        if not self.page.title and not self.open_names.get("svg"):
            self.page.title = decoded_line(raw[:_MAX_TITLE])

    def add_tag(self, token: re.Match[str]) -> None:
        name = token["name"].lower()
        attributes = token["attributes"] or ""
        if len(attributes) > _MAX_ATTRIBUTES:
            several = islice(_ATTRIBUTE.finditer(attributes), _MAX_ATTRIBUTE_COUNT, None)
            self.page.overloaded |= next(several, None) is not None
        if name == "a":
            self.in_link = not token["end"]
        elif name == "meta":
            self._add_meta(attributes)
        if name in _EDGES:
            self._end_line()
        elif len(self.pieces) > _MAX_PIECES:
            self.pieces = ["\0".join(self.pieces)]
        if name in _OPENING and token["end"]:
            self._close_named(name)
        elif name in _OPENING and len(self.page.blocks) < _MAX_BLOCKS:
            self._open_new(name, attributes)

    def finish(self) -> Page:
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
            text = decoded_line(raw) if len(raw) > LONG_TEXT else one_line(decoded(raw))
            if text:
                self.page.lines.append(Line(text, self.open[-1], self.link_length))
            self.link_length = 0

    def _open_new(self, name: str, raw_attributes: str) -> None:
        if self.open[-1].name == "p" and name in BLOCKS:
            self._close()
        ended = _ENDS.get(name, ())
        for block in reversed(self.open[-_LOOK_UP:]) if ended else ():
            if block.name in ended:
                self._close_named(block.name)
                break
            if block.name in _LISTS:
                break
        self._open(name, raw_attributes)

    def _open(self, name: str, raw_attributes: str) -> None:
        words, hidden = _described(raw_attributes)
        if words:
            self.words_left -= len(words)
            words = words if self.words_left > 0 else frozenset()
        index = len(self.page.blocks)
        parent = self.open[-1].index if self.open else index
        block = Block(name, words, hidden, index, parent, len(self.page.lines))
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


def _described(raw_attributes: str) -> tuple[frozenset[str], bool]:
    """The words in class, id and role of an element, and whether it is not displayed."""
    if not raw_attributes:
        return frozenset(), False
    attributes = attributes_of(raw_attributes)
    named = " ".join(attributes.get(key, "") for key in ("class", "id", "role"))
    hidden = "hidden" in attributes or bool(_NOT_DISPLAYED.search(attributes.get("style", "")))
    return frozenset(word.lower() for word in _WORD.findall(named)), hidden


def attributes_of(raw: str) -> dict[str, str]:
    """The attributes of a start tag, decoded; of one that is there twice, the first."""
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(raw[:_MAX_ATTRIBUTES]):
        found.setdefault(name.lower(), decoded(double or single or bare))
    return found
