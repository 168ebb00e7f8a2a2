"""Turns an event and its fields into one line, as text or as JSON (U7)."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from headwater.logs.masking import LARGEST, plain, printed, without_secrets

Fields = Mapping[str, object]
Renderer = Callable[[datetime, str, str, Fields], str]

# control characters, line separators, marks that reorder text, and what no encoding can write
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}
_RESERVED = ("time", "level", "event")
_COLOURS = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}
_json = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def text_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """`2026-02-16T08:00:00.000Z info [Polling] stored url=https://… new_posts=3`."""
    line = f"{_time(moment)} {level} {_event(event)}"
    for name, value in fields.items():
        line += f" {_name(name)}={_value(name, value)}"
    return line + "\n"


def coloured_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """The same line with colours for a terminal."""
    bold = f"\x1b[1m{_event(event)}\x1b[0m"
    named = f"\x1b[{_COLOURS.get(level, 0)}m{level}\x1b[0m"
    parts = [f"\x1b[2m{_time(moment)}\x1b[0m", named, bold]
    for name, value in fields.items():
        parts.append(f"\x1b[2m{_name(name)}=\x1b[0m{_value(name, value)}")
    return " ".join(parts) + "\n"


def json_line(moment: datetime, level: str, event: str, fields: Fields) -> str:
    """An object on one line of ASCII; JSON's own escapes keep every character readable."""
    line: dict[str, object] = {
        "time": _time(moment),
        "level": level,
        "event": without_secrets(event),
    }
    for name, value in fields.items():
        line[f"{name}_" if name in _RESERVED else name] = plain(name, value)
    return _json(line).replace("\x7f", "\\u007f") + "\n"


@lru_cache(maxsize=256)
def _event(text: str) -> str:
    """An event's own text, safe to write; a program has few of them and says them often."""
    return escaped(without_secrets(text))


def escaped(text: str) -> str:
    """Text that stays on its line and leaves the terminal alone."""
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def _time(at: datetime) -> str:
    second = _second(at.year, at.month, at.day, at.hour, at.minute, at.second)
    return f"{second}.{at.microsecond // 1000:03}Z"


@lru_cache(maxsize=8)
def _second(year: int, month: int, day: int, hour: int, minute: int, second: int) -> str:
    """A moment up to its second, which many lines share."""
    return datetime(year, month, day, hour, minute, second).isoformat()  # noqa: DTZ001 - of UTC


def _name(name: str) -> str:
    return name if name.isidentifier() else escaped(printed(name)).replace(" ", "_")


def _value(name: str, value: object) -> str:
    if type(value) is int and -LARGEST <= value < LARGEST:
        return repr(value)  # most fields are counts
    shown = plain(name, value)
    if isinstance(shown, str):
        is_word = shown.isprintable() and not (" " in shown or '"' in shown or "\\" in shown)
        return shown if shown and is_word else _quoted(shown)
    if isinstance(shown, list | dict):
        return _quoted(_json(shown))
    return repr(shown) if type(shown) in (int, float) else _json(shown)


def _quoted(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(doubled)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
