"""Reads a YAML document into nodes that know their place; no tags, anchors or duplicate keys."""

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from headwater.errors import UsageError

_MAX_DEPTH = 16
_MAX_NUMBER = 100  # characters; numbers such as 1:0:0:… take quadratic time
_MAX_SHOWN = 60  # characters of a key or value in an error
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # compiled where available
_RESOLVER: Any = yaml.resolver.Resolver()  # without type annotations
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()
_TAG = "tag:yaml.org,2002:"
_CONSTRUCTED = frozenset({f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float")})


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; lines and columns begin with 1."""

    file: str
    line: int
    column: int

    def error(self, message: str) -> UsageError:
        """An error at this position."""
        return UsageError(f"{self.file}, line {self.line}, column {self.column}: {message}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document, and the place of its key or of itself."""

    value: Any  # None, bool, int, float, str, a list of nodes, or a dict of nodes by key
    place: Place
    text: str | None = None  # a scalar as it is written

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        return self.value

    def fields(self, what: str, known: Collection[str]) -> Mapping[str, "Node"]:
        """The values of a mapping, which may have these keys only."""
        if not isinstance(self.value, dict):
            raise self.place.error(f"{what} must be a mapping of keys to values")
        for key, node in self.value.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
                raise node.place.error(f"unknown key `{key[:_MAX_SHOWN]}` of {what}; {hint}")
        return self.value

    def items(self, what: str) -> list["Node"]:
        """The items of a list; none if it is empty."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.place.error(f"{what} must be a list, each item with a `-`")
        return self.value


def read_yaml(data: bytes, file: str) -> Node | None:
    """The document, None if it is empty; a UsageError has the place of what is wrong."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text (byte {error.start})") from None
    try:
        return _Reader(text, file).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
        raise place.error(_problem(error, text, place)) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not YAML: {' '.join(str(error).split())}") from None


def _problem(error: yaml.MarkedYAMLError, text: str, place: Place) -> str:
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if line[place.column - 1 : place.column] == "\t":
        return "a tab; YAML is indented with spaces"
    return f"not YAML: {error.problem or error.context}"


class _Reader:
    """Builds nodes from the events of a parser."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)

    def document(self) -> Node | None:
        """The only document of the stream."""
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        event = next(self._events)
        node = self._node(event, self._place(event), 1)
        next(self._events)  # the end of the document
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._place(event).error("the file has more than one document")
        return node

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self._file, mark.line + 1, mark.column + 1)

    def _node(self, event: Any, place: Place, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise place.error(f"nested more than {_MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._place(event).error("anchors (&) and aliases (*) are not supported")
        if event.tag is not None:
            raise self._place(event).error(
                f"tags such as {event.tag[:_MAX_SHOWN]} are not supported"
            )
        if isinstance(event, yaml.ScalarEvent):
            return Node(_scalar(event, self._place(event)), place, event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(list(self._items(depth)), place)
        return Node(self._mapping(depth), place)

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, self._place(event), depth + 1)

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            place = self._place(event)
            key = self._node(event, place, depth + 1).text
            if key is None:
                raise place.error("a key must be text")
            if key in found:
                first = found[key].place.line
                raise place.error(f"the key `{key[:_MAX_SHOWN]}` is given twice (line {first})")
            found[key] = self._node(next(self._events), place, depth + 1)
        return found


def _scalar(event: Any, place: Place) -> Any:
    """The value of a scalar; a date, a number of very many digits and other kinds are text."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag not in _CONSTRUCTED or len(event.value) > _MAX_NUMBER:
        return event.value
    construct = getattr(_CONSTRUCTOR, f"construct_yaml_{tag.removeprefix(_TAG)}")
    try:
        return construct(yaml.ScalarNode(tag, event.value))
    except ValueError:  # such as 0x_
        raise place.error(f"{json.dumps(event.value[:_MAX_SHOWN])} is not a number") from None
