"""Configuration layers: file, environment and options, each split into single keys.

Every error is one line that names the key and where its value comes from.
"""

import difflib
import json
import os
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headwater.errors import ConfigError
from headwater.model import SourceType
from headwater.rules.url_secrets import masked
from headwater.settings.configuration_keys import (
    FILE_SUFFIX,
    KEYS,
    SECRET_FILES,
    SECRET_KEYS,
    SETTINGS_SHAPE,
    VARIABLE_PREFIX,
    FreeMap,
    KeyGroup,
    KeyPath,
    Leaf,
    SecretFile,
    Shape,
    dotted,
    variable,
)
from headwater.settings.secret_files import read_secret

_FLAG_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_TWICE_AS_FILE = "given twice, as a value and as a file"
_PLAIN = re.compile(r"[\w.*:<>\[\]-]+")
_MAX_SHOWN = 60
_MESSAGES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "value_error": "{error}",
}


@dataclass(slots=True)
class Layers:
    """The values found so far with their origins; later layers override earlier ones."""

    folder: Path = Path()  # that relative paths start from
    found: dict[KeyPath, tuple[object, str]] = field(default_factory=dict)

    def add_file(self, tree: object, origin: str) -> None:
        """Add the keys under `app` of a configuration file."""
        self._add(SETTINGS_SHAPE, tree, (), origin)

    def add_credentials(self, folder: Path) -> None:
        """Add systemd credentials: files that are named like the dotted key of a secret."""
        names = {dotted(_secret_key(path)): path for path in SECRET_FILES}
        for file in sorted(folder.glob("app.*")):
            if file.name not in names:
                hint = _hint(file.name, names)
                raise ConfigError(f"systemd credential {_plain(file.name)}: no secret{hint}")
            path = names[file.name]
            secret, _ = self._from_file(path, str(file), "systemd credential")
            self.found[_secret_key(path)] = (secret, "systemd credential")

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Add every variable that starts with `APP__`; a single key overrides its whole map."""
        names = sorted(name for name in environ if name.startswith(VARIABLE_PREFIX))
        paths = [(*_path_of_variable(name), name) for name in names]
        for path, shape, name in sorted(paths, key=lambda one: len(one[0])):
            text, is_file = environ[name], isinstance(shape, SecretFile)
            if is_file and name.removesuffix("_FILE") in environ:
                raise _error(_secret_key(path), _TWICE_AS_FILE, name)
            value = (text or None) if is_file else _from_text(shape, text, path, name)
            self._add(shape, value, path, name)

    def add_options(self, options: Mapping[str, object]) -> None:
        """Add values by dotted key; None means that the option was not given."""
        for key, value in options.items():
            if value is not None:
                tree = value
                for name in reversed(key.removeprefix("app.").split(".")):
                    tree = {name: tree}
                self._add(SETTINGS_SHAPE, tree, (), "option")

    def tree(self) -> dict[str, object]:
        """All values as one nested mapping."""
        root: dict[str, object] = {}
        for (*sections, name), (value, _) in self.found.items():
            node = root
            for section in sections:
                node = node.setdefault(section, {})  # type: ignore[assignment]
            node[name] = value
        return root

    def _add(self, shape: Shape, value: object, path: KeyPath, origin: str) -> None:
        added: dict[KeyPath, tuple[object, str]] = {}
        for inner, leaf_value in _flat(shape, value, path, origin):
            key, given = inner, (leaf_value, origin)
            if inner in SECRET_FILES:
                if leaf_value is None:
                    continue
                key, given = _secret_key(inner), self._from_file(inner, leaf_value, origin)
            if key in added:
                spellings = "given twice, in two spellings"
                raise _error(key, _TWICE_AS_FILE if key in SECRET_KEYS else spellings, origin)
            added[key] = given
        self.found.update(added)

    def _from_file(self, path: KeyPath, value: object, origin: str) -> tuple[object, str]:
        """The secret in the file that a `…-file` key names, with its origin."""
        if not isinstance(value, str) or not value or "\0" in value:
            raise _error(path, "must be the path of a file", origin)
        try:
            secret = read_secret(self.folder / value, several=not SECRET_FILES[path].secret.is_text)
        except ValueError as error:
            # what names no file may be the secret itself, given by mistake (U6)
            shown = _plain(value) if os.path.exists(self.folder / value) else "the file"
            raise _error(path, f"{shown} {error}", origin) from None
        return secret, f"file {value}"


def _secret_key(path: KeyPath) -> KeyPath:
    """The key of the secret that a `…-file` key belongs to."""
    return (*path[:-1], path[-1].removesuffix(FILE_SUFFIX))


def _flat(
    shape: Shape, value: object, path: KeyPath, origin: str
) -> Iterator[tuple[KeyPath, object]]:
    """Flatten a tree into keys; an empty section sets nothing."""
    if isinstance(shape, Leaf | SecretFile):
        yield path, value
        return
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise _not_a_section(path, value, origin)
    for name, inner in value.items():
        if not isinstance(name, str):
            raise _wrong_value(path, "must have text as keys (use quotes)", name, origin)
        known, below = _step(shape, name, path, origin)
        yield from _flat(below, inner, (*path, known), origin)


def _step(shape: KeyGroup | FreeMap, name: str, path: KeyPath, origin: str) -> tuple[str, Shape]:
    """One level down: the key in its normal form, and the shape below it."""
    if isinstance(shape, KeyGroup):
        if name not in shape.keys:
            raise _unknown_key((*path, name), shape.keys, origin)
        return name, shape.keys[name]
    try:
        return str(shape.key.validate_python(name)), shape.value
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    if problem["type"] == "enum":
        raise _unknown_key((*path, name), SourceType, origin)
    raise _wrong_value((*path, name), f"the key {problem['ctx']['error']}", name, origin)


def _path_of_variable(name: str) -> tuple[KeyPath, Shape]:
    """The key that a variable sets; a key of a free map may follow the map's name."""
    path: KeyPath = ()
    shape: Shape = SETTINGS_SHAPE
    for part in name.removeprefix(VARIABLE_PREFIX).split("__"):
        if isinstance(shape, Leaf | SecretFile):
            raise _unknown_variable(name)
        if isinstance(shape, KeyGroup):
            known = {key.upper().replace("-", "_"): key for key in shape.keys}
            if part not in known:
                raise _unknown_variable(name)
            key, shape = known[part], shape.keys[known[part]]
        elif isinstance(shape.value, KeyGroup) and "_" in part:
            advice = f"a host name cannot be written with _ for dots; set {variable(path)} as JSON"
            raise ConfigError(f"{name}: {advice}", field=name)
        else:
            key, shape = _step(shape, part.lower(), path, name)
        path = (*path, key)
    if isinstance(shape, KeyGroup):  # sections have no variable of their own
        raise _unknown_variable(name)
    return path, shape


