"""HTML to plain text in one pass over the tokens, linear whatever the nesting (R4, M5).

Text needs no tree, and a tree has its price: HTML's scoping rules look up the stack of open
elements, so that even fast parsers take minutes for 200,000 nested tags.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape

from headwater.fetch.storable import storable_line

# Where one of these begins or ends, a reader sees a gap; all others stand inside a line.
_BLOCK_NAMES = """
    address article aside blockquote body br button caption center col colgroup dd details dialog
    dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head
    header hgroup hr html legend li link main menu meta nav object ol optgroup option p pre search
    section select summary table tbody td textarea tfoot th thead title tr ul video
"""
BLOCKS = frozenset(_BLOCK_NAMES.split())
_INLINE_NAMES = "a abbr b code em i img small span strong sub sup u"  # the usual ones
# Their content is never shown as text. `noscript` is not among them: we run no scripts.
UNSEEN = ("script", "style", "template", "iframe", "noembed", "noframes")
_UNSEEN_STARTS = "sStTiInN"  # one look at the next letter spares most tags six comparisons

# Patterns for the inside of `<...>`. Whatever lacks its end takes the rest of the text, as in
# browsers: giving up there would mean to scan the rest anew from every `<` (M5).
_VALUE = r"""=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+"""
ATTRIBUTES = rf"[^>=]*+(?:{_VALUE}[^>=]*+)*+"
UNSEEN_ELEMENT = "|".join(
    rf"(?i:{name})(?=[\s/>]){ATTRIBUTES}"
    rf"(?:(?<=/)>|>.*?(?:</(?i:{name})(?=[\s/>])[^>]*+(?:>|\Z)|\Z)|\Z)"
    for name in UNSEEN
)
COMMENT = r"!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+(?:>|\Z)"

_MARKUP = re.compile(  # its one group is the name of a tag
    rf"<(?:(?=[{_UNSEEN_STARTS}])(?:{UNSEEN_ELEMENT})|/?+([a-zA-Z][^\s/>]*+)(?:>|{ATTRIBUTES}(?:>|\Z))|{COMMENT})",
    re.DOTALL,
)
_HEAD = re.compile(
    r"\s*+(?:<!doctype[^>]*+>\s*+)?(?:<html[^>]*+>\s*+)?<head[\s>].*?</head\s*+>",
    re.DOTALL | re.IGNORECASE,
)
LONG_TEXT = 1 << 18  # characters; longer texts are taken in parts
_PART = 1 << 16
_PIECES = 20_000
_ENDLESS_NUMBER = re.compile(r"&#(?:[0-9]{100,}+|[xX][0-9a-fA-F]{100,}+);?")


class _Gaps(dict[str | None, str]):
    """What stands for a tag of this name: a space for the edge of a block, else `inside`."""

    def __init__(self, inside: str) -> None:
        super().__init__(dict.fromkeys(_INLINE_NAMES.split(), inside))
        self.update({spelling: " " for name in BLOCKS for spelling in (name, name.upper())})
        self._inside = inside

    def __missing__(self, name: str | None) -> str:
        return " " if name and name.lower() in BLOCKS else self._inside


_GAPS = _Gaps("")
# The NUL keeps `&am<b>p;</b>` from turning into a character reference that nobody wrote.
_GAPS_AMONG_REFERENCES = _Gaps("\0")


def html_to_text(html: str) -> str:
    """Answer what a reader sees, on one line with single spaces; never raises (R4, M5, M6)."""
    gaps = _GAPS
    if "&" in html:
        gaps = _GAPS_AMONG_REFERENCES
    elif "<" not in html:
        return one_line(html)
    if len(html) > LONG_TEXT:
        parts = _parts_of_markup(html, gaps)
        return _long_line(part for text in parts for part in _parts_of_text(text))
    return one_line(decoded(_without_markup(html, gaps)))


def one_line(text: str) -> str:
    """Collapse whitespace to single spaces and make the text storable (R4, M6)."""
    if text.isprintable():  # no whitespace but spaces, no control
        while "  " in text:  # every time half as many are left
            text = text.replace("  ", " ")
        return text.strip(" ")
    return _long_line(_parts_of_text(text)) if len(text) > LONG_TEXT else _collapsed(text)


def decoded_line(text: str) -> str:
    """The same of a text with character references, and NULs where markup stood."""
    if len(text) <= LONG_TEXT:
        return one_line(decoded(text))
    texts = map(decoded, _parts_of_references(text))
    return _long_line(part for text in texts for part in _parts_of_text(text))


def gap(name: str) -> str:
    """What stands for the begin or the end of an element."""
    return _GAPS[name]


def long_line(texts: Iterable[str]) -> str:
    """One line of texts of any length, as they come."""
    return _long_line(part for text in _gathered(texts) for part in _parts_of_text(text))


def _gathered(texts: Iterable[str]) -> Iterator[str]:
    """Short texts put together, long ones as they are."""
    pieces: list[str] = []
    for text in texts:
        is_long = len(text) > _PART
        if is_long or len(pieces) > _PIECES:
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


def _long_line(parts: Iterable[str]) -> str:
    """One line of parts; UTF-8 takes the least of memory while they are put together."""
    framed = (_collapsed(f"|{part}|") for part in parts)  # the space at their ends is to stay
    line = b"".join(part[1:-1].encode() for part in framed)
    while b"  " in line:
        line = line.replace(b"  ", b" ")
    line = line.strip(b" ")  # one of them at a time (H1)
    return line.decode()


def _parts_of_text(text: str) -> Iterator[str]:
    """The text in parts: the list of all its words would be far larger than itself (H1)."""
    return (text[start : start + _PART] for start in range(0, len(text), _PART))


def _parts_of_markup(html: str, gaps: _Gaps) -> Iterator[str]:
    """The text of markup in parts; no character reference reaches across a tag."""
    head = _HEAD.match(html)
    pieces: list[str] = []
    position = head.end() if head else 0
    for markup in _MARKUP.finditer(html, position):
        pieces += (html[position : markup.start()], gaps[markup[1]])
        position = markup.end()
        if len(pieces) > _PIECES:
            yield decoded("".join(pieces))
            pieces.clear()
    yield decoded("".join((*pieces, html[position:])))


def _without_markup(html: str, gaps: _Gaps) -> str:
    """Put a gap for every piece of markup."""
    head = _HEAD.match(html)
    if head is not None:
        html = html[head.end() :]
    pieces: list[str | None] = _MARKUP.split(html)  # text, name, text, name, ..., text
    pieces[1::2] = map(gaps.__getitem__, pieces[1::2])
    return "".join(pieces)  # type: ignore[arg-type]  # the names were the only None


def decoded(text: str) -> str:
    """Replace character references, then take the NULs out that stood for markup."""
    if "&" in text:
        if len(text) > LONG_TEXT:
            return "".join(map(_decoded_part, _parts_of_references(text)))
        # decimal numbers beyond a limit make int() raise, and no character is that far out
        text = unescape(_ENDLESS_NUMBER.sub("\ufffd", text))
    return text.replace("\0", "") if "\0" in text else text


def _decoded_part(text: str) -> str:
    return unescape(_ENDLESS_NUMBER.sub("\ufffd", text)).replace("\0", "")


def _parts_of_references(text: str) -> Iterator[str]:
    """The text in parts of which none ends inside a reference."""
    start = 0
    while start < len(text):
        end = text.find("&", start + _PART)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end
