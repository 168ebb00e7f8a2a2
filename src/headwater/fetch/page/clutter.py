"""Leaves the clutter out of a block of a page: navigation, share buttons, comments, ... (W1)."""

import re
from collections.abc import Iterable
from enum import Enum, auto
from functools import cached_property

from headwater.fetch.page.boilerplate import (
    BOILERPLATE_ELEMENTS,
    SHORT,
    VERY_SHORT,
    Boilerplate,
)
from headwater.fetch.page.html_blocks import Block, HtmlPage, Line
from headwater.fetch.page.other_articles import lines_of_other_articles

_ASIDES = frozenset({"form", "dialog", "menu", "figcaption"})  # unless they contain all the text
_HEADLINES = frozenset({"h1", "h2", "h3"})
_HEADINGS = _HEADLINES | {"h4", "h5", "h6"}
_LISTS = frozenset({"ul", "ol", "dl"})
_LIST_ITEMS = frozenset({"li", "dd", "dt"})
# Words in class and id of parts of a page's layout and ...
_LAYOUT_WORD = re.compile(
    r"""
    ads? | adslot | outbrain | taboola | disqus
    | nav | navigation | navbar | menu | toolbar | sidebar | pager | footer | rodape
    | modal | popup | overlay | lightbox | tooltip | slideshow | carousel | [a-z]*gallery
    | (?: advert | breadcrumb | paginat ) [a-z]*
    """,
    re.VERBOSE,
)
# ... of additions to an article, but also of sections about these subjects, ...
_ADDITION_WORD = re.compile(
    r"""
    cta | respond | reply | replies | popular | trending | similar
    | (?: sponsor | promo | shar(?:e|ing) | related | recommend | suggest | comment
        | newsletter | subscri | signup ) [a-z]*
    """,
    re.VERBOSE,
)
# ... and of its metadata, which may change while the text does not: these are short.
_METADATA_WORD = re.compile(
    r"""
    byline | bio | authors? | meta | metadata | credits? | captions? | copyright | tags | taglist
    | topics | date | dateline | datetime | pubdate | timestamp | published | updated | posted
    | social | follow | more | print | actions | banner | login | paywall
    """,
    re.VERBOSE,
)
_ALL = 0.8  # share of a block's text: a part with more is not a cookie banner
_MOST = 0.4  # share of a block's text: a part with more is not clutter, even with such a name
_LONG = 500  # characters; longer texts lose lines that are only a link
_LINK_SHARE = 0.75
_PARAGRAPHS = frozenset({"p", "header", "div"})
_LEAD = 120  # characters of a paragraph in a header that is not metadata
# Lines that are labels or the time of a change, not text.
_LABEL = re.compile(
    r"(?:share|print|e-?mail|save|tags?|tagged|comments?|advertisement|anzeige|publicidade|publicidad)"
    r"|tags?:.{0,80}"
    r"|(?:first |last )?(?:published|updated|posted|modified)\b[^.]{0,60}\d[^.]{0,20}",
    re.IGNORECASE,
)


class _State(Enum):
    KEPT = auto()
    HEADER = auto()  # only headlines and a lead paragraph stay
    DROPPED = auto()


def lines_without_clutter(page: HtmlPage, root: Block, boilerplate: Boilerplate) -> list[Line]:
    """The lines of a block without clutter."""
    return _Selection(page, root, boilerplate).lines()


