"""HTML to plain text in one pass over the tokens, linear whatever the nesting (R4, M5).

Text needs no tree, and a tree has its price: HTML's scoping rules look up the stack of open
elements, so that even fast parsers take minutes for 200,000 nested tags.
"""

import html as character_references
import re

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
_UNSEEN = ("script", "style", "template", "iframe", "noembed", "noframes")
_UNSEEN_STARTS = "sStTiInN"  # one look at the next letter spares most tags six comparisons

# Patterns for the inside of `<...>`. Whatever lacks its end takes the rest of the text, as in
# browsers: giving up there would mean to scan the rest anew from every `<` (M5).
ATTRIBUTES = r"""(?:[^>=]++|=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+)*+"""
UNSEEN_ELEMENT = "|".join(
    rf"(?i:{name})(?=[\s/>]){ATTRIBUTES}"
    rf"(?:(?<=/)>|>.*?(?:</(?i:{name})(?=[\s/>])[^>]*+(?:>|\Z)|\Z)|\Z)"
    for name in _UNSEEN
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
    return one_line(decoded(_without_markup(html, gaps)))


def one_line(text: str) -> str:
    """Collapse whitespace to single spaces and make the text storable (R4, M6)."""
    if text.isprintable():  # no whitespace but spaces, no control
        while "  " in text:  # every time half as many are left
            text = text.replace("  ", " ")
        return text.strip(" ")
    line = " ".join(text.split())
    return line if line.isprintable() else storable_line(line)


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
        # decimal numbers beyond a limit make int() raise, and no character is that far out
        text = character_references.unescape(_ENDLESS_NUMBER.sub("\ufffd", text))
    return text.replace("\0", "") if "\0" in text else text
