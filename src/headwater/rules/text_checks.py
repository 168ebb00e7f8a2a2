"""Text checks: what both databases can store, and lower-casing that both agree on (M6)."""

import re

# control characters, line separators, lone surrogates
_UNSTORABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_one_line(text: str) -> bool:
    """Whether text has no control character, line break or lone surrogate."""
    return text.isprintable() or _UNSTORABLE.search(text) is None


def lowered(text: str) -> str:
    """Text in lower case, character by character as PostgreSQL does it."""
    # Python lower-cases these two differently: by context, and to two characters
    return text.replace("\u03a3", "\u03c3").replace("\u0130", "i").lower()
