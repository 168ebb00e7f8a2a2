"""Repairs ill-formed XML: closes, drops and escapes so that a parser loses no text (R1)."""

import re
from html.entities import html5
from itertools import islice

FEED_ROOTS = frozenset({"rss", "rdf", "feed", "channel", "entry", "item"})
PAGE_TAGS = frozenset({"html", "head", "body", "script", "title", "meta", "div", "p", "table"})
MAX_DEPTH = 200  # below the parser's own limit of 256, which would end the document (M2)
MAX_ATTRIBUTES = 100
MAX_REFERENCES = 100_000  # in one text
MAX_TEXT = 9_990_000  # bytes; the parser drops a text beyond its own limit, just above (M2)
MAX_TOKENS = 1_000_000  # some seconds of work; the rest is cut off

_SKIPPED_PROLOG = re.compile(
    rb"(?:[\s\xef\xbb\xbf]++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[<>]*+(?:\[[^\]]*+\]\s*+)?>)*+",
    re.DOTALL | re.IGNORECASE,
)
_FIRST_TAG = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_ROOT_TAG = re.compile(rb"<(?:[\w.-]{1,40}:)?(?:rss|rdf|feed|channel)[\s>]", re.IGNORECASE)
_SURE_ROOT_TAG = re.compile(rb"<(?:rss|feed|rdf:RDF)\s+(?:version|xmlns)[\s:=]", re.IGNORECASE)

# Possessive throughout, and no part crosses a `<` outside CDATA and comments: linear time (M2).
_TOKEN = re.compile(
    rb"<(?:"
    rb"!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)"
    rb"|!--.*?(?:-->|\Z)"
    rb"|\?[^<>]*+(?:>|\Z)|![^<>]*+(?:>|\Z)"
    rb"|/\s*+(?P<end>[\w.:\x80-\xff-]++)[^<>]*+(?:>|(?=<))"
    rb"|(?P<start>[A-Za-z_\x80-\xff][\w.:\x80-\xff-]*+)"
    rb"(?:(?P<attributes>(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+)>|(?P<loose>[^<>]*+)>))",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    rb"([A-Za-z_][\w.:-]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?"
)
_ODD_AMPERSAND = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos);)"
    rb"(?:#(?:[xX]([0-9a-fA-F]{1,8})|([0-9]{1,9}));?|([A-Za-z][A-Za-z0-9]{0,31});)?"
)
_C1_REFERENCE = re.compile(rb"&#(?:0{0,5}(12[89]|1[345][0-9])|[xX]0{0,5}([89][0-9a-fA-F]));")
_C1_CHARACTER = re.compile(rb"\xc2[\x80-\x9f]")
_LONG_NAMESPACE = re.compile(  # plain letters first: they are found fastest
    rb"(xmlns(?<=\sxmlns)[^\s=<>\"']*+\s*+=\s*+)(?:\"[^\"<]{512,}+\"|'[^'<]{512,}+')"
)
_CONTROL = bytes(set(range(32)) - {9, 10, 13})
# HTML elements without an end tag, except those whose names feeds use otherwise.
_VOID = frozenset(b"br hr img input meta wbr area col embed param track base".split())
_FRAME = frozenset(b"rss rdf feed channel item entry".split())
_ENTRY = frozenset({b"item", b"entry"})
_HOLDERS = (_FRAME - _ENTRY) | {b"items"}


def feed_start(data: bytes) -> int | None:
    """The position of the root element of a feed; None if there is none.

    What precedes it (declarations, a DOCTYPE with its entities, junk) never reaches the parser
    (M1).
    """
    prolog = _SKIPPED_PROLOG.match(data)
    start = prolog.end() if prolog else 0
    first = _FIRST_TAG.match(data, start)
    name = _readable(first)
    if name in FEED_ROOTS:
        return start
    later = (_SURE_ROOT_TAG if name in PAGE_TAGS else _ROOT_TAG).search(data, start)
    return later.start() if later else None


def windows_characters(data: bytes) -> bytes:
    """Replace characters 128-159, which are controls, by those of windows-1252."""
    if b"#" in data:  # a fast check
        data = _C1_REFERENCE.sub(
            lambda found: _character(int(found[1]) if found[1] else int(found[2], 16)).encode(),
            data,
        )
    if b"\xc2" in data and _C1_CHARACTER.search(data):
        for code in range(0x80, 0xA0):
            data = data.replace(chr(code).encode(), _character(code).encode())
    return data


def short_namespaces(data: bytes) -> bytes:
    """Replace very long namespaces: the parser repeats them in the name of every tag (H1)."""
    return _LONG_NAMESPACE.sub(rb'\1"urn:too-long"', data)


def first_tag(data: bytes) -> str | None:
    """The name of the first element, for an error message."""
    prolog = _SKIPPED_PROLOG.match(data)
    found = _FIRST_TAG.search(data, prolog.end() if prolog else 0)
    return _readable(found)


def _readable(tag: re.Match[bytes] | None) -> str | None:
    return _local(tag[1]).decode("ascii", "replace") if tag else None


def _local(name: bytes) -> bytes:
    """The name without its prefix, in lower case."""
    return name.rpartition(b":")[2].lower()


def repaired(data: bytes) -> tuple[bytes, bool]:
    """Close open elements, drop unmatched end tags, escape text that is not markup.

    The second value says whether the document itself closed its root element (R1) and no text was
    cut.
    """
    return _Repair(data.translate(None, _CONTROL)).run()


