"""The shape of the settings as keys: which exist, which are free, how variables are named."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, TypeAdapter

from headwater.model import SourceType
from headwater.settings.model import Settings

Path = tuple[str, ...]
VARIABLE_PREFIX = "APP__"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A key with a value."""

    is_text: bool  # a variable's text is the value itself; otherwise it is JSON
    is_flag: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A section: known keys only."""

    keys: Mapping[str, "Shape"]


@dataclass(frozen=True, slots=True)
class FreeMap:
    """A map whose keys people choose."""

    placeholder: str  # what stands for the key in the documentation
    key: TypeAdapter[Any]
    value: "Shape"


Shape = Leaf | Group | FreeMap


def dotted(path: Path) -> str:
    """The key as people write it."""
    return ".".join(("app", *path))


def variable(path: Path) -> str:
    """The environment variable of a key."""
    return VARIABLE_PREFIX + "__".join(path).upper().replace("-", "_")


def leaves(shape: Shape, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Every key, with `<type>` and `<host>` where people choose it."""
    match shape:
        case Leaf():
            yield path, shape
        case Group(keys):
            for name, inner in keys.items():
                yield from leaves(inner, (*path, name))
        case FreeMap(placeholder, _, value):
            yield from leaves(value, (*path, placeholder))


def _shape(annotation: Any) -> Shape:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.values()
        return Group({field.alias or "": _shape(field.annotation) for field in fields})
    if get_origin(annotation) is Mapping:
        key, value = get_args(annotation)
        placeholder = "<type>" if key is SourceType else "<host>"
        return FreeMap(placeholder, TypeAdapter(key), _shape(value))
    return _leaf(annotation)


def _leaf(annotation: Any) -> Leaf:
    kinds = set(_kinds(annotation))
    texts = [kind for kind in kinds if isinstance(kind, type) and _is_text(kind)]
    return Leaf(is_text=bool(texts), is_flag=bool in kinds, is_nullable=type(None) in kinds)


def _kinds(annotation: Any) -> Iterator[Any]:
    """The bare types a value may have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for choice in get_args(annotation):
            yield from _kinds(choice)
    else:
        yield annotation


def _is_text(kind: type) -> bool:
    return issubclass(kind, str | SecretBytes)


SETTINGS_SHAPE = _shape(Settings)
