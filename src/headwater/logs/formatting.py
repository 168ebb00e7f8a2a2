"""Formats an event and its fields as one line of text or JSON (U7)."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from headwater.logs.masking import MAX_INT, plain, printed, without_secrets
from headwater.rules.admission import timestamp

Fields = Mapping[str, object]
Renderer = Callable[[datetime, str, str, Fields], str]

# control characters, line separators, bidirectional controls, lone surrogates
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_RESERVED = ("time", "level", "event")
_COLOURS = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}
_json = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def text_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """`2026-02-16T08:00:00.000Z info [Polling] stored url=https://… new_posts=3`."""
    line = f"{timestamp(moment)} {level} {_event(event)}"
    for name, value in fields.items():
        line += f" {_name(name)}={_value(name, value)}"
    return line + "\n"


def coloured_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """The same line with colours for a terminal."""
    named = f"\x1b[{_COLOURS.get(level, 0)}m{level}\x1b[0m"
    line = f"\x1b[2m{timestamp(moment)}\x1b[0m {named} \x1b[1m{_event(event)}\x1b[0m"
    for name, value in fields.items():
        line += f" \x1b[2m{_name(name)}=\x1b[0m{_value(name, value)}"
    return line + "\n"


def json_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """A JSON object on one line of ASCII."""
    line: dict[str, object] = {
        "time": timestamp(moment),
        "level": level,
        "event": without_secrets(event),
    }
    for name, value in fields.items():
        line[f"{name}_" if name in _RESERVED else name] = plain(name, value)
    return _json(line).replace("\x7f", "\\u007f") + "\n"


@lru_cache(maxsize=256)
def _event(text: str) -> str:
    """The event text, masked and escaped; cached, because there are few distinct ones."""
    return escaped(without_secrets(text))


def escaped(text: str) -> str:
    """Text with control characters escaped, so that it stays on one line."""
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def _name(name: str) -> str:
    return name if name.isidentifier() else escaped(printed(name)).replace(" ", "_")


def _value(name: str, value: object) -> str:
    if type(value) is int and -MAX_INT <= value < MAX_INT:
        return str(value)  # most fields are counts
    shown = plain(name, value)
    if isinstance(shown, str):
        is_word = shown.isprintable() and not (" " in shown or '"' in shown or "\\" in shown)
        return shown if shown and is_word else _quoted(shown)
    if isinstance(shown, list | dict):
        return _quoted(_json(shown))
    return _json(shown)


def _quoted(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(doubled)}"'


def _escape(match: re.Match[str]) -> str:
    return "\\e" if match[0] == "\x1b" else match[0].encode("unicode_escape").decode()
