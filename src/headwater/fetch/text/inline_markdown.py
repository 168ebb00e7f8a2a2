"""Renders the runs of text of one paragraph as Markdown: emphasis, code and links (T1)."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from string import punctuation

from headwater.rules.markdown_text import escaped, markdown_link

EMPHASIS, STRONG, CODE = 1, 2, 4  # flags of a run; the first two are the number of asterisks
LINE_BREAK = "\n"

# Flags, the target of a link, and text with single spaces. A line break is a run of its own.
Run = tuple[int, str | None, str]

_OPEN = frozenset(("", " ", LINE_BREAK, *punctuation)) - {"*"}  # before or after any emphasis
_BACKTICKS = re.compile("`+")


def inline_markdown(runs: Sequence[Run]) -> str:
    """The runs as one text; line breaks stay newlines."""
    if len(runs) == 1 and not runs[0][0] and runs[0][1] is None:
        return escaped(runs[0][2])  # most paragraphs
    output = ""
    pieces: list[str] = []
    groups = [(link, list(group)) for link, group in groupby(runs, key=itemgetter(1))]
    for index, (link, group) in enumerate(groups):
        before = output[-1:]
        is_plain = len(group) == 1 and not group[0][0]  # most are
        if link is None:
            after = "[" if index + 1 < len(groups) else ""
            marked = "" if is_plain else "".join(_emphasised(group, before, after))
            output = escaped(group[0][2]) if is_plain else marked
        else:
            if before == "!":  # or it would become an image
                pieces[-1] = f"{pieces[-1][:-1]}\\!"
            inside = escaped(group[0][2]) if is_plain else "".join(_emphasised(group, "[", "]"))
            output = _link(link, inside)
        pieces.append(output)
    return "".join(pieces)


def _link(url: str, text: str) -> str:
    inside = text.strip(" \n").replace(LINE_BREAK, " ")
    if not inside:
        return text
    start = " " if text[0] in " \n" else ""
    end = " " if text[-1] in " \n" else ""
    return f"{start}{markdown_link(inside, url)}{end}"


def _emphasised(runs: Sequence[Run], before: str, end: str) -> Iterator[str]:
    """The runs between two characters; adjacent runs with the same flags become one."""
    merged: list[tuple[int, str]] = []
    for flags, _, text in runs:
        if merged and merged[-1][0] == flags:
            merged = _joined(runs)
            break
        merged.append((flags, text))
    for index, (flags, text) in enumerate(merged):
        after = merged[index + 1][1][:1] if index + 1 < len(merged) else end
        for piece in _lines(flags, text, before, after) if flags else (escaped(text),):
            yield piece
            before = piece[-1:] or before


def _joined(runs: Sequence[Run]) -> list[tuple[int, str]]:
    groups = groupby(runs, key=itemgetter(0))
    return [(flags, "".join(map(itemgetter(2), same))) for flags, same in groups]


def _lines(flags: int, text: str, before: str, after: str) -> Iterator[str]:
    """Emphasis and code end before a line break and begin again after it."""
    if text[:1] not in " \n" and text[-1:] != " " and LINE_BREAK not in text:
        yield _marked(flags, text, before, after)
        return
    lines = text.split(LINE_BREAK)
    last = len(lines) - 1
    for index, line in enumerate(lines):
        if index:
            yield LINE_BREAK
        inside = line.strip(" ")
        if not inside:
            yield line
            continue
        first = " " if line[0] == " " else LINE_BREAK if index else before
        next_ = " " if line[-1] == " " else LINE_BREAK if index < last else after
        start = " " if line[0] == " " else ""
        end = " " if line[-1] == " " else ""
        yield f"{start}{_marked(flags, inside, first, next_)}{end}"


def _marked(flags: int, text: str, before: str, after: str) -> str:
    if flags & CODE:
        return _code(text)
    text = escaped(text)
    # Otherwise CommonMark would show the asterisks (its rule for flanking delimiters).
    opens = (text[0].isalnum() and before != "*") or before in _OPEN
    closes = text[-1].isalnum() or after in _OPEN or after == "*"
    marker = "*" * flags if opens and closes else ""
    return f"{marker}{text}{marker}"


def _code(text: str) -> str:
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{padding}{text}{padding}{fence}"
