"""Text that every database keeps and finds alike (M6)."""

import re

# control characters, ends of lines, and halves of characters
_UNSTORABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_one_line(text: str) -> bool:
    """Whether text can be stored and shown as it is, on a line of its own."""
    return text.isprintable() or _UNSTORABLE.search(text) is None


def lowered(text: str) -> str:
    """Text in small letters, one for each of its own, as PostgreSQL does it."""
    # those two Python writes otherwise: by what follows, and as two characters
    return text.replace("\u03a3", "\u03c3").replace("\u0130", "i").lower()
