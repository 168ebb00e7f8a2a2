"""Lets the global options stand before or after the command."""

from collections.abc import Sequence

from headwater.errors import UsageError

WITH_VALUE = ("--config", "--database-url", "--user", "--podcast", "--log-level")
WITHOUT_VALUE = ("--version",)


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
