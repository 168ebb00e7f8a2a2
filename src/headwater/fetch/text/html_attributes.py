"""Attributes of a start tag, from the text between its name and its end."""

import re

from headwater.fetch.text.html_to_text import decoded

ATTRIBUTE = re.compile(
    r"""([^\s=/>"']++)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"']++)))?+""", re.DOTALL
)
MAX_ATTRIBUTES = 8_192  # characters of one tag's attributes that are parsed
_USUAL = {
    name: re.compile(rf"""\s*+{name}=(?:"([^"&]*+)"|'([^'&]*+)')""") for name in ("href", "alt")
}


def attributes_of(raw: str) -> dict[str, str]:
    """The decoded attributes of a start tag; the first of duplicates counts."""
    found: dict[str, str] = {}
    for name, double, single, bare in ATTRIBUTE.findall(raw[:MAX_ATTRIBUTES]):
        found.setdefault(name.lower(), decoded(double or single or bare))
    return found


def attribute(raw: str, name: str) -> str | None:
    """One attribute; fast if it comes first, as the target of a link mostly does."""
    usual = _USUAL[name].match(raw) if name in _USUAL else None
    return usual[1] or usual[2] if usual else attributes_of(raw).get(name)
