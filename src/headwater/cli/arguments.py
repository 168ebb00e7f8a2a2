"""The arguments of a call: global options stand anywhere, and mistakes are told plainly."""

import re
from collections.abc import Sequence

from headwater.errors import UsageError

WITH_VALUE = ("--config", "--database-url", "--user", "--podcast", "--log-level")
WITHOUT_VALUE = ("--version",)
OPTIONS = {  # by the name of the field that an error is about
    "poll_interval_minutes": "--interval",
    "poll_delay_seconds": "--delay",
    "max_failures": "--max-failures",
    "max_backoff_hours": "--max-backoff-hours",
    "late_entry_hours": "--late-entry-hours",
    "maxArticleAgeDays": "--max-article-age-days",
}
_PHRASES = (
    (r"Invalid value for '([^']+)': (?:Input should|must) be ", r"\1 must be "),
    (r"Invalid value for '([^']+)': ", r"\1: "),
    (r"a valid (?:integer|int)\b(?:, unable to parse.*)?", "a whole number"),
    (r"a valid (?:number|float)\b(?:, unable to parse.*)?", "a number"),
    (r"greater than or equal to", "at least"),
    (r"less than or equal to", "at most"),
    (r"Value error, ", ""),
    (r"Input should be ", "must be "),
)


def hoisted(args: Sequence[str]) -> list[str]:
    """The arguments with all global options moved to the front; what follows `--` stays."""
    front: list[str] = []
    rest: list[str] = []
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        name, equals, _ = word.partition("=")
        if word == "--":
            return [*front, *rest, word, *waiting]
        if word in WITHOUT_VALUE or (equals and name in WITH_VALUE):
            front.append(word)
        elif word in WITH_VALUE:
            if not waiting:
                raise UsageError(f"the option {word} needs a value")
            front += [word, waiting.pop(0)]
        else:
            rest.append(word)
    return front + rest


def in_plain_words(message: str) -> str:
    """A message of the library that checks arguments, as people would say it."""
    for phrase, plain in _PHRASES:
        message = re.sub(phrase, plain, message)
    return message
