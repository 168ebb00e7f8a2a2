"""Turns JSON into the types that calls return, by their annotations."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from headwater.client.errors import HeadwaterClientError

T = TypeVar("T")
_Decoder = Callable[[Any], Any]


def decode(kind: Callable[..., T], value: Any) -> T:
    """The value as an instance of a type; fields that the type does not have are ignored."""
    try:
        decoded: T = _decoder(kind)(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeadwaterClientError(
            f"the response is not a {getattr(kind, '__name__', kind)} of this version of the "
            f"API: {error!r}; use the client of the service's version"
        ) from error
    return decoded


def to_camel(name: str) -> str:
    """The name of a field or parameter in the API: `next_poll_at` is `nextPollAt`."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(map(str.title, others))


@cache
def _decoder(kind: Any) -> _Decoder:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is datetime:
        return datetime.fromisoformat
    if kind is date:
        return date.fromisoformat
    if origin in (Union, UnionType):
        return _union_decoder(arguments)
    if origin is tuple:
        item = _decoder(arguments[0])
        return lambda values: tuple(map(item, values))
    if origin is dict:
        member = _decoder(arguments[1])
        return lambda document: {name: member(value) for name, value in document.items()}
    if is_dataclass(origin or kind):
        return _class_decoder(origin or kind, arguments)
    return lambda value: value  # texts, numbers, true and false, any JSON


def _union_decoder(kinds: tuple[Any, ...]) -> _Decoder:
    """Null, or the first class all of whose fields are there, or the only other type."""
    others = [one for one in kinds if one is not NoneType]
    decoders = [(_required(one), _decoder(one)) for one in others]

    def decoded(value: Any) -> Any:
        if value is None:
            return None
        if len(decoders) == 1:
            return decoders[0][1](value)
        for names, decoder in decoders:
            if names <= value.keys():
                return decoder(value)
        raise ValueError(f"none of {others}")

    return decoded


def _class_decoder(kind: Any, arguments: tuple[Any, ...]) -> _Decoder:
    hints = get_type_hints(kind)
    variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=True))
    members = [_Member(one, _bound(hints[one.name], variables)) for one in fields(kind)]

    def decoded(document: Mapping[str, Any]) -> Any:
        return kind(**{member.name: member.read(document) for member in members})

    return decoded


class _Member:
    """A field of a class: where it is in the document, and how it is decoded."""

    def __init__(self, field: "Field[Any]", kind: Any) -> None:
        self.name = field.name
        self._key = to_camel(field.name)
        self._decode = _decoder(kind)
        self._optional = NoneType in get_args(kind) or field.default is not MISSING

    def read(self, document: Mapping[str, Any]) -> Any:
        # an older service may not have the field yet
        value = document.get(self._key) if self._optional else document[self._key]
        return None if value is None else self._decode(value)


def _bound(kind: Any, variables: Mapping[Any, Any]) -> Any:
    """A type whose variables are replaced: `tuple[T, ...]` of a page of posts has posts."""
    names = getattr(kind, "__parameters__", ())
    return kind[tuple(variables[name] for name in names)] if names else kind


def _required(kind: Any) -> set[str]:
    return {to_camel(one.name) for one in fields(kind)} if is_dataclass(kind) else set()
