"""Makes untrusted text storable in every database, on one line if needed (M6)."""

import re

MAX_TITLE_LENGTH = 1_000  # M8
MAX_AUTHOR_LENGTH = 500  # M8
_READ_FACTOR = 100  # of a text that is cut, this many times its limit is read

# Control characters other than tab and line feed; DEL and the C1 block belong to them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_ENDS = str.maketrans(
    {"\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"}
)


def storable_text(text: str) -> str:
    """The text without control characters other than tab and line feed (M6)."""
    if text.isprintable():  # the usual case, and one C call covers all cases below
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", text.translate(_LINE_ENDS))
    return _SURROGATE.sub("\ufffd", text)


def storable_line(text: str, limit: int | None = None) -> str:
    """The same on one line with single spaces, none at the ends, cut after `limit` characters."""
    if text.isprintable() and "  " not in text:
        line = text.strip(" ")
    else:
        if limit is not None:
            text = text[: _READ_FACTOR * (limit + 1)]  # bounds the list of its words (H1)
        line = " ".join(storable_text(text).split())
    if limit is not None and len(line) > limit:
        line = line[:limit].rstrip()
    return line
