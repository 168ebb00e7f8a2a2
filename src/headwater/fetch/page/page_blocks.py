"""The blocks of a page that can be watched or left out, each with a selector for it (W4).

A selector names an element by its id, else by a class, else by its tag, if needed within an element
around it that has one. Positions among siblings are not used: they change with every new item.
Siblings that no selector tells apart, such as the paragraphs of `main`, are one block: `main > p`.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.css_selectors import MAX_SELECTOR
from headwater.errors import NoContent
from headwater.fetch.page.element_stack import ElementStack
from headwater.fetch.page.html_blocks import HtmlPage, Line, read_blocks
from headwater.fetch.page.page_document import page_html
from headwater.fetch.page.selectors import select
from headwater.fetch.page.watched_text import watched_text
from headwater.fetch.text.html_attributes import attributes_of
from headwater.fetch.text.html_to_text import BLOCKS
from headwater.rules.watched_parts import PageBlock
from headwater.watch_settings import WatchSettings

MAX_BLOCKS = 60  # besides that of the whole page
_MAX_CHARACTERS = 2_000_000  # of the markup; the blocks of a longer page are not listed
_MAX_ELEMENTS = 20_000  # blocks beyond these are not listed
_MAX_ANCHORS = 4  # elements around a block that are tried to name it
_EXCERPT = 300  # characters of a block's text
# Parts of tables are rarely alone in having a class; headings belong to what follows them.
_LEFT_OUT = frozenset(
    """html head body tbody thead tfoot tr td th dt dd option br hr form fieldset
    h2 h3 h4 h5 h6""".split()
)
_LISTED = BLOCKS - _LEFT_OUT
_NAME = re.compile(r"-?[A-Za-z_][-\w]*", re.ASCII)  # needs no escapes
_MADE_UP = re.compile(r"\d{3}|[0-9a-f]{6}|^(?:css|sc|jsx|svelte)-|[A-Za-z]+\d+[A-Za-z]+\d", re.I)
_MAX_NAME = 60  # characters
_Key = tuple[str, str]  # tag and class, one of which may be empty


@dataclass(slots=True, eq=False)
class _Element:
    tag: str
    id: str
    classes: tuple[str, ...]
    start: int
    outer: "_Element | None"  # the block around it
    is_child: bool = False  # whether no other element is between these two
    end: int = 0
    selector: str = ""  # that matches it alone; empty: there is none
    count: int = 1  # elements that the selector matches
    anchor: "_Element | None" = None  # the innermost block around it that has a selector
    lines: range | tuple[int, ...] = range(0)


def read_page_blocks(
    data: bytes, *, content_type: str | None, url: str, watch: WatchSettings | None
) -> list[PageBlock]:
    """The blocks of a page, outer ones first; none if it is too long to choose from."""
    html = page_html(data, content_type, url)
    return [] if len(html) > _MAX_CHARACTERS else page_blocks(html, url, watch)


def page_blocks(html: str, url: str, watch: WatchSettings | None = None) -> list[PageBlock]:
    """The same for the markup of a page."""
    page = read_blocks(html)
    elements, index = _elements(html)
    _set_lines(elements, page)
    for element in elements:
        outer = element.outer
        element.anchor = outer.anchor if outer is not None and not outer.selector else outer
        usable = (one for one in _selectors(element, index) if len(one) <= MAX_SELECTOR)
        element.selector = next(usable, "")
    named = [*elements, *_groups(elements)]
    chosen = _outermost(_without_wrappers([one for one in named if one.selector and one.lines]))
    main_text = _watched_positions(html, page, url, None)
    other_lines = set(range(len(page.lines))).difference(*(one.lines for one in chosen))
    if any(_text_start(html, page.lines[number]) in main_text for number in other_lines):
        chosen.insert(0, _whole_page(html, page))
    counts = select(html, [one.selector for one in chosen], ()).counts
    chosen = [one for one in chosen if counts[one.selector] == one.count]
    watched = main_text if watch is None else _watched_positions(html, page, url, watch)
    return list(_listed(html, page, chosen, watched))


class _Index:
    """Where the elements of a page with a tag, a class or both start, and which ids are unique."""

    def __init__(self) -> None:
        self._starts: dict[_Key, list[int]] = {}
        self._ids: dict[str, int] = {}

    def add(self, tag: str, id_: str, classes: Sequence[str], start: int) -> None:
        """Add an element; they are added in the order of the page."""
        if id_:
            self._ids[id_] = self._ids.get(id_, 0) + 1
        for key in {(tag, ""), *((tag, one) for one in classes), *(("", one) for one in classes)}:
            self._starts.setdefault(key, []).append(start)

    def has_unique_id(self, id_: str) -> bool:
        """Whether one element has this id."""
        return self._ids.get(id_) == 1

    def is_unique(self, tag: str, class_: str, within: tuple[int, int] | None = None) -> bool:
        """Whether one element has this tag and class, in a range of the page if one is given."""
        starts = self._starts[tag, class_]
        if within is None:
            return len(starts) == 1
        return bisect_left(starts, within[1]) - bisect_left(starts, within[0]) == 1


def _elements(html: str) -> tuple[list[_Element], _Index]:
    """The listed blocks in the order of their start tags, and an index of all elements."""
    found: list[_Element] = []
    index = _Index()
    open_: list[_Element | None] = []  # of each open element its block, if it is listed
    blocks: list[_Element] = []
    for event in ElementStack().events(html):
        if isinstance(event, int):
            closed = open_.pop()
            if closed is not None:
                closed.end = event
                blocks.pop()
            continue
        tag, raw, start = event
        attributes = attributes_of(raw) if raw else {}
        id_, classes = attributes.get("id", ""), tuple(attributes.get("class", "").split())
        index.add(tag, id_, classes, start)
        element = None
        if tag in _LISTED and len(found) < _MAX_ELEMENTS:
            outer = blocks[-1] if blocks else None
            is_child = bool(open_) and open_[-1] is not None
            element = _Element(tag, id_, classes, start, outer, is_child)
            found.append(element)
            blocks.append(element)
        open_.append(element)
    return found, index


def _set_lines(elements: Sequence[_Element], page: HtmlPage) -> None:
    starts = [line.start for line in page.lines]
    for element in elements:
        first = bisect_left(starts, element.start)
        element.lines = range(first, bisect_left(starts, element.end, first))


def _whole_page(html: str, page: HtmlPage) -> _Element:
    """A block for main text that is in no other one, such as paragraphs directly in the body.

    Without it, this text would be lost when parts are named.
    """
    lines = range(len(page.lines))
    return _Element("body", "", (), 0, None, end=len(html), selector="body", lines=lines)


def _selectors(element: _Element, index: _Index) -> Iterator[str]:
    """Selectors that match an element alone, the most robust ones first."""
    tag, classes = element.tag, [one for one in element.classes if _is_robust(one)]
    if _is_robust(element.id) and index.has_unique_id(element.id):
        yield f"#{element.id}"
    for class_ in classes:
        if index.is_unique("", class_):
            yield f".{class_}"
        elif index.is_unique(tag, class_):
            yield f"{tag}.{class_}"
    if index.is_unique(tag, ""):
        yield tag
    yield from _anchored_selectors(element, classes, index)


def _anchored_selectors(element: _Element, classes: Sequence[str], index: _Index) -> Iterator[str]:
    """Selectors by class or tag within an element around it that has a selector."""
    anchor = element.anchor
    for _ in range(_MAX_ANCHORS):
        if anchor is None:
            return
        within = anchor.start + 1, anchor.end  # the anchor itself is not inside of it
        for class_ in classes:
            if index.is_unique(element.tag, class_, within):
                yield f"{anchor.selector} {element.tag}.{class_}"
        if index.is_unique(element.tag, "", within):
            yield f"{anchor.selector} {element.tag}"
        anchor = anchor.anchor


def _groups(elements: Sequence[_Element]) -> Iterator[_Element]:
    """One block for all children with the same tag, if none of them can be named alone.

    Children with blocks inside are not grouped: these may be named alone.
    """
    outers = {element.outer for element in elements}
    children: dict[tuple[_Element, str], list[_Element]] = {}
    for element in elements:
        if element.outer is not None and element.outer.selector and element.is_child:
            children.setdefault((element.outer, element.tag), []).append(element)
    for (outer, tag), group in children.items():
        selector = f"{outer.selector} > {tag}"
        if len(selector) > MAX_SELECTOR or any(one.selector or one in outers for one in group):
            continue
        lines = tuple(number for one in group for number in one.lines)
        if len(lines) == len(outer.lines):
            continue  # the same text
        yield replace(group[0], selector=selector, lines=lines, count=len(group))


def _is_robust(name: str) -> bool:
    """Whether an id or class was given by a person: those of build tools change with each build."""
    is_name = 0 < len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None
    return is_name and _MADE_UP.search(name) is None


def _without_wrappers(elements: Sequence[_Element]) -> list[_Element]:
    """One element for each text: of those around the same lines the one named most simply."""
    found: dict[Sequence[int], _Element] = {}
    for element in elements:
        other = found.get(element.lines)
        if other is None or _rank(element) < _rank(other):
            found[element.lines] = element
    return sorted(found.values(), key=lambda one: one.start)


def _rank(element: _Element) -> tuple[bool, bool, int]:
    selector = element.selector
    return " " in selector, not selector.startswith("#"), selector.count(" ")


def _outermost(elements: Sequence[_Element]) -> list[_Element]:
    """The first elements level by level: if there are many, inner ones are left out."""
    levels: dict[_Element, int] = {}
    for element, outer in _with_outer(elements):
        levels[element] = 0 if outer is None else levels[outer] + 1
    first = sorted(levels, key=levels.__getitem__)[:MAX_BLOCKS]
    return sorted(first, key=lambda one: one.start)


def _with_outer(elements: Sequence[_Element]) -> Iterator[tuple[_Element, _Element | None]]:
    """Each element with the innermost other one around it."""
    around: list[_Element] = []
    for element in elements:
        while around and around[-1].end <= element.start:
            around.pop()
        yield element, around[-1] if around else None
        around.append(element)


def _watched_positions(
    html: str, page: HtmlPage, url: str, watch: WatchSettings | None
) -> dict[int, int]:
    """The lengths of the lines that the settings keep, by where their text starts."""
    try:
        text = watched_text(html, page, url, watch)
    except NoContent:  # no element matches
        return {}
    return {_text_start(text.html, line): len(line.text) for line in text.lines}


def _text_start(html: str, line: Line) -> int:
    """Where the text of a line starts; what is not selected has become spaces before it."""
    position = line.start
    while position < line.end and html[position].isspace():
        position += 1
    return position


def _listed(
    html: str, page: HtmlPage, elements: Sequence[_Element], watched: dict[int, int]
) -> Iterator[PageBlock]:
    depths: dict[_Element, int] = {}
    for element, outer in _with_outer(elements):
        depths[element] = 0 if outer is None else depths[outer] + 1
        lines = [page.lines[number] for number in element.lines]
        kept = sum(watched.get(_text_start(html, line), 0) for line in lines)
        length = sum(len(line.text) for line in lines)
        yield PageBlock(
            selector=element.selector,
            depth=depths[element],
            text=_excerpt(lines),
            length=length,
            watched_length=min(kept, length),
            count=element.count,
        )


def _excerpt(lines: Sequence[Line]) -> str:
    text = ""
    for line in lines:
        text += f"{' · ' if text else ''}{line.text[:_EXCERPT]}"
        if len(text) > _EXCERPT:
            return f"{text[:_EXCERPT].rstrip()}…"
    return text
