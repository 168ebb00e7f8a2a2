"""One clear line for whatever is wrong with a setting."""

import difflib
import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.errors import ConfigError
from headwater.rules.urls import masked
from headwater.settings.shape import Path, dotted

SECRET_KEYS = frozenset(
    {
        ("database-url",),
        ("fetch", "proxy"),
        ("encryption", "master-key"),
        ("encryption", "old-master-keys"),
    }
)
_PLAIN = re.compile(r"[\w.*:<>\[\]-]+")
_LONGEST = 60
_SENTENCES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "enum": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "value_error": "{error}",
}


def wrong_value(
    path: Path, sentence: str, value: object, origin: str, *, index: str = ""
) -> ConfigError:
    """A key has a value it cannot have; secrets are not repeated (U6)."""
    shown = "" if path in SECRET_KEYS else f", not {_shown(value)}"
    key = _plain(dotted(path) + index)
    return ConfigError(f"{key}: {sentence}{shown} ({_plain(origin)})", field=key)


def not_a_section(path: Path, value: object, origin: str) -> ConfigError:
    """A plain value where keys belong; it may be a secret in the wrong place, so its kind only."""
    kind = "a list" if isinstance(value, list | tuple) else "a single value"
    key = _plain(dotted(path))
    return ConfigError(f"{key}: must have keys, not {kind} ({_plain(origin)})", field=key)


def unknown_key(path: Path, known: Iterable[str], origin: str) -> ConfigError:
    """A key nobody knows, with the one that was probably meant."""
    *_, name = path
    key = _plain(dotted(path))
    return ConfigError(f"{key}: unknown key{_hint(name, known)} ({_plain(origin)})", field=key)


def unknown_variable(name: str, known: Iterable[str]) -> ConfigError:
    """A variable with our prefix that stands for no key."""
    return ConfigError(f"{_plain(name)}: unknown variable{_hint(name, known)}", field=_plain(name))


def from_validation(
    errors: Sequence[Mapping[str, Any]], found: Mapping[Path, tuple[object, str]]
) -> ConfigError:
    """The first of a validation's errors as our own, and how many more there are."""
    first, *more = errors
    path = tuple(first["loc"])
    leaf = path
    while leaf and leaf not in found:
        leaf = leaf[:-1]  # the error lies within a list
    _, origin = found.get(leaf, (None, "default"))
    context = {name: _number(part) for name, part in first.get("ctx", {}).items()}
    sentence = _SENTENCES.get(first["type"], first["msg"]).format(**context)
    index = "".join(f"[{part}]" for part in path[len(leaf) :])
    problem = wrong_value(leaf, sentence, first["input"], origin, index=index)
    if not more:
        return problem
    return ConfigError(f"{problem}; {len(more)} more like this", field=problem.field)


def _shown(value: object) -> str:
    if isinstance(value, str):
        text = masked(value[: 4 * _LONGEST])
        return json.dumps(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return _plain(reprlib.repr(value), _LONGEST)


def _number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(text: str, longest: int = 200) -> str:
    """Text from a file or the environment on one line, without surprises."""
    if _PLAIN.fullmatch(text) and len(text) <= longest:
        return text
    return json.dumps(text[:longest])[1:-1].replace('\\"', '"')


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    for spelling in (name, name.replace("_", "-")):
        close = difflib.get_close_matches(spelling, names, n=1)
        if close:
            return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= 12 else ""
