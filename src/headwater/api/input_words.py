"""What is wrong with input, in plain words instead of the validator's."""

import difflib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import Request
from pydantic import BaseModel

Error = Mapping[str, Any]
_MOST_NAMES = 20
_LONGEST_NAME = 100
_SEND_JSON = "send JSON, with the header `Content-Type: application/json`"
_IN_WORDS: dict[str, str] = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is a number far too large",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "string_pattern_mismatch": "has characters in it that it cannot have",
    "string_type": "must be text",
    "string_unicode": "is not text that can be stored",
    "tuple_type": "must be a list",
}
_MADE: dict[str, Callable[[Error], str]] = {
    "enum": lambda error: f"must be {error['ctx']['expected']}",
    "greater_than_equal": lambda error: f"must be at least {error['ctx']['ge']:,}",
    "json_invalid": lambda error: _not_json(error),
    "less_than_equal": lambda error: f"must be at most {error['ctx']['le']:,}",
    "string_too_long": lambda error: _too_long(error),
    "string_too_short": lambda error: _too_short(error),
    "too_long": lambda error: _too_long(error),
    "too_short": lambda error: _too_short(error),
    "value_error": lambda error: str(error["ctx"]["error"]),
}


def words_for(error: Error, request: Request) -> str:
    """What one error of the validator means to whoever sent the request."""
    kind, (part, *path) = error["type"], error["loc"]
    whole_body = part == "body" and not path
    if kind == "missing":
        return f"a body is needed: {_SEND_JSON}" if whole_body else "is missing"
    if kind in ("model_attributes_type", "model_type", "dict_type"):
        if whole_body and not _says_json(request):
            return f"the body is not said to be JSON: {_SEND_JSON}"
        return "must be a JSON object"
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _known_names(request, path[:-1]))
    if kind in _MADE:
        return _MADE[kind](error)
    return _IN_WORDS.get(kind, str(error["msg"]))


def _says_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _not_json(error: Error) -> str:
    position = error["loc"][-1]
    where = f" at character {position + 1}" if isinstance(position, int) else ""
    return f"the body is not JSON{where}: {error['ctx']['error']}"


def _too_long(error: Error) -> str:
    return f"must have at most {error['ctx']['max_length']:,} {_unit(error)}"


def _too_short(error: Error) -> str:
    least = error["ctx"]["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least:,} {_unit(error)}"


def _unit(error: Error) -> str:
    return "characters" if isinstance(error["input"], str) else "entries"


def _unknown(name: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name[:_LONGEST_NAME], known, n=1)
    if nearest:
        return f"there is no such field; did you mean `{nearest[0]}`?"
    if known and len(known) <= _MOST_NAMES:
        return f"there is no such field; there are: {', '.join(known)}"
    return "there is no such field"


def _known_names(request: Request, path: Sequence[Any]) -> list[str]:
    """The fields of the part of the body that a path leads to."""
    body = request.scope["route"].dependant.body_params
    model = _model_in(body[0].field_info.annotation) if body else None
    for name in path:
        fields = {} if model is None else model.model_fields
        annotations = [field.annotation for field in fields.values() if field.alias == name]
        model = _model_in(annotations[0]) if annotations else None
    return [] if model is None else [field.alias or "" for field in model.model_fields.values()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field takes, or one of several kinds that it takes."""
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
