"""Whether a text is the whole story or only its beginning (T3)."""

import re

from headwater.model import Completeness

SHORT_SUMMARY = 500  # characters
_TAIL = 700  # characters that are searched for signs
_LAST_WORDS = 160
_CLOSING = ' .…»›→>])"”'  # after the last word
# A line that blogs append to every text.
_SIGNATURE = re.compile(r"\s*The post .{1,400}? (?:appeared first|first appeared) on .{1,200}$")
_INVITATION = re.compile(
    r"""\b(?:
        read\ (?: more | on | the\ (?:full|whole|rest)\b.{0,60} ) | continue\ reading\b.*
        | keep\ reading | more\ details | click\ here\ to\ read\b.* | learn\ more
        | weiterlesen | mehr\ lesen | lire\ la\ suite | leer\ más | seguir\ leyendo | leia\ mais
        | leggi\ tutto | lees\ meer | läs\ mer | czytaj\ (?:dalej|więcej)
    )$""",
    re.VERBOSE,
)
_INVITING = ("read", "more", "les", "la suite", "leyendo", "leia", "leggi", "meer", "mer", "czytaj")


def completeness(text: str, *, has_content: bool, has_text: bool = True) -> Completeness:
    """`excerpt` by the end of the text, or for a short summary alone; `full` for other contents.

    `has_content` says whether the entry has a content besides a summary, `has_text` whether it has
    any text at all.
    """
    if _is_cut(text):
        return Completeness.EXCERPT
    if has_content:
        return Completeness.FULL
    if has_text and len(text) < SHORT_SUMMARY:
        return Completeness.EXCERPT
    return Completeness.UNKNOWN


def _is_cut(text: str) -> bool:
    """Whether the text ends in an ellipsis or invites to read on."""
    tail = text[-_TAIL:]
    if "appeared" in tail:
        tail = _SIGNATURE.sub("", tail)
    last = tail.rstrip(_CLOSING)
    closing = tail[len(last) :]
    if "…" in closing or "..." in closing:
        return True
    words = last[-_LAST_WORDS:].lower()
    for each in _INVITING:  # a generator would take as long as the rest of this function
        if each in words:
            return _INVITATION.search(words) is not None
    return False
