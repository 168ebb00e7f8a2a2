"""What the command line prints for an error, and the exit code."""

import re
import sys
from contextlib import suppress

import typer
from typer.exceptions import TyperException

from headwater.errors import AlreadyPolling, HeadwaterError, UsageError
from headwater.logs.masking import without_secrets
from headwater.rules.failure_kinds import one_line
from headwater.source_settings import SETTINGS

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_MAX_LINE = 2000
_OPTIONS = {  # by the field name in a UsageError
    **{setting.name: setting.option for setting in SETTINGS.values() if setting.kind is int},
    "maxArticleAgeDays": "--max-article-age-days",
}
_PHRASES = (  # of typer and pydantic, and plainer ones
    (r"Invalid value for '([^']+)': (?:Input should|must) be ", r"\1 must be "),
    (r"Invalid value for '([^']+)': ", r"\1: "),
    (r"a valid (?:integer|int)\b(?:, unable to parse.*)?", "a whole number"),
    (r"a valid (?:number|float)\b(?:, unable to parse.*)?", "a number"),
    (r"greater than or equal to", "at least"),
    (r"less than or equal to", "at most"),
    (r"Value error, ", ""),
    (r"Input should be ", "must be "),
)


def report(error: BaseException) -> int:
    """Print one line about an error on standard error and return the exit code."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message, code = _message_and_code(error)
    if isinstance(error, typer.Abort) and isinstance(error.__context__, EOFError):
        typer.echo(err=True)  # end the line of the unanswered prompt
    if message:
        with suppress(OSError, ValueError):  # standard error may be closed
            sys.stderr.write(f"headwater: {without_secrets(message)}\n")
            sys.stderr.flush()
    return code


def _message_and_code(error: BaseException) -> tuple[str, int]:
    match error:
        case KeyboardInterrupt():
            return "", INTERRUPTED
        case typer.Abort(__context__=KeyboardInterrupt()):  # Ctrl-C at a prompt
            return "", INTERRUPTED
        case typer.Abort():
            return "nothing was done", FAILED
        case TyperException():
            message = " ".join(error.format_message().split())
            for phrase, plain in _PHRASES:
                message = re.sub(phrase, plain, message)
            hint = "" if "--help" in message else " (--help shows how)"
            return message.removesuffix(".") + hint, error.exit_code
        case UsageError(field=str(field)) if field in _OPTIONS:
            message = one_line(error, _MAX_LINE)
            return message.replace(field, _OPTIONS[field], 1), WRONG_USAGE
        case UsageError() | AlreadyPolling():
            return one_line(error, _MAX_LINE), WRONG_USAGE
        case OSError(strerror=str(reason), filename=str(name)):
            return one_line(HeadwaterError(f"{name}: {reason}"), _MAX_LINE), FAILED
        case Exception():
            return one_line(error, _MAX_LINE), FAILED
    return type(error).__name__, FAILED
