"""Logging: one event per line, as text or JSON, with secrets masked (L1, U6, U7)."""

import logging
import os
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, Self, TextIO

from headwater.clock import Clock, SystemClock
from headwater.logs.formatting import Renderer, coloured_line, json_line, text_line
from headwater.logs.masking import printed

__all__ = ["Logger", "Output", "configure", "get_logger", "output"]

_FRAMES = -20  # the innermost frames; a longer traceback is truncated
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Output:
    """Destination and level of log lines; all loggers share one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.level = LEVELS["warning"]
        self.render: Renderer = text_line
        self.stream = stream  # None: the current sys.stderr
        self.clock: Clock = SystemClock()
        self.lock = threading.RLock()

    def write(self, line: str) -> None:
        """Write one line atomically; a full or closed stream is ignored."""
        stream = self.stream if self.stream is not None else sys.stderr
        if stream is None:  # a process without standard error
            return
        with self.lock, suppress(OSError, ValueError):
            try:
                stream.write(line)
            except UnicodeEncodeError:
                stream.write(line.encode("ascii", "backslashreplace").decode("ascii"))
            if not getattr(stream, "line_buffering", False):
                stream.flush()

    def renew_lock(self) -> None:
        """Replace the lock after fork: a thread of the parent may have held it."""
        self.lock = threading.RLock()


output = Output()
os.register_at_fork(after_in_child=output.renew_lock)


class Logger:
    """Writes events; one below the level costs only a comparison."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def bind(self, **fields: object) -> Self:
        """Return a logger whose events carry these fields as well."""
        return type(self)({**self._fields, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail for debugging."""
        if output.level <= 10:
            self._log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event."""
        if output.level <= 20:
            self._log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log a problem that may need attention."""
        if output.level <= 30:
            self._log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log an error of the program itself."""
        if output.level <= 40:
            self._log("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the exception being handled."""
        self.error(event, **{"exc_info": True, **fields})

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if self._fields:
            fields = {**self._fields, **fields}
        if "exc_info" in fields:
            _add_traceback(fields)
        text = event if type(event) is str else printed(event)
        output.write(output.render(output.clock.now(), level, text, fields))


def get_logger(**fields: object) -> Logger:
    """A logger that adds these fields to every event."""
    return Logger(fields)


def configure(
    format: str = "text",  # noqa: A002 - the setting's name
    level: str = "info",
    *,
    stream: TextIO | None = None,
    colours: bool = False,
    clock: Clock | None = None,
) -> None:
    """Set format, level and stream of all log lines, including those of libraries."""
    output.level = LEVELS[level]
    output.stream = stream
    output.clock = clock or SystemClock()
    output.render = json_line if format == "json" else coloured_line if colours else text_line
    root = logging.getLogger()
    for handler in [known for known in root.handlers if isinstance(known, _LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryHandler(logging.WARNING))
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _LibraryHandler(logging.Handler):
    """Forwards records of the standard logging module to our output."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        number = min(record.levelno // 10 * 10, LEVELS["critical"])
        if number < output.level:
            return
        level = next(name for name, value in LEVELS.items() if value == number)
        _library._log(level, _message(record), {"logger": record.name, "exc_info": record.exc_info})


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - formatting a library's arguments may raise anything
        return printed(record.msg)


def _add_traceback(fields: dict[str, Any]) -> None:
    """Turn `exc_info` into the text of a traceback."""
    given = fields.pop("exc_info")
    error = given[1] if isinstance(given, tuple) else given
    error = error if isinstance(error, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        fields["exception"] = "".join(traceback.format_exception(error, limit=_FRAMES)).rstrip()


_library = get_logger()
