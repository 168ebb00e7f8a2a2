"""Where values come from: the file, the environment and options, each as single keys."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from headwater.errors import ConfigError
from headwater.settings.problems import (
    not_a_section,
    unknown_key,
    unknown_variable,
    wrong_value,
)
from headwater.settings.shape import (
    SETTINGS_SHAPE,
    VARIABLE_PREFIX,
    FreeMap,
    Group,
    Leaf,
    Path,
    Shape,
    dotted,
    leaves,
    variable,
)

OPTION = "option"
_ON = ("true", "yes", "on", "1")
_OFF = ("false", "no", "off", "0")
_FLAG_WORDS = {**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)}


@dataclass(slots=True)
class Layers:
    """The values found so far with their origins; what is added later wins, key by key."""

    found: dict[Path, tuple[object, str]] = field(default_factory=dict)

    def add_file(self, tree: object, origin: str) -> None:
        """Take the keys under `app` of a configuration file."""
        self._add(SETTINGS_SHAPE, tree, (), origin)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Take every variable that starts with `APP__`; a key beats the map it belongs to."""
        names = [name for name in environ if name.startswith(VARIABLE_PREFIX)]
        placed = [(*_place_of_variable(name), name) for name in names]
        for path, shape, name in sorted(placed, key=lambda place: (len(place[0]), place[2])):
            self._add(shape, _from_text(shape, environ[name], path, name), path, name)

    def add_options(self, options: Mapping[str, object]) -> None:
        """Take dotted keys; None is an option that was not given."""
        for key, value in options.items():
            if value is None:
                continue
            path, shape = _place_of_option(key)
            if isinstance(value, str):
                value = _from_text(shape, value, path, OPTION)
            self._add(shape, value, path, OPTION)

    def tree(self) -> dict[str, object]:
        """All values as one nested mapping."""
        root: dict[str, object] = {}
        for (*sections, name), (value, _) in self.found.items():
            node = root
            for section in sections:
                node = node.setdefault(section, {})  # type: ignore[assignment]
            node[name] = value
        return root

    def _add(self, shape: Shape, value: object, path: Path, origin: str) -> None:
        added: dict[Path, tuple[object, str]] = {}
        for inner, leaf_value in _flat(shape, value, path, origin):
            if inner in added:
                raise ConfigError(f"{dotted(inner)}: given twice, in two spellings ({origin})")
            added[inner] = (leaf_value, origin)
        self.found.update(added)


def _flat(shape: Shape, value: object, path: Path, origin: str) -> Iterator[tuple[Path, object]]:
    """Take a tree apart into keys; a section that is left empty says nothing."""
    if isinstance(shape, Leaf):
        yield path, value
        return
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise not_a_section(path, value, origin)
    for name, inner in value.items():
        if not isinstance(name, str):
            raise wrong_value(path, "must have text as keys (use quotes)", name, origin)
        known, below = _step(shape, name, path, origin)
        yield from _flat(below, inner, (*path, known), origin)


def _step(shape: Group | FreeMap, name: str, path: Path, origin: str) -> tuple[str, Shape]:
    """One level down: the key in its normal form, and what stands there."""
    if isinstance(shape, Group):
        if name not in shape.keys:
            raise unknown_key((*path, name), shape.keys, origin)
        return name, shape.keys[name]
    try:
        return str(shape.key.validate_python(name)), shape.value
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    if problem["type"] == "enum":
        expected = str(problem["ctx"]["expected"]).replace(" or ", ", ")
        raise unknown_key((*path, name), expected.replace("'", "").split(", "), origin)
    raise wrong_value((*path, name), f"the key {problem['ctx']['error']}", name, origin)


def _place_of_variable(name: str) -> tuple[Path, Shape]:
    """Which key a variable stands for; a key of a free map may follow the map's name."""
    path: Path = ()
    shape: Shape = SETTINGS_SHAPE
    for part in name.removeprefix(VARIABLE_PREFIX).split("__"):
        if isinstance(shape, Leaf):
            raise unknown_variable(name, _variables())
        if isinstance(shape, Group):
            known = {key.upper().replace("-", "_"): key for key in shape.keys}
            if part not in known:
                raise unknown_variable(name, _variables())
            key, shape = known[part], shape.keys[known[part]]
        elif isinstance(shape.value, Group) and "_" in part:
            advice = f"a host cannot have _ for its dots; give {variable(path)} as JSON"
            raise ConfigError(f"{name}: {advice}", field=name)
        else:
            key, shape = _step(shape, part.lower(), path, name)
        path = (*path, key)
    if isinstance(shape, Group):  # sections have no variable of their own
        raise unknown_variable(name, _variables())
    return path, shape


def _variables() -> set[str]:
    """The names of all variables, free maps as a whole."""
    paths = (path for path, _ in leaves(SETTINGS_SHAPE))
    return {variable(tuple(p for p in path if "<" not in p)[:2]) for path in paths}


def _place_of_option(key: str) -> tuple[Path, Shape]:
    """Which key an option sets; the dots of a host belong to the host."""
    path: Path = ()
    shape: Shape = SETTINGS_SHAPE
    rest = key.removeprefix("app.")
    while rest:
        if isinstance(shape, Leaf):
            raise unknown_key((*path, rest), (), OPTION)
        name, _, below = rest.partition(".")
        if isinstance(shape, FreeMap) and isinstance(shape.value, Group):
            name, _, below = rest.rpartition(".")
            if below not in shape.value.keys:
                name, below = rest, ""
        known, shape = _step(shape, name, path, OPTION)
        path, rest = (*path, known), below
    return path, shape


def _from_text(shape: Shape, text: str, path: Path, origin: str) -> object:
    """The value that the text of a variable or an option stands for."""
    if isinstance(shape, Leaf):
        if shape.is_nullable and text in ("", "null"):
            return None
        if shape.is_text:
            return text
        if shape.is_flag and text.lower() in _FLAG_WORDS:
            return _FLAG_WORDS[text.lower()]
    try:
        return json.loads(text, object_pairs_hook=_once)
    except _GivenTwice as error:
        raise ConfigError(f"{dotted(path)}: {error} is given twice ({origin})") from None
    except (ValueError, RecursionError):
        if isinstance(shape, Leaf):
            return text  # the check of all values says what is wrong with it
        raise not_a_section(path, text, origin) from None


class _GivenTwice(Exception):
    """A key of a JSON object is there twice."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in pairs:
        if name in made:
            raise _GivenTwice(json.dumps(name[:60]))
        made[name] = value
    return made
