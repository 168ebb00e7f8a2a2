"""The command line: every command reads input, calls one operation and shows the answer."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import typer
from typer.exceptions import TyperException

from headwater.cli.arguments import OPTIONS, hoisted, in_plain_words
from headwater.cli.program import create_program
from headwater.errors import AlreadyPolling, HeadwaterError, UsageError
from headwater.logs.masking import without_secrets
from headwater.rules.failure import one_line

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_LONGEST_LINE = 2000


def main(args: Sequence[str] | None = None) -> int:
    """Run a command and answer its exit code; an error is one line, never a traceback."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        code = _let_go_of_output()
    except (KeyboardInterrupt, asyncio.CancelledError):  # Ctrl-C twice may end as the latter
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever happens, a person gets one line (H4)
        code = _told(error)
    return code


def _run(args: list[str]) -> int:
    try:
        answer = create_program()(hoisted(args), prog_name="headwater", standalone_mode=False)
    except SystemExit as exit_:  # rich and typer leave like this when the reader went away
        return exit_.code if isinstance(exit_.code, int) else FAILED
    return answer if isinstance(answer, int) else 0


def _told(error: BaseException) -> int:
    """Say what is wrong in one line on standard error and answer the exit code."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message, code = _meaning(error)
    if isinstance(error, typer.Abort) and isinstance(error.__context__, EOFError):
        typer.echo(err=True)  # nobody there has ended the line of the question
    if message:
        with suppress(OSError, ValueError):  # nobody reads it
            sys.stderr.write(f"headwater: {without_secrets(message)}\n")
            sys.stderr.flush()
    return code


def _meaning(error: BaseException) -> tuple[str, int]:
    match error:
        case KeyboardInterrupt():
            return "", INTERRUPTED
        case typer.Abort(__context__=KeyboardInterrupt()):  # Ctrl-C at a prompt
            return "", INTERRUPTED
        case typer.Abort():
            return "nothing was done", FAILED
        case TyperException():
            message = in_plain_words(" ".join(error.format_message().split()))
            hint = "" if "--help" in message else " (--help shows how)"
            return message.removesuffix(".") + hint, error.exit_code
        case UsageError(field=str(field)) if field in OPTIONS:
            message = one_line(error, _LONGEST_LINE)
            return message.replace(field, OPTIONS[field], 1), WRONG_USAGE
        case UsageError() | AlreadyPolling():
            return one_line(error, _LONGEST_LINE), WRONG_USAGE
        case HeadwaterError():
            return one_line(error, _LONGEST_LINE), FAILED
        case OSError(strerror=str(reason), filename=str(name)):
            return one_line(HeadwaterError(f"{name}: {reason}"), _LONGEST_LINE), FAILED
        case Exception():
            return one_line(error, _LONGEST_LINE), FAILED
    return type(error).__name__, FAILED


def _let_go_of_output() -> int:
    """The reader went away: write nothing more, and let nobody complain at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
