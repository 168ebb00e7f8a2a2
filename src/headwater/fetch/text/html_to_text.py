"""HTML to plain text in one pass over the tokens, in linear time for any nesting (R4, M5).

Text needs no tree, and building one is costly: HTML's scoping rules search the stack of open
elements, so that even fast parsers take minutes for 200,000 nested tags.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape

from headwater.fetch.text.sanitize import storable_line

# A separator is put where one of these begins or ends; all others are inline.
_BLOCK_NAMES = """
    address article aside blockquote body br button caption center col colgroup dd details dialog
    dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head
    header hgroup hr html legend li link main menu meta nav object ol optgroup option p pre search
    section select summary table tbody td textarea tfoot th thead title tr ul video
"""
BLOCKS = frozenset(_BLOCK_NAMES.split())
_INLINE_NAMES = "a abbr b code em i img small span strong sub sup u"  # the usual ones
# Their content is never shown as text. `noscript` is not among them: no scripts are run.
HIDDEN_ELEMENTS = ("script", "style", "template", "iframe", "noembed", "noframes")
HIDDEN_STARTS = "sStTiInN"  # a check of the next letter saves most tags six comparisons

# Patterns for the inside of `<...>`. Markup without an end extends over the rest of the text, as in
# browsers: otherwise the rest would be scanned again from every `<` (M5).
_VALUE = r"""=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+"""
ATTRIBUTES = rf"[^>=]*+(?:{_VALUE}[^>=]*+)*+"
HIDDEN_ELEMENT = "|".join(
    rf"(?i:{name})(?=[\s/>]){ATTRIBUTES}"
    rf"(?:(?<=/)>|>.*?(?:</(?i:{name})(?=[\s/>])[^>]*+(?:>|\Z)|\Z)|\Z)"
    for name in HIDDEN_ELEMENTS
)
COMMENT = r"!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+(?:>|\Z)"

_MARKUP = re.compile(  # its one group is the name of a tag
    rf"<(?:(?=[{HIDDEN_STARTS}])(?:{HIDDEN_ELEMENT})|/?+([a-zA-Z][^\s/>]*+)(?:>|{ATTRIBUTES}(?:>|\Z))|{COMMENT})",
    re.DOTALL,
)
HEAD = re.compile(
    r"\s*+(?:<!doctype[^>]*+>\s*+)?(?:<html[^>]*+>\s*+)?<head[\s>].*?</head\s*+>",
    re.DOTALL | re.IGNORECASE,
)
LONG_TEXT = 1 << 18  # characters; longer texts are processed in parts (H1)
PART = 1 << 16  # characters of a part
PIECES = 20_000  # that are collected before they are joined
_ENDLESS_NUMBER = re.compile(r"&#(?:[0-9]{100,}+|[xX][0-9a-fA-F]{100,}+);?")


class _Separators(dict[str | None, str]):
    """The replacement of a tag by its name: a space at the edge of a block, else a NUL.

    The NUL keeps `&am<b>p;</b>` from becoming a character reference.
    """

    def __missing__(self, name: str | None) -> str:
        return " " if name and name.lower() in BLOCKS else "\0"


SEPARATORS = _Separators(
    {**dict.fromkeys(BLOCKS, " "), **dict.fromkeys(_INLINE_NAMES.split(), "\0")}
)


def html_to_text(html: str) -> str:
    """The visible text on one line with single spaces; never raises (R4, M5, M6)."""
    if "<" not in html:
        return decoded_line(html)
    if len(html) <= LONG_TEXT:
        return one_line(decoded(_without_markup(html)))
    return joined_line(part for text in _parts_of_markup(html) for part in decoded_parts(text))


def one_line(text: str) -> str:
    """Collapse whitespace to single spaces and make the text storable (R4, M6)."""
    if text.isprintable():  # no whitespace but spaces, no control characters
        while "  " in text:  # each pass halves the runs
            text = text.replace("  ", " ")
        return text.strip(" ")
    return joined_line(_parts_of_text(text)) if len(text) > LONG_TEXT else _collapsed(text)


def decoded_line(text: str) -> str:
    """The same for a text with character references, and NULs in place of markup."""
    return one_line(decoded(text)) if len(text) <= LONG_TEXT else joined_line(decoded_parts(text))


def long_line(texts: Iterable[str]) -> str:
    """One line made of texts of any length."""
    return joined_line(part for text in _joined_short_texts(texts) for part in _parts_of_text(text))


def _joined_short_texts(texts: Iterable[str]) -> Iterator[str]:
    """Join runs of short texts; long ones stay as they are."""
    pieces: list[str] = []
    for text in texts:
        is_long = len(text) > PART
        if is_long or len(pieces) > PIECES:
            yield "".join(pieces)
            pieces.clear()
        if is_long:
            yield text
        else:
            pieces.append(text)
    yield "".join(pieces)


def _collapsed(text: str) -> str:
    line = " ".join(text.split())
    return line if line.isprintable() else storable_line(line)


def joined_line(parts: Iterable[str]) -> str:
    """Join parts to one line; as UTF-8 they need the least memory (H1)."""
    framed = (_collapsed(f"|{part}|") for part in parts)  # keeps spaces at the ends
    line = b"".join(part[1:-1].encode() for part in framed)
    while b"  " in line:
        line = line.replace(b"  ", b" ")
    line = line.strip(b" ")  # one copy at a time (H1)
    return line.decode()


def _parts_of_text(text: str) -> Iterator[str]:
    """The text in parts: a list of all its words would be far larger (H1)."""
    return (text[start : start + PART] for start in range(0, len(text), PART))


def _parts_of_markup(html: str) -> Iterator[str]:
    """The text of markup in parts; no character reference extends across a tag."""
    head = HEAD.match(html)
    pieces: list[str] = []
    position = head.end() if head else 0
    for markup in _MARKUP.finditer(html, position):
        pieces += (html[position : markup.start()], SEPARATORS[markup[1]])
        position = markup.end()
        if len(pieces) > PIECES:
            yield "".join(pieces)
            pieces.clear()
    yield "".join((*pieces, html[position:]))


def _without_markup(html: str) -> str:
    """Replace every piece of markup by its separator; faster than in parts."""
    head = HEAD.match(html)
    if head is not None:
        html = html[head.end() :]
    pieces: list[str | None] = _MARKUP.split(html)  # text, name, text, name, ..., text
    pieces[1::2] = map(SEPARATORS.__getitem__, pieces[1::2])
    return "".join(pieces)  # type: ignore[arg-type]  # the names were the only None


def decoded(text: str) -> str:
    """Replace character references, then remove the NULs of markup."""
    if "&" in text:
        # int() raises for very long numbers, and no character has one
        text = unescape(_ENDLESS_NUMBER.sub("\ufffd", text))
    return text.replace("\0", "")


def decoded_parts(text: str) -> Iterator[str]:
    """The decoded text in parts, none of which ends inside a reference."""
    start = 0
    while start < len(text):
        end = text.find("&", start + PART)
        end = len(text) if end < 0 else end
        yield from _parts_of_text(decoded(text[start:end]))
        start = end
