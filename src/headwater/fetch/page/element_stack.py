"""Follows which elements of a page are open, in linear time for any nesting (M5)."""

from collections.abc import Iterator

from headwater.fetch.page.html_blocks import TOKEN
from headwater.fetch.text.html_to_text import BLOCKS

_MAX_DEPTH = 10_000  # open elements; deeper ones belong to the last of these (H1)
_VOID = frozenset(
    "area base br col embed frame hr img input link meta param source track wbr".split()
)
_FOREIGN = ("svg", "math")
_NEVER_ENDED = frozenset({"html", "body"})  # what follows their end tags belongs to them
_TABLES = ("table",)
_CELLS = ("td", "th", "caption", "table")
_TABLE_PARTS = frozenset({*_CELLS, "tr", "tbody", "thead", "tfoot"})
# the start tags that end an open paragraph
_NO_PHRASES = frozenset(
    """address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li main menu nav ol p pre search section
    summary table ul""".split()
)
# HTML's implied end tags: a start tag ends the elements of the second kind, unless one of the
# third kind is inside of them.
_ENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "li": (("li",), ("ul", "ol", "menu", "dir", *_CELLS)),
    "option": (("option",), ("select", "datalist", *_CELLS)),
    **dict.fromkeys(("dd", "dt"), (("dd", "dt"), ("dl", *_CELLS))),
    **dict.fromkeys(("td", "th"), (("td", "th", "caption"), _TABLES)),
    "tr": (("tr", "caption", "colgroup"), _TABLES),
    **dict.fromkeys(
        ("tbody", "thead", "tfoot"), (("tbody", "thead", "tfoot", "caption", "colgroup"), _TABLES)
    ),
    "body": (("head",), ()),
}


StartTag = tuple[str, str, int]  # lower-case name, attributes as the page has them, position


class ElementStack:
    """The open elements at a position of a page."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._indexes: dict[str, list[int]] = {}  # of the open elements by name
        self._blocks: list[int] = []  # the indexes of the open blocks

    def events(self, html: str) -> Iterator[StartTag | int]:
        """Each start of an element, and for each end of the innermost one its position."""
        for token in TOKEN.finditer(html):
            name = token["name"]
            if not name:
                continue
            name = name.lower()
            position = token.start()
            if token["end"]:
                depth = self._depth_ended_by(name)
                while len(self._names) > depth + 1:
                    self._close()
                    yield position
                if len(self._names) > depth:
                    self._close()
                    yield token.end()
                continue
            depth = self._depth_implied_by(name)
            while len(self._names) > depth:
                self._close()
                yield position
            if depth >= _MAX_DEPTH:
                continue
            attributes = token["attributes"] or ""
            yield name, attributes, position
            if name in _VOID or (attributes.endswith("/") and self._last(_FOREIGN) >= 0):
                yield token.end()
            else:
                self._open(name)
        while self._names:
            self._close()
            yield len(html)

    def _depth_ended_by(self, name: str) -> int:
        """How many elements stay open after an end tag."""
        index = self._last((name,))
        if name in _NEVER_ENDED or index < 0:
            return len(self._names)
        if name in _TABLE_PARTS:
            return index
        # the end tag of a block ends none outside of a table cell, any other ends no block
        innermost_block = self._blocks[-1] if self._blocks else -1
        barrier = self._last(_CELLS) if name in BLOCKS else innermost_block
        return index if index > barrier else len(self._names)

    def _depth_implied_by(self, name: str) -> int:
        """How many elements stay open before a start tag."""
        if name in _ENDS:
            ended, barriers = _ENDS[name]
            index = self._last(ended)
            if index >= 0 and index > self._last(barriers):
                return index
        if name in _NO_PHRASES and self._blocks and self._names[self._blocks[-1]] == "p":
            return self._blocks[-1]
        return len(self._names)

    def _last(self, names: tuple[str, ...]) -> int:
        """The index of the innermost open element with one of these names; -1: none."""
        last = -1
        for name in names:
            indexes = self._indexes.get(name)
            if indexes and indexes[-1] > last:
                last = indexes[-1]
        return last

    def _open(self, name: str) -> None:
        index = len(self._names)
        self._names.append(name)
        self._indexes.setdefault(name, []).append(index)
        if name in BLOCKS:
            self._blocks.append(index)

    def _close(self) -> None:
        name = self._names.pop()
        self._indexes[name].pop()
        if name in BLOCKS:
            self._blocks.pop()
