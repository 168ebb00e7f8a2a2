"""Log lines: one event, one line, text or JSON, secrets masked on the way (L1, U6, U7)."""

import logging
import os
import sys
import threading
import traceback
from typing import Any, TextIO

from structlog import BoundLoggerBase

from headwater.clock import Clock, SystemClock
from headwater.logs.lines import Renderer, coloured_line, json_line, text_line
from headwater.logs.masking import printed

__all__ = ["Logger", "configure", "get_logger"]

_FRAMES = -20  # the innermost ones: the line ends before a long traceback does
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Output:
    """Where lines go, and from which level on; all loggers share one, so it can change."""

    def __init__(self) -> None:
        self.level = LEVELS["warning"]
        self.render: Renderer = text_line
        self.stream: TextIO | None = None  # None: whatever standard error is by then
        self.clock: Clock = SystemClock()
        self.lock = threading.RLock()

    def write(self, line: str) -> None:
        """Write a line whole; a stream that is full, closed or gone stops nobody's work."""
        stream = self.stream if self.stream is not None else sys.stderr
        if stream is None:  # a process without standard error
            return
        with self.lock:
            try:
                self._write(stream, line)
            except (OSError, ValueError):
                return

    def renew_lock(self) -> None:
        """Forget a lock that a thread of the parent process may have held."""
        self.lock = threading.RLock()

    @staticmethod
    def _write(stream: TextIO, line: str) -> None:
        try:
            stream.write(line)
        except UnicodeEncodeError:
            stream.write(line.encode("ascii", "backslashreplace").decode("ascii"))
        if not getattr(stream, "line_buffering", False):
            stream.flush()


_output = Output()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_output.renew_lock)


class Logger(BoundLoggerBase):
    """Writes events; one below the level costs a comparison."""

    def debug(self, event: str, **fields: object) -> None:
        """Say what helps to find a fault."""
        if _output.level <= 10:
            self._log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Say what happened."""
        if _output.level <= 20:
            self._log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Say what somebody may want to look at."""
        if _output.level <= 30:
            self._log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Say what went wrong on our side."""
        if _output.level <= 40:
            self._log("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Say what went wrong, with the exception that is being handled."""
        self.error(event, **{"exc_info": True, **fields})

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        # not by structlog's chain of processors: every poll writes a line
        if self._context:
            fields = {**self._context, **fields}
        if "exc_info" in fields:
            _add_traceback(fields)
        text = event if type(event) is str else printed(event)
        _output.write(_output.render(_output.clock.now(), level, text, fields))


def get_logger(**fields: object) -> Logger:
    """A logger whose events all carry these fields; it follows `configure` at any time."""
    return Logger(None, (), fields)


def configure(
    format: str = "text",  # noqa: A002 - the setting's name
    level: str = "info",
    *,
    stream: TextIO | None = None,
    colours: bool = False,
    clock: Clock | None = None,
) -> None:
    """Set form, level and stream of all log lines, those of libraries included."""
    _output.level = LEVELS[level]
    _output.stream = stream
    _output.clock = clock or SystemClock()
    _output.render = json_line if format == "json" else coloured_line if colours else text_line
    root = logging.getLogger()
    for handler in [known for known in root.handlers if isinstance(known, _LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryHandler(logging.WARNING))
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _LibraryHandler(logging.Handler):
    """Takes what libraries tell the standard logging module the way of our own events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of a library."""
        number = min(record.levelno // 10 * 10, LEVELS["critical"])
        if number < _output.level:
            return
        level = next(name for name, value in LEVELS.items() if value == number)
        _library._log(level, _message(record), {"logger": record.name, "exc_info": record.exc_info})


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - whatever a library's arguments do when printed
        return printed(record.msg)


def _add_traceback(fields: dict[str, Any]) -> None:
    """Turn `exc_info` into the text of a traceback."""
    given = fields.pop("exc_info")
    error = given[1] if isinstance(given, tuple) else given
    error = error if isinstance(error, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        fields["exception"] = "".join(traceback.format_exception(error, limit=_FRAMES)).rstrip()


_library = get_logger()
