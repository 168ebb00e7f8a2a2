"""The tags of an OPML file, however badly it is written: one pass, no entities, no tree (M1, M2).

XML parsers stop at a bare `&` or drop what follows it, and most lists in the wild have one. All
that an outline says stands in its attributes, so its tags in their order are enough.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from html.entities import html5

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
# Character sets only: Python also knows codecs that are slow (punycode) or no text at all.
_CHARACTER_SET = re.compile(
    r"(?:iso8859|iso2022|cp|koi8|mac|gb|big5|euc|shift|tis|johab|hz)[-_\w]*"
)
_STRAY_BYTES = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)
}

_MARKUP = re.compile(r"<(?:(/?)([A-Za-z_][\w:.-]*+)|(!--|!\[CDATA\[|[!?]))")
_CLOSINGS = {"!--": "-->", "![CDATA[": "]]>", "!": ">", "?": ">"}
_SKIPPED = re.compile(r"""[\s=/"']*+""")
_NAME = re.compile(r"""([^\s=<>/"']++)(\s*+=\s*+)?""")
_BARE_VALUE = re.compile(r"(?:[^\s<>/]|/(?!>))*+")
_VALUE_STOPS = {'"': re.compile(r'["<]'), "'": re.compile(r"['<]")}
_INNER_TAG = re.compile(r"</?([A-Za-z][\w:.-]*+)[^<>]*+>?")
_OWN_TAGS = frozenset({"opml", "head", "body", "outline"})
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")


class TagKind(StrEnum):
    """What a tag does to the elements around it."""

    OPEN = "open"
    CLOSE = "close"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of OPML; its name and the names of its attributes are in lower case."""

    name: str
    kind: TagKind
    attributes: Mapping[str, str]


def decoded(data: bytes) -> str:
    """The text of an XML document in any encoding; what cannot be decoded costs only itself."""
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return data.decode(codec, "replace").removeprefix("\ufeff")
    declared = _declared_codec(data)
    if declared is not None:
        try:
            return data.decode(declared)
        except UnicodeDecodeError:
            pass  # a false declaration is more likely than a broken text
    # Bytes that are no UTF-8 are the typographic quotes and umlauts of an old Windows program.
    return data.decode("utf-8", "surrogateescape").translate(_STRAY_BYTES)


def tags(text: str, *, wanted: frozenset[str]) -> Iterator[Tag]:
    """The tags of OPML in their order with the attributes that are wanted.

    Time and memory grow with the text and no faster, whatever it holds.
    """
    position = 0
    while (found := _MARKUP.search(text, position)) is not None:
        slash, name, declaration = found.groups()
        if declaration is not None:
            position = _after(text, _CLOSINGS[declaration], found.end())
            continue
        attributes, position, kind = _attributes(text, found.end(), wanted)
        if name.lower() in _OWN_TAGS:
            yield Tag(name.lower(), TagKind.CLOSE if slash else kind, attributes)


def _declared_codec(data: bytes) -> str | None:
    found = _DECLARED.match(data[:512])
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
    except LookupError:
        return None
    if name == "iso8859-1":
        return "cp1252"  # what those who declare Latin-1 write
    return name if _CHARACTER_SET.fullmatch(name) else None


def _after(text: str, closing: str, position: int) -> int:
    """Where a comment, CDATA or a declaration is over: at the end, if nothing closes it."""
    end = text.find(closing, position)
    return len(text) if end < 0 else end + len(closing)


def _attributes(
    text: str, position: int, wanted: frozenset[str]
) -> tuple[dict[str, str], int, TagKind]:
    """Read attributes up to the tag's end; a tag that breaks off counts as an empty element."""
    attributes: dict[str, str] = {}
    while True:
        skipped = _SKIPPED.match(text, position)
        assert skipped is not None  # it matches nothing too
        position = skipped.end()
        if text.startswith(">", position):
            is_empty = skipped[0].endswith("/")
            return attributes, position + 1, TagKind.EMPTY if is_empty else TagKind.OPEN
        named = _NAME.match(text, position)
        if named is None:  # the next tag begins, or the text is over
            return attributes, position, TagKind.EMPTY
        position = named.end()
        if named[2] is not None:
            value, position, is_whole = _value(text, position)
            name = named[1].lower()
            if is_whole and name in wanted:
                attributes.setdefault(name, _unescaped(value))


def _value(text: str, position: int) -> tuple[str, int, bool]:
    """A value as written, where it ends, and whether it ended by itself."""
    quote = text[position : position + 1]
    if quote not in _VALUE_STOPS:
        bare = _BARE_VALUE.match(text, position)
        assert bare is not None
        return bare[0], bare.end(), bool(bare[0])
    end = start = position + 1
    while (stop := _VALUE_STOPS[quote].search(text, end)) is not None:
        if stop[0] == quote:
            return text[start : stop.start()], stop.end(), True
        inner = _INNER_TAG.match(text, stop.start())
        if inner is not None and inner[1].lower() in _OWN_TAGS:
            return "", stop.start(), False  # the quote was never closed
        # HTML that nobody escaped, with quotes of its own
        end = stop.end() if inner is None else inner.end()
    return "", len(text), False


def _unescaped(value: str) -> str:
    """Entities decoded where they are closed by `;`, as no `&copy=` of a bare URL is."""
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name is not None:
        return html5.get(f"{name};", reference[0])
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    is_character = 0 < code < 0xD800 or 0xDFFF < code <= 0x10FFFF
    return chr(code) if is_character else "\ufffd"
