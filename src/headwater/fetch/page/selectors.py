"""Selects elements of a page by CSS selectors, in one pass over its tags (W4, M5).

The result has the length of the page: other text becomes spaces, so that positions stay the same.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headwater.css_selectors import Compound, parse_selectors
from headwater.fetch.page.element_stack import ElementStack
from headwater.fetch.text.html_attributes import attributes_of
from headwater.fetch.text.html_to_text import BLOCKS

Range = tuple[int, int]


@dataclass(slots=True)
class Selection:
    """The elements of a page that selectors match."""

    include: list[Range] = field(default_factory=list)  # the outermost, in order
    exclude: list[Range] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # matched elements by selector
    excluded_blocks: set[int] = field(default_factory=set)  # starts of those that are blocks

    @property
    def has_included(self) -> bool:
        """Whether an element of `include` is not inside of one of `exclude`."""
        return next(_kept(self.include, self), None) is not None


def select(html: str, include: Sequence[str], exclude: Sequence[str]) -> Selection:
    """Find the elements that match; linear in the page, however its elements are nested."""
    matcher = Matcher([*include, *exclude])
    selection = Selection(counts=dict.fromkeys((*include, *exclude), 0))
    first_exclude = len(include)
    starts: dict[int, int] = {}  # by kind: 0 is include, 1 is exclude; of the outermost element
    states: list[tuple[int, int]] = [(0, 0)]  # of the open elements: matched, and by ancestors
    stack = ElementStack()
    ranges = (selection.include, selection.exclude)
    opened: list[tuple[int, ...]] = [()]  # the kinds whose outermost element this one is
    for event in stack.events(html):
        if isinstance(event, int):  # the position where the innermost element ends
            states.pop()
            for kind in opened.pop():
                ranges[kind].append((starts.pop(kind), event))
            continue
        name, attributes, start = event
        parent, ancestors = states[-1]
        matched = matcher.matched(name, attributes, parent, ancestors)
        kinds: list[int] = []
        for index in matcher.selected(matched) if matched & matcher.last else ():
            selection.counts[matcher.texts[index]] += 1
            kind = int(index >= first_exclude)
            if kind not in starts:
                starts[kind] = start
                kinds.append(kind)
                if kind and name in BLOCKS:
                    selection.excluded_blocks.add(start)
        states.append((matched, ancestors | matched))
        opened.append(tuple(kinds))
    for found in ranges:
        found.sort()
    return selection


def selected_html(html: str, selection: Selection, *, only_include: bool) -> str:
    """The page with spaces in place of what is not selected.

    A tag separates texts that were in different elements.
    """
    pieces: list[str] = []
    position = 0
    include = selection.include if only_include else [(0, len(html))]
    for start, end, separator in _kept(include, selection):
        pieces += (_blank(separator, start - position), html[start:end])
        position = end
    pieces.append(_blank("", len(html) - position))
    return "".join(pieces)


def _kept(include: Sequence[Range], selection: Selection) -> Iterator[tuple[int, int, str]]:
    """The ranges of `include` without those of `exclude`, each with the separator before it."""
    exclude, index = selection.exclude, 0
    for start, end in include:
        position, separator = start, "<p>"
        while index < len(exclude) and exclude[index][0] < end:
            first, last = exclude[index]
            if first > position:
                yield position, first, separator
                separator = ""
            if first in selection.excluded_blocks:
                separator = separator or "<br>"
            position = max(position, last)
            if last > end:  # it may contain more of them
                break
            index += 1
        if position < end:
            yield position, end, separator


def _blank(separator: str, length: int) -> str:
    return separator.ljust(length) if length >= len(separator) else " " * length


class Matcher:
    """Matches the start tags of a page, outer ones first, against selectors.

    Each compound of each selector is one bit. A bit of an element is set if the selector up to this
    compound matches the element.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._compounds: list[Compound] = []
        self._text_of_bit: dict[int, int] = {}  # of last compounds: the index of the selector
        self._first = self._child = self.last = 0
        for index, text in enumerate(texts):
            for selector in parse_selectors(text):
                self._first |= 1 << len(self._compounds)
                self._compounds += selector
                self._text_of_bit[len(self._compounds) - 1] = index
        self._by_key: dict[tuple[str, str], int] = {}
        self._to_check = 0
        for bit, compound in enumerate(self._compounds):
            keys = _keys(compound)
            self._by_key[keys[0]] = self._by_key.get(keys[0], 0) | 1 << bit
            self._child |= compound.is_child << bit
            self._to_check |= (len(keys) > 1 or bool(compound.attributes)) << bit
        for bit in self._text_of_bit:
            self.last |= 1 << bit
        self._descendant = ~(self._first | self._child)
        self._any = self._by_key.get(("any", ""), 0)
        self._by_tag = {word: mask for (kind, word), mask in self._by_key.items() if kind == "tag"}
        self._hint = self._hint_of_attributes()

    def matched(self, tag: str, raw_attributes: str, parent: int, ancestors: int) -> int:
        """The bits of an element, from those of its parent and those of all its ancestors."""
        candidates = self._any | self._by_tag.get(tag, 0)
        attributes: dict[str, str] = {}
        if raw_attributes and self._hint is not None and self._hint.search(raw_attributes):
            attributes = attributes_of(raw_attributes)
            candidates |= self._candidates(attributes)
        if not candidates:
            return 0  # most elements
        possible = self._first | (parent << 1 & self._child) | (ancestors << 1 & self._descendant)
        matched = possible & candidates
        for bit in _bits(matched & self._to_check):
            if not _is_match(self._compounds[bit], tag, attributes):
                matched &= ~(1 << bit)
        return matched

    def selected(self, matched: int) -> set[int]:
        """The indexes of the selectors that match an element with these bits."""
        return {self._text_of_bit[bit] for bit in _bits(matched & self.last)}

    def _candidates(self, attributes: dict[str, str]) -> int:
        keys = [("class", word) for word in attributes.get("class", "").split()]
        keys += [("attribute", name) for name in attributes]
        found = self._by_key.get(("id", attributes.get("id", "")), 0)
        for key in keys:
            found |= self._by_key.get(key, 0)
        return found

    def _hint_of_attributes(self) -> re.Pattern[str] | None:
        """Finds tags that may have one of the ids, classes and attributes: parsing takes longer."""
        words = [re.escape(word) for kind, word in self._by_key if kind in ("id", "class")]
        names = [f"(?i:{re.escape(name)})" for kind, name in self._by_key if kind == "attribute"]
        return re.compile("|".join((*words, *names, "&"))) if words or names else None


def _keys(compound: Compound) -> list[tuple[str, str]]:
    """The conditions of a compound; elements are looked up by the first."""
    keys = [("id", id_) for id_ in compound.ids]
    keys += [("class", class_) for class_ in compound.classes]
    keys += [("attribute", name) for name, _ in compound.attributes]
    keys += [("tag", compound.tag)] if compound.tag else []
    return keys or [("any", "")]


def _is_match(compound: Compound, name: str, attributes: dict[str, str]) -> bool:
    classes = attributes.get("class", "").split()
    return (
        (not compound.tag or compound.tag == name)
        and all(id_ == attributes.get("id") for id_ in compound.ids)
        and all(class_ in classes for class_ in compound.classes)
        and all(
            attribute in attributes and value in (None, attributes[attribute])
            for attribute, value in compound.attributes
        )
    )


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