class _Selection:
    """Decides on the blocks and lines inside one block, the root."""

    def __init__(self, page: HtmlPage, root: Block, boilerplate: Boilerplate) -> None:
        self._page = page
        self._root = root
        self._boilerplate = boilerplate
        self._own_lengths = boilerplate.own_lengths
        self._states = self._decided()

    def lines(self) -> list[Line]:
        """The lines that are kept."""
        page, root = self._page, self._root
        numbers = [
            number
            for number in range(root.first_line, root.end_line)
            if self._is_kept(page.lines[number])
        ]
        others = lines_of_other_articles(page, root, numbers)
        is_long = self._own_lengths[root.index] > _LONG
        return [
            page.lines[number]
            for number in numbers
            if number not in others and not (is_long and self._is_loose(page.lines[number]))
        ]

    def _is_kept(self, line: Line) -> bool:
        state = self._states[line.block.index]
        is_lead = line.block.name in _PARAGRAPHS and len(line.text) - line.link_length >= _LEAD
        return state is _State.KEPT or (state is _State.HEADER and is_lead)

    def _decided(self) -> dict[int, _State]:
        """The states of the blocks inside the root, outer ones first."""
        root = self._root
        states = {root.index: _State.KEPT}
        for block in self._page.blocks[root.index + 1 :]:
            outer = states.get(block.parent)
            if outer is None:
                break  # the first block after the root
            states[block.index] = outer if outer is _State.DROPPED else self._state(block, outer)
        return states

    def _state(self, block: Block, outer: _State) -> _State:
        share = self._own_lengths[block.index] / (self._own_lengths[self._root.index] or 1)
        is_left_out = self._boilerplate.includes(block)
        if is_left_out and (block.name in BOILERPLATE_ELEMENTS or share <= _ALL):
            return _State.DROPPED
        if block.name == "header":
            return _State.HEADER
        if block.name in _HEADLINES:
            return _State.KEPT
        if share <= _MOST and self._is_clutter(block):
            return _State.DROPPED
        return outer

    def _is_clutter(self, block: Block) -> bool:
        if block.hidden or block.name in _ASIDES:
            return True
        if block.name == "article":  # nested: a comment, or a teaser
            return self._root.name == "article"
        if block.name == "blockquote" or "embed" in block.words:
            return False  # a quoted message, although its class names a social network
        return block.name not in _HEADINGS and self._is_named_clutter(block)

    def _is_named_clutter(self, block: Block) -> bool:
        """Whether its names and its content show clutter: a name alone may be a subject (W1)."""
        words, id_words = block.words, block.id_words
        length = self._own_lengths[block.index]
        if length < SHORT and _any(_METADATA_WORD, words | id_words):
            return True
        is_addition = _any(_ADDITION_WORD, words | id_words)
        if not is_addition and not _any(_LAYOUT_WORD, words | id_words):
            return False
        by_class = _any(_ADDITION_WORD, words) or _any(_LAYOUT_WORD, words)
        return (
            length < (SHORT if by_class else VERY_SHORT)
            or self._boilerplate.is_mostly_links(block)
            or (is_addition and self._has_named_parts(block))
        )

    def _has_named_parts(self, block: Block) -> bool:
        """Whether blocks inside it have such names too, as lists of comments have."""
        counts, ends = self._named_parts
        return counts[ends[block.index]] > counts[block.index + 1]

    @cached_property
    def _named_parts(self) -> tuple[list[int], list[int]]:
        """The number of blocks with such a class before each block, and where each one ends."""
        blocks = self._page.blocks
        counts = [0]
        for block in blocks:
            counts.append(counts[-1] + _any(_ADDITION_WORD, block.words))
        ends = list(range(1, len(blocks) + 1))
        for block in reversed(blocks):
            ends[block.parent] = max(ends[block.parent], ends[block.index])
        return counts, ends

    def _is_loose(self, line: Line) -> bool:
        """Whether a line is a label, or only a link and no headline or part of a list."""
        if _LABEL.fullmatch(line.text):
            return True
        if line.block.name in _HEADLINES or line.link_length < _LINK_SHARE * len(line.text):
            return False
        return not self._is_in_list_of_text(line)

    def _is_in_list_of_text(self, line: Line) -> bool:
        """Whether its list has other text too, or follows a heading or `...:` (W1)."""
        page, item = self._page, line.block
        around = page.blocks[item.parent] if item.name in _LIST_ITEMS else item
        if around.name not in _LISTS:
            return False
        if not self._boilerplate.is_mostly_links(around):
            return True
        before = around.first_line - 1
        if before < max(page.blocks[around.parent].first_line, self._root.first_line):
            return False
        intro = page.lines[before]
        is_kept = self._states.get(intro.block.index) is _State.KEPT
        return is_kept and (intro.block.name in _HEADINGS or intro.text.endswith((":", "：")))


def _any(pattern: re.Pattern[str], words: Iterable[str]) -> bool:
    return any(pattern.fullmatch(word) for word in words)
