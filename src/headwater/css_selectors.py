"""Parses CSS selectors: the subset that one pass over a page can match (W4).

Supported are type, `*`, `#id`, `.class`, `[attribute]`, `[attribute=value]`, descendants, children
(`>`) and lists (`,`). Other selectors, such as `:has()` or `a ~ b`, can take quadratic time.
"""

import re
from dataclasses import dataclass

MAX_SELECTOR = 300  # characters
_NAME = r"(?:[-\w]|[^\x00-\x7f]|\\[0-9a-fA-F]{1,6}[ ]?|\\[^\n0-9a-fA-F])++"
_PART = re.compile(
    rf"(?P<type>{_NAME}|\*)"
    rf"|\#(?P<id>{_NAME})"
    rf"|\.(?P<class>{_NAME})"
    rf"|\[\s*+(?P<name>{_NAME})\s*+"
    rf"(?:=\s*+(?:(?P<value>{_NAME})|\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)')\s*+)?+\]"
    r"|(?P<combinator>\s*+[>,]\s*+|\s++)"
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6}) ?|(.))", re.DOTALL)
_MAX_CODE_POINT = 0x10FFFF
SUPPORTED = "supported are tag, #id, .class, [attribute], [attribute=value], spaces, > and commas"


@dataclass(frozen=True, slots=True)
class Compound:
    """The conditions on one element, and how it relates to the compound before it."""

    tag: str = ""  # lower case; empty: any
    ids: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str | None], ...] = ()  # lower-case names; None: any value
    is_child: bool = False  # of the element that the compound before matches; else a descendant


Selector = tuple[Compound, ...]  # the last compound is the selected element


def parse_selectors(text: str) -> tuple[Selector, ...]:
    """The selectors of a list separated by commas; ValueError with the reason if it is invalid."""
    if len(text) > MAX_SELECTOR:
        raise ValueError(f"a selector has at most {MAX_SELECTOR} characters")
    found: list[Selector] = []
    compounds: list[Compound] = []
    parts: list[re.Match[str]] = []
    is_child = False
    for part in _parts(text.strip()):
        combinator = part["combinator"]
        if combinator is None:
            parts.append(part)
            continue
        compounds.append(_compound(text, parts, is_child=is_child))
        parts, is_child = [], combinator.strip() == ">"
        if combinator.strip() == ",":
            found.append(tuple(compounds))
            compounds = []
    compounds.append(_compound(text, parts, is_child=is_child))
    return (*found, tuple(compounds))


def _parts(text: str) -> list[re.Match[str]]:
    parts: list[re.Match[str]] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise ValueError(f"{text[position:][:20]!r} is not supported; {SUPPORTED}")
        parts.append(part)
        position = part.end()
    return parts


def _compound(text: str, parts: list[re.Match[str]], *, is_child: bool) -> Compound:
    if not parts:
        raise ValueError("the selector is empty" if not text.strip() else "a selector is missing")
    if any(part["type"] for part in parts[1:]):
        raise ValueError("a tag comes before the other conditions of an element")
    tag = parts[0]["type"] or ""
    attributes = [
        (_unescaped(part["name"]).lower(), _value(part)) for part in parts if part["name"]
    ]
    return Compound(
        tag="" if tag == "*" else _unescaped(tag).lower(),
        ids=tuple(_unescaped(part["id"]) for part in parts if part["id"]),
        classes=tuple(_unescaped(part["class"]) for part in parts if part["class"]),
        attributes=tuple(attributes),
        is_child=is_child,
    )


def _value(part: re.Match[str]) -> str | None:
    given = (part[name] for name in ("value", "double", "single"))
    return next((_unescaped(value) for value in given if value is not None), None)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[2]
    code = int(escape[1], 16)
    is_character = 0 < code <= _MAX_CODE_POINT and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else "\N{REPLACEMENT CHARACTER}"
