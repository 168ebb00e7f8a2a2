"""Schemas as people read them: a word for each type, a table for each shape."""

import json
from typing import Any

from headwater.api.docs_markup import element, prose, table

Schema = dict[str, Any]
_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}


def kind_of(schema: Schema) -> str:
    """What something is, in a few words of markup."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return element("a", prose(name), href=f"#shape-{name}")
    choices = schema.get("anyOf", schema.get("oneOf"))
    if choices:
        return " or ".join(kind_of(choice) for choice in choices)
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return " | ".join(_literal(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return "list of " + kind_of(schema.get("items", {}))
    if isinstance(schema.get("additionalProperties"), dict):
        return "map to " + kind_of(schema["additionalProperties"])
    return _simple(schema) + _default(schema)


def fields_of(schema: Schema, document: Schema) -> str:
    """The fields of an object as a table; nothing for what has none."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    required = schema.get("required", [])
    rows = [
        (
            element("code", prose(name))
            + ("" if name in required else element("span", "optional", class_="optional")),
            kind_of(field),
            prose(field.get("description", "")),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "meaning"), rows) if rows else ""


def sample(content: Schema) -> str:
    """The example of a body or an answer."""
    example = content.get("example")
    if example in (None, ""):
        return ""
    text = example if isinstance(example, str) else json.dumps(example, indent=2)
    return element("pre", element("code", prose(text, code=False)))


def _simple(schema: Schema) -> str:
    kind: str = schema.get("type", "anything")
    if schema.get("format") == "date-time":
        return "moment"
    word = _WORDS.get(kind, kind)
    least = schema.get("minimum", schema.get("minLength"))
    most = schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if kind == "string" else ""
    if most is not None:
        span = f"{least:,} … {most:,}" if least is not None else f"up to {most:,}"
        return f"{word}, {span}{unit}"
    return f"{word}, from {least:,}{unit}" if least else word


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default is None else f"; else {_literal(default)}"


def _literal(value: Any) -> str:
    return element("code", prose(value if isinstance(value, str) else json.dumps(value)))
