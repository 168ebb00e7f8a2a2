"""What stands in and around an article without being part of it (W1)."""

import re
from enum import Enum, auto

from headwater.fetch.page import Block, Line, Page

_APART = frozenset(
    {"nav", "footer", "aside", "noscript", "svg", "button", "select", "textarea", "audio", "canvas"}
)
_ASIDES = frozenset({"form", "dialog", "menu", "figcaption"})  # unless all the text is in there
_HEADLINES = frozenset({"h1", "h2", "h3"})
_COOKIE_WORD = re.compile(r"(?:cookie|consent|gdpr)[a-z]*")
# Words that people put in class and id of what surrounds an article ...
_SURROUNDING_WORD = re.compile(
    r"""
    ads? | adslot | outbrain | taboola | disqus | respond | reply | replies
    | nav | navigation | navbar | menu | toolbar | sidebar | pager | popular | trending | similar
    | modal | popup | overlay | lightbox | tooltip | slideshow | carousel | [a-z]*gallery
    | (?: advert | sponsor | promo | shar(?:e|ing) | related | recommend | suggest | comment
        | newsletter | subscri | signup | breadcrumb | paginat ) [a-z]*
    """,
    re.VERBOSE,
)
# ... and of facts about it, which may change while the text does not: these are short.
_FACT_WORD = re.compile(
    r"""
    byline | bio | authors? | meta | metadata | credits? | captions? | copyright | tags | taglist
    | topics | date | dateline | datetime | pubdate | timestamp | published | updated | posted
    | social | follow | more | print | actions | banner | login | paywall
    """,
    re.VERBOSE,
)
_SHORT = 300
_ALL = 0.8  # of the text in a block: no part of it is apart that holds more
_MOST = 0.4  # of the text in a block: what holds more is no clutter, whatever it is called
_LONG = 500  # characters from which on a text can spare lines that are nothing but a link
_LINK_SHARE = 0.75


class _State(Enum):
    KEPT = auto()
    HEADER = auto()  # only headlines stay
    DROPPED = auto()


def text_without_clutter(page: Page, root: Block) -> str:
    """The text of a block as a reader would quote it, on one line."""
    own_lengths = page.own_lengths()
    states = _states(page, root, own_lengths)
    is_long = own_lengths[root.index] > _LONG
    return " ".join(
        line.text
        for line in page.lines_of(root)
        if states[line.block.index] is _State.KEPT and not (is_long and _is_link(line))
    )


def is_apart(block: Block) -> bool:
    """Whether a block is no text at all by W1: navigation, controls, a cookie banner."""
    return block.name in _APART or any(_COOKIE_WORD.fullmatch(word) for word in block.words)


def _states(page: Page, root: Block, own_lengths: list[int]) -> dict[int, _State]:
    """Judge the blocks inside the root, outer ones first."""
    states = {root.index: _State.KEPT}
    for block in page.blocks[root.index + 1 :]:
        around = states.get(block.parent)
        if around is None:
            break  # the first block after the root
        if around is not _State.DROPPED:
            length = own_lengths[block.index]
            around = _state(block, around, root, length, length / (own_lengths[root.index] or 1))
        states[block.index] = around
    return states


def _state(block: Block, around: _State, root: Block, length: int, share: float) -> _State:
    if block.name in _APART or (is_apart(block) and share <= _ALL):
        return _State.DROPPED
    if block.name == "header":
        return _State.HEADER
    if block.name in _HEADLINES:
        return _State.KEPT
    if share <= _MOST and _is_clutter(block, root, length):
        return _State.DROPPED
    return around


def _is_clutter(block: Block, root: Block, length: int) -> bool:
    if block.hidden or block.name in _ASIDES:
        return True
    if block.name == "article":  # in another one: a comment, or a hint at another article
        return root.name == "article"
    if block.name == "blockquote" or "embed" in block.words:
        return False  # a quoted message, though the markup speaks of social networks
    if any(_SURROUNDING_WORD.fullmatch(word) for word in block.words):
        return True
    return length < _SHORT and any(_FACT_WORD.fullmatch(word) for word in block.words)


def _is_link(line: Line) -> bool:
    in_headline = line.block.name in _HEADLINES
    return not in_headline and line.link_length >= _LINK_SHARE * len(line.text)