class _Repair:
    """One pass over the tokens of a document, with the stack of open elements."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.out = bytearray()
        self.open: list[bytes] = []
        # positions on the stack, so that no tag costs a search through it (H2)
        self.depths: dict[bytes, list[int]] = {}
        self.frames: list[int] = []
        self.holders: list[int] = []
        self.closed = False
        self.is_cut = False  # a text exceeded the limit

    def run(self) -> tuple[bytes, bool]:
        position = 0
        for token in islice(_TOKEN.finditer(self.data), MAX_TOKENS):
            self._text(self.data[position : token.start()])
            position = token.end()
            match token.lastgroup:
                case "attributes":
                    self._start(token["start"], token["attributes"])
                case "end":
                    self._end(token["end"])
                case "cdata" if self.open:
                    self.out += b"<![CDATA[" + self._limited(token["cdata"]) + b"]]>"
                case "loose":
                    self._start(token["start"], token["loose"])
            if self.closed:
                break
        if not self.closed:
            self._text(self.data[position:].partition(b"<")[0])
            self._close_down_to(0)
        return bytes(self.out), self.closed and not self.is_cut

    def _text(self, text: bytes) -> None:
        if text and self.open:
            if len(self.out) > 2 * len(self.data):  # not a mistake but an attack
                text = text.translate(None, b"<&")
            self.out += escaped(self._limited(text))

    def _limited(self, text: bytes) -> bytes:
        """The part of a text that the parser accepts, in whole characters."""
        if len(text) <= MAX_TEXT:
            return text
        self.is_cut = True
        end = MAX_TEXT
        while text[end] & 0xC0 == 0x80:
            end -= 1
        return text[:end]

    def _start(self, name: bytes, attributes: bytes) -> None:
        local = _local(name)
        empty = attributes.rstrip().endswith(b"/") or local in _VOID
        if local in _ENTRY and not empty and self.holders:
            self._close_down_to(self.holders[-1] + 1)  # entries do not nest
        if not empty and len(self.open) >= MAX_DEPTH:
            return
        ending = b"/>" if empty else b">"
        self.out += b"<" + name + (_attributes(attributes) if attributes else b"") + ending
        if not empty:
            self._open(name, local)
        elif not self.open:  # the document is just `<rss/>`
            self.closed = True

    def _open(self, name: bytes, local: bytes) -> None:
        depth = len(self.open)
        self.open.append(name)
        self.depths.setdefault(name, []).append(depth)
        if local in _FRAME:
            self.frames.append(depth)
        if local in _HOLDERS:
            self.holders.append(depth)

    def _end(self, name: bytes) -> None:
        """Close the nearest element of this name, but never an entry by its inner markup."""
        depths = self.depths.get(name)
        if not depths:
            return
        depth = depths[-1]
        inside = bool(self.frames) and self.frames[-1] > depth
        if inside and _local(name) not in _FRAME:
            return
        self._close_down_to(depth)
        self.closed = depth == 0

    def _close_down_to(self, depth: int) -> None:
        for name in reversed(self.open[depth:]):
            self.out += b"</" + name + b">"
            self.depths[name].pop()
        del self.open[depth:]
        for marked in (self.frames, self.holders):
            while marked and marked[-1] >= depth:
                marked.pop()


def escaped(text: bytes) -> bytes:
    """Escape a text; references of HTML become characters, those of XML stay."""
    if b"&" in text:
        text = _repaired_references(text)
    angle = b"&lt;" if text.count(b"<") <= MAX_REFERENCES else b""
    return text.replace(b"<", angle).replace(b"]]>", b"]]&gt;")


def _repaired_references(text: bytes) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for found in islice(_ODD_AMPERSAND.finditer(text), MAX_REFERENCES):
        pieces += (text[position : found.start()], _reference(found))
        position = found.end()
    tail = text[position:]
    if len(pieces) == 2 * MAX_REFERENCES:  # not a mistake but an attack
        tail = tail.replace(b"&", b"")
    return b"".join((*pieces, tail))


def _reference(found: re.Match[bytes]) -> bytes:
    hexadecimal, decimal, name = found.groups()
    if name is not None:
        characters = html5.get(name.decode("ascii") + ";")
        return b"&amp;" + found[0][1:] if characters is None else _encoded(characters)
    if hexadecimal is None and decimal is None:
        return b"&amp;" + found[0][1:]
    return _encoded(_character(int(hexadecimal, 16) if hexadecimal else int(decimal)))


def _character(code: int) -> str:
    """The character of a numeric reference as in HTML: 128-159 are windows-1252."""
    if 0x80 <= code <= 0x9F:
        return bytes([code]).decode("cp1252", "replace")
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF):
        return "\ufffd"
    return "" if code < 32 and code not in (9, 10, 13) else chr(code)


def _encoded(characters: str) -> bytes:
    """Markup characters stay references, so that they do not become markup."""
    return b"".join(
        b"&#%d;" % ord(character) if character in "&<>\"'" else character.encode()
        for character in characters
    )


def _attributes(text: bytes) -> bytes:
    seen: dict[bytes, bytes] = {}
    for found in islice(_ATTRIBUTE.finditer(text), MAX_ATTRIBUTES):
        name, double, single, bare = found.groups()
        value = next((part for part in (double, single, bare) if part is not None), b"")
        seen.setdefault(name, escaped(value).replace(b'"', b"&quot;"))
    return b"".join(b' %s="%s"' % pair for pair in seen.items())