def _from_text(shape: Shape, text: str, path: KeyPath, origin: str) -> object:
    """The value of a variable's or option's text."""
    if isinstance(shape, Leaf):
        if shape.is_nullable and text in ("", "null"):
            return None
        if shape.is_text:
            return text
        if shape.is_flag and text.lower() in _FLAG_WORDS:
            return _FLAG_WORDS[text.lower()]

    def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                raise _error(path, f"{json.dumps(name[:60])} is given twice", origin)
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        if isinstance(shape, Leaf):
            return text  # validation reports what is wrong with it
        raise _not_a_section(path, text, origin) from None


def from_validation(
    errors: Sequence[Mapping[str, Any]], found: Mapping[KeyPath, tuple[object, str]]
) -> ConfigError:
    """The first validation error as ours, and how many more there are."""
    first, *more = errors
    path = tuple(first["loc"])
    leaf = path
    while leaf and leaf not in found:
        leaf = leaf[:-1]  # the error is inside a list
    _, origin = found.get(leaf, (None, "default"))
    message = _MESSAGES.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    index = "".join(f"[{part}]" for part in path[len(leaf) :])
    problem = _wrong_value(leaf, message, first["input"], origin, index=index)
    if not more:
        return problem
    return ConfigError(f"{problem}; {len(more)} more like this", field=problem.field)


def _error(path: KeyPath, message: str, origin: str, *, index: str = "") -> ConfigError:
    key = _plain(dotted(path) + index)
    return ConfigError(f"{key}: {message} ({_plain(origin)})", field=key)


def _wrong_value(
    path: KeyPath, message: str, value: object, origin: str, *, index: str = ""
) -> ConfigError:
    """An invalid value; values of secret keys are not shown (U6)."""
    shown = "" if path in SECRET_KEYS else f", not {_shown(value)}"
    return _error(path, f"{message}{shown}", origin, index=index)


def _not_a_section(path: KeyPath, value: object, origin: str) -> ConfigError:
    """A plain value where a section belongs; only its kind is shown: it may be a secret."""
    kind = "a list" if isinstance(value, list | tuple) else "a single value"
    return _error(path, f"must have keys, not {kind}", origin)


def _unknown_key(path: KeyPath, known: Iterable[str], origin: str) -> ConfigError:
    """An unknown key, with the most similar known one."""
    return _error(path, f"unknown key{_hint(path[-1], known)}", origin)


def _unknown_variable(name: str) -> ConfigError:
    """A variable with our prefix that matches no key; a free map is one variable."""
    known = {variable(tuple(part for part in path if "<" not in part)[:2]) for path in KEYS}
    name = _plain(name)
    return ConfigError(f"{name}: unknown variable{_hint(name, known)}", field=name)


def _shown(value: object) -> str:
    if isinstance(value, str):
        text = masked(value[: 4 * _MAX_SHOWN])
        return json.dumps(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return _plain(reprlib.repr(value), _MAX_SHOWN)


def _plain(text: str, longest: int = 200) -> str:
    """Text from a file or the environment, escaped and truncated to one line."""
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
