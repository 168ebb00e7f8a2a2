"""Lines of a page that are not part of its identity (W4)."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[\d#]*#[\d#]*")
_MAX_LINE = 1_000  # characters; a longer line is content


class IgnoredLines:
    """Matches lines by their whole text: `*` is any text, `#` is digits, case does not matter.

    Matching is linear in the line: each part between asterisks is searched for once, and the digits
    for `#` are tried only where a number starts.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]

    def match(self, line: str) -> bool:
        """Whether one of the patterns matches the line."""
        if len(line) > _MAX_LINE:
            return False
        text = on_one_line(line).casefold()
        return any(_is_match(parts, text) for parts in self._patterns)


def identity_text(page_text: str, ignore: Sequence[str]) -> str:
    """The text of a page without ignored lines, on one line: what its hash is made of.

    If no line is ignored, this is the body of the page.
    """
    return on_one_line("\n".join(kept_lines(page_text, ignore)))


def on_one_line(page_text: str) -> str:
    """The text of a page without its structure: lines, and tabs between the cells of a row."""
    return page_text.replace("\n", " ").replace("\t", " ")


def kept_lines(page_text: str, ignore: Sequence[str]) -> list[str]:
    """The lines of a page that are not ignored."""
    lines = page_text.split("\n")
    if not ignore:
        return lines
    ignored = IgnoredLines(ignore)
    return [line for line in lines if not ignored.match(line)]


def _compiled(pattern: str) -> list[re.Pattern[str]]:
    """One expression for each part between asterisks; the last one extends to the end."""
    parts = [_expression(part) for part in " ".join(pattern.casefold().split()).split("*")]
    return [re.compile(part) for part in (*parts[:-1], rf"{parts[-1]}\Z")]


def _expression(part: str) -> str:
    expression, position = "", 0
    for number in _NUMBER.finditer(part):
        first, *_, last = number[0].split("#")
        # a whole number: otherwise each digit of a long one would start another attempt
        digits = rf"(?<!\d){first}\d+{last}(?!\d)" if last else rf"(?<!\d){first}\d++"
        expression += re.escape(part[position : number.start()]) + digits
        position = number.end()
    return expression + re.escape(part[position:])


def _is_match(parts: list[re.Pattern[str]], text: str) -> bool:
    found = parts[0].match(text)
    for part in parts[1:]:
        if found is None:
            return False
        found = part.search(text, found.end())
    return found is not None
