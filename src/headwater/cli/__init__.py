"""The command line: every command reads input, calls one operation and prints the result."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from headwater.cli.program import create_program
from headwater.errors import UsageError

FAILED, INTERRUPTED = 1, 130
_GLOBAL_OPTIONS = ("--config", "--database-url", "--user", "--podcast", "--log-level")


def main(args: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one line, never a traceback."""
    try:
        given = hoisted(sys.argv[1:] if args is None else args)
        code = create_program().main(given, prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # discard further output, so that exit prints nothing
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except SystemExit as exit_:  # raised by rich and typer when the reader closes the pipe
        return exit_.code if isinstance(exit_.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - any error must end as one line (H4)
        from headwater.cli.error_report import report  # imports what completion does without

        return report(error)
    return code if isinstance(code, int) else 0


def hoisted(args: Sequence[str]) -> list[str]:
    """Return the arguments with all global options moved to the front, up to `--`."""
    front: list[str] = []
    rest: list[str] = []
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        name, equals, _ = word.partition("=")
        if word == "--":
            return [*front, *rest, word, *waiting]
        if word == "--version" or (equals and name in _GLOBAL_OPTIONS):
            front.append(word)
        elif word in _GLOBAL_OPTIONS:
            if not waiting:
                raise UsageError(f"the option {word} needs a value")
            front += [word, waiting.pop(0)]
        else:
            rest.append(word)
    return front + rest
