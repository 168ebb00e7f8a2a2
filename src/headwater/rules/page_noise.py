"""Noise detection: lines of a page that change with every version, such as a clock (W6)."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from headwater.rules.ignored_lines import IgnoredLines, kept_lines
from headwater.watch_settings import WatchSettings

VERSIONS = 3  # how many versions are compared
_MAX_LINES = 5  # more are not noise
_MAX_LENGTH = 200  # characters; a longer line is content
_MAX_REPLACED = 40  # characters of a line that `*` stands for; more are content
_MIN_LETTERS = 3  # in a pattern with `*`: fewer would ignore too many other lines
_DIGITS = re.compile(r"\d+")


def noisy_lines(texts: Sequence[str], ignore: Sequence[str]) -> tuple[str, ...]:
    """Lines for `ignore` that make all these versions of a page the same; empty: there are none.

    Every version must differ from the one before it in the same few lines.
    """
    versions = [kept_lines(text, ignore) for text in texts]
    if len(versions) < VERSIONS or len({len(lines) for lines in versions}) > 1:
        return ()
    patterns: dict[str, None] = {}  # in the order of the page
    unchanged = []
    for lines in zip(*versions, strict=True):
        if len(set(lines)) == 1:
            unchanged.append(lines[0])
            continue
        pattern = _pattern(lines)
        if pattern is None or any(one == other for one, other in pairwise(lines)):
            return ()
        patterns[pattern] = None
        if len(patterns) > _MAX_LINES:
            return ()
    found = tuple(patterns)
    hides_content = any(map(IgnoredLines(found).match, unchanged))
    return () if hides_content or not _fits(ignore, found) else found


def _fits(ignore: Sequence[str], added: Sequence[str]) -> bool:
    """Whether the setting can have these lines too."""
    try:
        WatchSettings(ignore=(*ignore, *added))
    except ValueError:
        return False
    return True


def _pattern(lines: Sequence[str]) -> str | None:
    """The narrowest pattern that matches all these lines; None if they have too little in common.

    A number becomes `#`, and words that differ in more than their digits become `*`.
    """
    if max(map(len, lines)) > _MAX_LENGTH:
        return None
    texts = [line.split() for line in lines]
    start = list(_common(texts))
    shortest = min(map(len, texts))
    end = list(_common([text[: len(start) - 1 : -1] for text in texts]))[: shortest - len(start)]
    replaced = [text[len(start) : len(text) - len(end)] for text in texts]
    if max(len(" ".join(words)) for words in replaced) > _MAX_REPLACED:
        return None
    pattern = " ".join([*start, *(["*"] if any(replaced) else []), *reversed(end)])
    if "*" in pattern and sum(map(str.isalpha, pattern)) < _MIN_LETTERS:
        return None
    return pattern if all(map(IgnoredLines([pattern]).match, lines)) else None


def _common(texts: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first words, as long as they are the same in all texts but for their digits."""
    for words in zip(*texts, strict=False):
        generalised = {_DIGITS.sub("#", word).casefold() for word in words}
        if len(generalised) > 1:
            return
        are_same = len({word.casefold() for word in words}) == 1
        yield words[0] if are_same else _DIGITS.sub("#", words[0])
