"""Finds blocks of a page that are never article text: navigation, controls, cookie banners (W1).

A section of a manual may be about cookies, consent or the GDPR: a name alone makes no banner.
"""

import re

from headwater.fetch.page.html_blocks import Block, HtmlPage

BOILERPLATE_ELEMENTS = frozenset(
    {"nav", "footer", "aside", "noscript", "svg", "button", "select", "textarea", "audio", "canvas"}
)
SHORT = 300  # characters of a block whose class may say what it is
VERY_SHORT = 100  # the same for an id, which names a subject more often
_COOKIE_WORD = re.compile(r"(?:cookie|consent|gdpr)[a-z]*")
_BANNER_WORD = re.compile(
    r"bar|[a-z]*banner|[a-z]*notice|notification|message|law|wall|prompt|dialog|modal|popup|overlay"
)
_LONGEST_BANNER = 1_000  # characters, with buttons
_MOSTLY_LINKS = 0.5


class Boilerplate:
    """Decides which blocks of a page are boilerplate."""

    def __init__(self, page: HtmlPage) -> None:
        self.lengths = page.lengths()
        self.own_lengths = page.own_lengths()  # without links
        named = [(block, words) for block in page.blocks if (words := _cookie_words(block))]
        asking = _asking_blocks(page) if named else ()
        self._banners = {
            block.index
            for block, words in named
            if self._is_banner(block, words, asks=asking[block.index])
        }

    def includes(self, block: Block) -> bool:
        """Whether a block is never article text."""
        return block.name in BOILERPLATE_ELEMENTS or block.index in self._banners

    def is_mostly_links(self, block: Block) -> bool:
        """Whether at least half of the text of a block is in links."""
        return self.own_lengths[block.index] < _MOSTLY_LINKS * self.lengths[block.index]

    def _is_banner(self, block: Block, words: frozenset[str], *, asks: bool) -> bool:
        """Whether a block named after cookies is short, mostly links, or asks for a click."""
        is_clear = bool(words & block.words) or len(words) > 1 or _is_named_banner(block)
        length = self.own_lengths[block.index]
        longest = _LONGEST_BANNER if asks else SHORT if is_clear else VERY_SHORT
        return length < longest or self.is_mostly_links(block)


def _asking_blocks(page: HtmlPage) -> list[bool]:
    """Whether each block has a button, unless it may be one that copies a sample of code."""
    buttons = page.sums([line.block.name == "button" for line in page.lines])
    samples = page.sums([line.block.name == "pre" for line in page.lines])
    return [bool(count) and not code for count, code in zip(buttons, samples, strict=True)]


def _cookie_words(block: Block) -> frozenset[str]:
    return frozenset(filter(_COOKIE_WORD.fullmatch, block.words | block.id_words))


def _is_named_banner(block: Block) -> bool:
    return any(map(_BANNER_WORD.fullmatch, block.id_words))
