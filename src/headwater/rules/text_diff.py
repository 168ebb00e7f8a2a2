"""Differences between two versions of a text, sentence by sentence, in bounded time (W5).

Sentences that occur once in both versions are matched first (patience diff), then the gaps between
them in the same way. What is left is compared with Myers' algorithm as long as a budget of steps
lasts; the rest counts as replaced. So the time is nearly linear in the length of the texts.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

# Where a text is split: at line breaks, and at spaces after the end of a sentence. A stop after
# one or two letters with a capital is an abbreviation (`Dr.`, `J.`). A row of a table, whose cells
# are separated by tabs, stays together.
_LINE_END = re.compile(r"(\n\s*+)")
_SENTENCE_END = re.compile(
    r"""((?:(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)|(?<=[.!?…]["'”’»)\]]))\s++
    |(?<=[。！？])(?=\S))""",
    re.VERBOSE,
)
_MAX_DEPTH = 20  # of gaps within gaps
_MAX_STEPS = 300_000  # of Myers' algorithm, for all gaps of a text
_Match = tuple[int, int]  # indices of equal tokens in the old and the new text
_Token = tuple["DiffOp", str]


class DiffOp(StrEnum):
    """What happened to a part of a text."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class DiffPart:
    """Consecutive sentences that are in both versions, or in one of them."""

    op: DiffOp
    text: str


def text_diff(old: str, new: str) -> list[DiffPart]:
    """The parts of both texts in order; what is removed comes before what replaces it.

    Same and added parts make up the new text, same and removed parts the old one.
    """
    runs = groupby(_compared(old, new), key=itemgetter(0))
    return [DiffPart(op, "".join(text for _, text in run)) for op, run in runs]


def additions(old: str, new: str) -> str:
    """The sentences that only the new text has, as lines; one that was moved is not new."""
    compared = _compared(old, new)
    moved = Counter(text for op, text in compared if op is DiffOp.REMOVED)
    lines = [""]
    for op, text in compared:
        if op is DiffOp.REMOVED:
            continue
        if text.isspace() or (op is DiffOp.ADDED and moved[text] <= 0):
            lines[-1] += text
            continue
        moved[text] -= op is DiffOp.ADDED
        lines.append("")
    return "\n".join(filter(None, (line.strip() for line in lines)))


def _compared(old: str, new: str) -> list[_Token]:
    """The tokens of both texts in order."""
    olds, news = _tokens(old), _tokens(new)
    result: list[_Token] = []
    old_at = new_at = 0
    for old_index, new_index in [*_matches(olds, news), (len(olds), len(news))]:
        result += ((DiffOp.REMOVED, text) for text in olds[old_at:old_index])
        result += ((DiffOp.ADDED, text) for text in news[new_at:new_index])
        result += ((DiffOp.SAME, text) for text in news[new_index : new_index + 1])
        old_at, new_at = old_index + 1, new_index + 1
    return result


def _tokens(text: str) -> list[str]:
    """The sentences and the spaces between them, which together are the text.

    A sentence is the same whatever follows it, so the spaces are tokens of their own.
    """
    lines = _LINE_END.split(text)
    split = ([line] if "\t" in line else _SENTENCE_END.split(line) for line in lines)
    return [token for tokens in split for token in tokens if token]


def _matches(olds: Sequence[str], news: Sequence[str]) -> list[_Match]:
    """Pairs of equal tokens, both indices increasing."""
    numbers: dict[str, int] = {}  # numbers are compared faster than sentences
    old = [numbers.setdefault(token, len(numbers)) for token in olds]
    new = [numbers.setdefault(token, len(numbers)) for token in news]
    found: list[_Match] = []
    steps_left = _MAX_STEPS
    gaps = [(0, len(old), 0, len(new), 0)]
    while gaps:
        old_from, old_to, new_from, new_to, depth = gaps.pop()
        while old_from < old_to and new_from < new_to and old[old_from] == new[new_from]:
            found.append((old_from, new_from))
            old_from, new_from = old_from + 1, new_from + 1
        while old_from < old_to and new_from < new_to and old[old_to - 1] == new[new_to - 1]:
            old_to, new_to = old_to - 1, new_to - 1
            found.append((old_to, new_to))
        if old_from == old_to or new_from == new_to:
            continue
        old_part, new_part = old[old_from:old_to], new[new_from:new_to]
        anchors = _common_unique(old_part, new_part) if depth < _MAX_DEPTH else []
        if not anchors:
            within, steps_left = _shortest_edit(old_part, new_part, steps_left)
            found += ((old_from + i, new_from + j) for i, j in within)
            continue
        found += ((old_from + i, new_from + j) for i, j in anchors)
        for (i, j), (next_i, next_j) in zip(
            [(-1, -1), *anchors], [*anchors, (len(old_part), len(new_part))], strict=True
        ):
            gap = (old_from + i + 1, old_from + next_i, new_from + j + 1, new_from + next_j)
            gaps.append((*gap, depth + 1))
    return sorted(found)


def _common_unique(old: Sequence[int], new: Sequence[int]) -> list[_Match]:
    """The longest increasing sequence of pairs of tokens that occur once in each part."""
    in_old, in_new = Counter(old), Counter(new)
    positions = {token: i for i, token in enumerate(old) if in_old[token] == 1}
    pairs = [(positions[t], j) for j, t in enumerate(new) if in_new[t] == 1 and t in positions]
    ends: list[int] = []  # the smallest last index of a sequence of each length
    last: list[int] = []  # the pair at that end
    previous: list[int] = []  # of each pair, the pair before it
    for number, (i, _) in enumerate(pairs):
        length = bisect_left(ends, i)
        ends[length : length + 1] = [i]
        last[length : length + 1] = [number]
        previous.append(last[length - 1] if length else -1)
    chain: list[_Match] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _shortest_edit(
    old: Sequence[int], new: Sequence[int], steps_left: int
) -> tuple[Iterable[_Match], int]:
    """The matches of a shortest edit (Myers), none if it needs too many steps; the steps left."""
    furthest = {1: 0}  # by diagonal, the index in `old` that was reached
    trace: list[dict[int, int]] = []
    for distance in range(len(old) + len(new) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-distance, distance + 1, 2):
            i, _ = _step(furthest, diagonal, distance)
            start, j = i, i - diagonal
            while i < len(old) and j < len(new) and old[i] == new[j]:
                i, j = i + 1, j + 1
            steps_left -= 1 + i - start
            furthest[diagonal] = i
            if i >= len(old) and j >= len(new):
                return _backtracked(trace, len(old), len(new)), steps_left
        if steps_left <= 0:
            break
    return (), steps_left


def _step(furthest: dict[int, int], diagonal: int, distance: int) -> tuple[int, int]:
    """The index in `old` where a diagonal starts after this many changes, and the one before it."""
    is_added = diagonal == -distance or (
        diagonal != distance and furthest[diagonal - 1] < furthest[diagonal + 1]
    )
    if is_added:
        return furthest[diagonal + 1], diagonal + 1
    return furthest[diagonal - 1] + 1, diagonal - 1


def _backtracked(trace: Sequence[dict[int, int]], i: int, j: int) -> list[_Match]:
    """The matches on the way to the ends of both parts."""
    found: list[_Match] = []
    for distance in range(len(trace) - 1, -1, -1):
        diagonal = i - j
        start, previous = _step(trace[distance], diagonal, distance)
        while i > start:
            i, j = i - 1, j - 1
            found.append((i, j))
        i, j = (i, j - 1) if previous > diagonal else (i - 1, j)
    return found
