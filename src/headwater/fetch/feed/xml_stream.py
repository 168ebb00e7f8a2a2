"""Parses XML documents; large ones entry by entry, without a tree of the whole (H1, M8)."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from lxml import etree

from headwater.errors import TooExpensive
from headwater.fetch.feed.element_names import local_name
from headwater.fetch.feed.xml_repair import short_namespaces

LARGE_BYTES = 1 << 20  # a tree needs up to fifty times the memory of its document
MAX_COST = 75_000_000  # estimated bytes of the tree at one moment, and of the text made of it
ENTRIES = frozenset({"item", "entry"})
CONTAINERS = frozenset({"rss", "rdf", "feed", "channel", "items"})
MAX_CONTAINERS = 4  # nesting depth at which entries are found

PIECE_BYTES = 65536  # that are parsed before events are read
_NODE_COST = 130  # of an element, a text or an attribute, which has a text too
_CHARACTER_COST = 6  # in the tree and in the joined text, which one wide character widens
_MAX_ATTRIBUTES = 150_000  # of one element
_LONG_TAG = re.compile(rb"<[A-Za-z_\x80-\xff][^<]{500000,}+")  # with the text after it
_TAG = re.compile(rb"<(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+")
_SPELLINGS = (str.lower, str.capitalize, str.upper)
# no entities, no external files, all limits on (M1)
_OPTIONS: dict[str, Any] = {
    "encoding": "utf-8",
    "resolve_entities": False,
    "load_dtd": False,
    "no_network": True,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}
_TAGS = tuple(f"{{*}}{spell(name)}" for name, spell in product(ENTRIES | CONTAINERS, _SPELLINGS))


def has_endless_tag(data: bytes) -> bool:
    """Whether one element has so many attributes that they alone need too much memory."""
    if len(data) <= LARGE_BYTES:
        return False
    tags = map(_TAG.match, (found[0] for found in _LONG_TAG.finditer(data)))
    return any(tag is not None and tag[0].count(b"=") > _MAX_ATTRIBUTES for tag in tags)


class EntryStream:
    """Iterates over the entries of a large document; each is freed when the next is requested.

    Elements between entries are freed too. At the end `root` is the rest of the document without
    the yielded entries: all of a small document, whose tree is affordable. If an entry is too
    large, the iteration ends early with `is_cut` set.
    """

    def __init__(self, data: bytes, *, recover: bool) -> None:
        self._data = data
        self._options = {**_OPTIONS, "recover": recover}
        self._last: etree._Element | None = None
        self.root: etree._Element | None = None
        self.is_cut = False
        self.is_long = False  # the current entry spans several pieces

    def __iter__(self) -> Iterator[etree._Element]:
        """Raises XMLSyntaxError if ill-formed, TooExpensive if the first entry is too large."""
        data, cost, last_at, spaces = short_namespaces(self._data), 0, 0, 0
        if len(data) <= LARGE_BYTES:
            self.root = etree.fromstring(data, etree.XMLParser(**self._options))
            return
        parser: Any = etree.XMLPullParser(("start", "end"), tag=_TAGS, **self._options)
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            parser.feed(piece)
            piece_cost = 2 * _NODE_COST * (piece.count(b"<") + piece.count(b"="))
            piece_cost += _CHARACTER_COST * len(piece)
            cost += piece_cost
            declared = _NODE_COST * piece.count(b"xmlns")
            spaces += declared
            self.is_long = self.is_long or at > last_at + PIECE_BYTES
            for element in self._ended(parser):
                yield element
                self._free(element)
                cost, spaces, last_at, self.is_long = piece_cost, declared, at, False
            if cost > MAX_COST:
                cost = self._cost() + spaces
            if cost > MAX_COST:
                if self._last is None:
                    raise TooExpensive("one entry is made of too many elements or too much text")
                self.is_cut = True
                return
        self.root = parser.close()
        if self._last is not None:
            _remove(self._last)

    def _ended(self, parser: Any) -> Iterator[etree._Element]:
        """The entries that are complete."""
        for event, element in parser.read_events():
            if self.root is None:
                self.root = element.getroottree().getroot()
            is_entry = event == "end" and local_name(element.tag) in ENTRIES
            if is_entry and self._is_in_containers(element):
                yield element

    def _is_in_containers(self, element: etree._Element) -> bool:
        """Whether all of its ancestors are containers, or the root."""
        ancestors = list(element.iterancestors())
        inner = ancestors[:-1]
        return (
            bool(ancestors)
            and local_name(ancestors[-1].tag) not in ENTRIES
            and len(inner) <= MAX_CONTAINERS
            and all(local_name(each.tag) in CONTAINERS for each in inner)
        )

    def _free(self, element: Any) -> None:
        """Empty an entry and remove what precedes it; the parser may be working on what follows."""
        element.clear(keep_tail=True)
        self._last = element
        for each in (element, *element.iterancestors()):
            while (before := each.getprevious()) is not None:
                _remove(before)

    def _cost(self) -> int:
        """The exact cost of the current tree without namespaces: markup in CDATA is only text."""
        return MAX_COST + 1 if self.root is None else sum(map(_cost, self.root.iter()))


def _cost(element: etree._Element) -> int:
    texts = [text for text in (element.text, element.tail) if text is not None]
    nodes = 1 + len(texts) + 2 * len(element.attrib)
    return _NODE_COST * nodes + _CHARACTER_COST * sum(map(len, texts))


def _remove(element: etree._Element) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)
