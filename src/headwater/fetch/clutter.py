"""What stands in and around an article without being part of it (W1)."""

import re
from enum import Enum, auto

from headwater.fetch.page import Block, Line, Page

_APART = frozenset({"nav", "footer", "aside"})
_CONTROLS = frozenset(
    {"form", "button", "select", "textarea", "svg", "noscript", "dialog", "menu", "figcaption"}
    | {"audio", "canvas"}
)
_HEADLINES = frozenset({"h1", "h2", "h3"})
# Words that people put in class and id of what is not the article: its surroundings, or facts
# about it that change while the text does not (dates, counters).
_CLUTTER_WORD = re.compile(
    r"""
    (?: ads? | adslot | outbrain | taboola | banner | widget | consent | gdpr
      | nav | navigation | navbar | menu | toolbar | sidebar | pager | actions | more | print
      | modal | popup | overlay | lightbox | tooltip | hidden | invisible | login | paywall
      | social | follow | popular | trending | similar | tags? | taglist | topics
      | byline | bio | authors? | meta | metadata | credits? | captions? | copyright
      | date | dateline | datetime | pubdate | timestamp | published | updated | posted
      | reply | replies | respond | disqus | slideshow | carousel | [a-z]*gallery
      | (?: advert | sponsor | promo | shar(?:e|ing) | related | recommend | suggest | comment
          | newsletter | subscri | signup | breadcrumb | paginat | cookie ) [a-z]*
    )
    """,
    re.VERBOSE,
)
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


def _states(page: Page, root: Block, own_lengths: list[int]) -> dict[int, _State]:
    """Judge the blocks inside the root, outer ones first."""
    states = {root.index: _State.KEPT}
    most = own_lengths[root.index] * _MOST
    for block in page.blocks[root.index + 1 :]:
        around = states.get(block.parent)
        if around is None:
            break  # the first block after the root
        states[block.index] = _state(block, around, is_most=own_lengths[block.index] > most)
    return states


def _state(block: Block, around: _State, *, is_most: bool) -> _State:
    if around is _State.DROPPED or block.name in _APART:
        return _State.DROPPED
    if block.name == "header":
        return _State.HEADER
    if around is _State.HEADER:
        return _State.KEPT if block.name in _HEADLINES else _State.HEADER
    return _State.KEPT if is_most or not _is_clutter(block) else _State.DROPPED


def _is_clutter(block: Block) -> bool:
    if block.hidden or block.name in _CONTROLS:
        return True
    if block.name == "article":  # inside another one: a comment, or a hint at another article
        return True
    if block.name == "blockquote" or "embed" in block.words:
        return False  # a quoted message, though the markup speaks of social networks
    return any(_CLUTTER_WORD.fullmatch(word) for word in block.words)


def _is_link(line: Line) -> bool:
    in_headline = line.block.name in _HEADLINES
    return not in_headline and line.link_length >= _LINK_SHARE * len(line.text)
