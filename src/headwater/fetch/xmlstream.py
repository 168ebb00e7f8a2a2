"""Large XML documents, read entry by entry: there never is a tree of the whole (H1, M8)."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from lxml import etree

from headwater.errors import TooExpensive
from headwater.fetch.repair import short_namespaces
from headwater.fetch.vocabulary import local

LARGE_BYTES = 1 << 20  # a tree takes up to fifty times as much as its document
MAX_COST = 75_000_000  # bytes for what is there at once, and for the text that is made of it
ENTRIES = frozenset({"item", "entry"})
CONTAINERS = frozenset({"rss", "rdf", "feed", "channel", "items"})
MAX_CONTAINERS = 4  # how deep entries are looked for

_PIECE = 65536
_NODE_COST = 130  # of an element, a text or an attribute, which has a text too
_LETTER_COST = 6  # in the tree, and where it is put together, with a wide one among them
_MAX_ATTRIBUTES = 150_000  # of one element
_LONG_TAG = re.compile(rb"<[A-Za-z_\x80-\xff][^<]{500000,}+")  # with the text behind it
_TAG = re.compile(rb"<(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+")
_SPELLINGS = (str.lower, str.capitalize, str.upper)
_TAGS = tuple(f"{{*}}{spell(name)}" for name, spell in product(ENTRIES | CONTAINERS, _SPELLINGS))


def parser_options(*, recover: bool) -> dict[str, Any]:
    """No entities, nothing loaded, all limits on (M1)."""
    return {
        "encoding": "utf-8",
        "recover": recover,
        "resolve_entities": False,
        "load_dtd": False,
        "no_network": True,
        "huge_tree": False,
        "remove_comments": True,
        "remove_pis": True,
    }


def has_endless_tag(data: bytes) -> bool:
    """Whether one element has so many attributes that they alone take too much."""
    tags = map(_TAG.match, (found[0] for found in _LONG_TAG.finditer(data)))
    return any(tag is not None and tag[0].count(b"=") > _MAX_ATTRIBUTES for tag in tags)


class EntryStream:
    """The entries of a document; each is gone as soon as the next one is asked for.

    What is neither in an entry nor before the first one goes with them. At the end `root` is what
    is left: a document without the entries that were told. It ends early, `is_cut`, where one is
    too large.
    """

    def __init__(self, data: bytes, *, recover: bool) -> None:
        self._data = data
        self._parser: Any = etree.XMLPullParser(
            ("start", "end"), tag=_TAGS, **parser_options(recover=recover)
        )
        self._told: etree._Element | None = None
        self.root: etree._Element | None = None
        self.is_cut = False
        self.is_long = False  # the entry that is told, which spans several pieces

    def __iter__(self) -> Iterator[etree._Element]:
        """Raise XMLSyntaxError if it is ill-formed, TooExpensive if the first is too large."""
        data, cost, told_at, spaces = short_namespaces(self._data), 0, 0, 0
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            self._parser.feed(piece)
            most = 2 * _NODE_COST * (piece.count(b"<") + piece.count(b"="))
            most += _LETTER_COST * len(piece)
            cost += most
            declared = _NODE_COST * piece.count(b"xmlns")
            spaces += declared
            self.is_long = self.is_long or at > told_at + _PIECE
            for element in self._ended():
                yield element
                self._forget(element)
                cost, spaces, told_at, self.is_long = most, declared, at, False
            if cost > MAX_COST:
                cost = self._cost() + spaces
            if cost > MAX_COST:
                self._cut()
                return
        self.root = self._parser.close()
        if self._told is not None:
            _remove(self._told)

    def _ended(self) -> Iterator[etree._Element]:
        """The entries that were read to their end."""
        for event, element in self._parser.read_events():
            if self.root is None:
                self.root = element.getroottree().getroot()
            if event == "end" and local(element.tag) in ENTRIES and self._stands_well(element):
                yield element

    def _stands_well(self, element: etree._Element) -> bool:
        """Whether only containers are around it, and the root."""
        around = list(element.iterancestors())
        inner = around[:-1]
        return (
            bool(around)
            and local(around[-1].tag) not in ENTRIES
            and len(inner) <= MAX_CONTAINERS
            and all(local(each.tag) in CONTAINERS for each in inner)
        )

    def _forget(self, element: Any) -> None:
        """Empty an entry, and drop what stands before it; the parser may be at what follows."""
        element.clear(keep_tail=True)
        self._told = element
        for each in (element, *element.iterancestors()):
            while (before := each.getprevious()) is not None:
                _remove(before)

    def _cost(self) -> int:
        """What is there at this moment, but for namespaces: markup inside of CDATA is only text."""
        return MAX_COST + 1 if self.root is None else sum(map(_cost, self.root.iter()))

    def _cut(self) -> None:
        if self._told is None:
            raise TooExpensive("one entry is made of too many elements or too much text")
        self.is_cut = True


def _cost(element: etree._Element) -> int:
    texts = [text for text in (element.text, element.tail) if text is not None]
    nodes = 1 + len(texts) + 2 * len(element.attrib)
    return _NODE_COST * nodes + _LETTER_COST * sum(map(len, texts))


def _remove(element: etree._Element) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)
