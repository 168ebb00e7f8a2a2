"""The OpenAPI document: what the framework knows of the routes, completed and made true."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from headwater.api.callers import FEEDS, OPEN_PATHS
from headwater.api.inputs import ONE_LINE
from headwater.api.openapi_errors import ERROR_SCHEMAS, common_errors, error_answers
from headwater.api.openapi_events import event_schemas
from headwater.api.openapi_examples import (
    example_body,
    example_parameter,
    example_value,
    just_made,
)
from headwater.api.openapi_fields import FIELDS
from headwater.api.openapi_words import (
    ABOUT,
    OPERATIONS,
    PARAMETER_SCHEMAS,
    PARAMETERS,
    SCHEMA_RULES,
    SECURITY_SCHEMES,
    STATUSES,
    TAGS,
)
from headwater.api.pages import Page

Document = dict[str, Any]
_METHODS = ("get", "put", "post", "delete", "patch")
_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")
_RULE_IDS = re.compile(r" \([A-Z]\d+(?:, [A-Z]\d+)*\)")
_SCHEMAS = "#/components/schemas/"
_ADMITTING: list[Document] = [{"bearer": []}]
_ADMITTING_READERS = [*_ADMITTING, {"basic": []}]  # of feeds, who know nothing else


def install(api: FastAPI) -> None:
    """Serve our document instead of the framework's; it is made when first asked for."""
    raw: Callable[[], Document] = api.openapi
    made: Document = {}

    def document() -> Document:
        if not made:
            made.update(completed(raw()))
        return made

    api.openapi = document  # type: ignore[method-assign]


def operation_id(route: APIRoute) -> str:
    """The name of an operation: that of its function, such as `listUsers`."""
    return OPERATIONS.get(route.name) or to_camel(route.name)


def completed(raw: Document) -> Document:
    """The framework's document with names, errors, examples and everything else it lacks."""
    document: Document = _renamed(_untitled(raw))
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _FRAMEWORKS_OWN:
        schemas.pop(name, None)
    _require_what_is_always_served(document)
    for name, rules in SCHEMA_RULES.items():
        schemas.get(name, {}).update(rules)
    _explain_fields(schemas)
    schemas |= ERROR_SCHEMAS | event_schemas(schemas)
    for path, operation in _operations(document):
        _complete(operation, path, document)
    _link(document)
    document["components"]["responses"] = _used(common_errors(), document)
    document["info"] |= ABOUT
    document["servers"] = [{"url": "/", "description": "The server that this comes from."}]
    document["security"] = _ADMITTING
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    used = {tag for _, operation in _operations(document) for tag in operation["tags"]}
    document["tags"] = [{"name": n, "description": d} for n, d in TAGS.items() if n in used]
    return document


def _untitled(node: Any, *, names: bool = False) -> Any:
    """Without what is not for callers: titles that repeat a field's name, ids of our own rules."""
    if isinstance(node, str):
        return _RULE_IDS.sub("", node)
    if isinstance(node, list):
        return [_untitled(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _untitled(value, names=key in ("properties", "schemas"))
        for key, value in node.items()
        if names or key != "title" or not isinstance(value, str) or "version" in node
    }


def _renamed(raw: Document) -> Document:
    """With schemas named for people: `User`, `UserInput` and `UserPage`."""
    found = raw.get("components", {}).get("schemas", {})
    names = {old: _schema_name(old) for old in found}
    assert len(set(names.values())) == len(names), "two schemas have one name"

    def walked(node: Any) -> Any:
        if isinstance(node, list):
            return [walked(one) for one in node]
        if isinstance(node, dict):
            return {key: walked(value) for key, value in node.items()}
        if isinstance(node, str) and node.startswith(_SCHEMAS):
            return _SCHEMAS + names[node.removeprefix(_SCHEMAS)]
        return node

    document: Document = walked(raw)
    if found:
        shown = document["components"]["schemas"]
        document["components"]["schemas"] = {names[old]: shown[old] for old in sorted(found)}
        for old in found:
            if old.startswith("Page_"):  # the framework loses it on the way
                shown[old].setdefault("description", Page.__doc__)
    return document


def _schema_name(name: str) -> str:
    page = re.fullmatch(r"Page_(\w+?)(?:Out)?_", name)
    if page:
        return f"{page[1]}Page"
    return re.sub(r"Out$", "", re.sub(r"In$", "Input", name))


def _require_what_is_always_served(document: Document) -> None:
    """Answers have all their fields, also those that are null for want of anything better."""
    schemas = document["components"]["schemas"]
    found = [name for _, op in _operations(document) for name in _named(op.get("requestBody"))]
    taken: set[str] = set()
    while found:
        name = found.pop()
        if name not in taken:
            taken.add(name)
            found += _named(schemas[name])
    for name, schema in schemas.items():
        if name not in taken and "properties" in schema and name not in ERROR_SCHEMAS:
            schema["required"] = list(schema["properties"])


def _explain_fields(schemas: Document) -> None:
    for name, schema in schemas.items():
        for field, shape in schema.get("properties", {}).items():
            meaning = FIELDS.get(f"{name}.{field}") or FIELDS.get(field)
            if meaning is not None:
                shape.setdefault("description", meaning)


def _named(node: Any) -> Iterator[str]:
    """The schemas that a part of the document refers to."""
    if isinstance(node, list):
        for one in node:
            yield from _named(one)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.removeprefix(_SCHEMAS)
            yield from _named(value)


def _complete(operation: Document, path: str, document: Document) -> None:
    """Add what one operation lacks."""
    said = operation.pop("description", operation["summary"])
    first, _, rest = said.partition("\n\n")
    operation["summary"] = " ".join(first.split()).removesuffix(".")
    operation["description"] = " ".join(rest.split()) or f"{operation['summary']}."
    is_open = path in OPEN_PATHS
    if is_open:
        operation["security"] = []
    elif path.endswith(FEEDS):
        operation["security"] = _ADMITTING_READERS
    for parameter in operation.get("parameters", []):
        _complete_parameter(parameter)
    schemas = document["components"]["schemas"]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        example = example_body(operation["operationId"], schema, media_type, schemas)
        content.setdefault("example", example)
    answers = operation["responses"]
    for status, answer in answers.items():
        if status < "400":
            _complete_answer(answer, status, schemas)
    fine = {status: answer for status, answer in answers.items() if status < "400"}
    operation["responses"] = fine | error_answers(operation, path, is_open=is_open)


def _used(answers: Document, document: Document) -> Document:
    """Those answers that some operation refers to."""
    wanted = {name.rpartition("/")[2] for name in _named(document["paths"])}
    return {name: answer for name, answer in answers.items() if name in wanted}


def _complete_parameter(parameter: Document) -> None:
    if parameter["name"] in PARAMETER_SCHEMAS:
        parameter["schema"] = dict(PARAMETER_SCHEMAS[parameter["name"]])
    schema = parameter["schema"]
    choices = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    if len(choices) == 1:  # what is not given is null; nobody can send it
        del schema["anyOf"]
        schema |= choices[0]
    if parameter["in"] == "query" and schema.get("type") == "string" and "enum" not in schema:
        schema.setdefault("pattern", ONE_LINE)
    described = parameter.get("description") or PARAMETERS.get(parameter["name"])
    if described is not None:
        parameter["description"] = described
    schema.pop("description", None)
    if "example" not in parameter and "examples" not in parameter:
        example_parameter(parameter)


def _complete_answer(answer: Document, status: str, schemas: Document) -> None:
    if answer["description"] == "Successful Response":
        named = [schemas[name].get("description") for name in _named(answer.get("content"))]
        told = STATUSES.get(status) or next((one for one in named if one), None) or "Done."
        answer["description"] = told
    if status == "201":
        location = {"description": "Where it is.", "required": True, "schema": {"type": "string"}}
        answer.setdefault("headers", {}).setdefault("Location", location)
    for media_type, content in answer.get("content", {}).items():
        if media_type == "text/event-stream":
            content["schema"] = {"$ref": f"{_SCHEMAS}Event"}
        if "example" not in content and "examples" not in content:
            example = example_value(content.get("schema", {}), media_type, schemas)
            content["example"] = just_made(example) if status == "201" else example


def _link(document: Document) -> None:
    """Say for what is made which operations take its id."""
    for path, item in document["paths"].items():
        made = item.get("post", {}).get("responses", {}).get("201")
        below = re.compile(re.escape(path) + r"/\{(\w+)\}")
        for other, operation in _operations(document):
            named = below.fullmatch(other)
            if made is None or named is None:
                continue
            outer = re.findall(r"\{(\w+)\}", path)
            parameters = {name: f"$request.path.{name}" for name in outer}
            parameters[named[1]] = "$response.body#/id"
            link = {"operationId": operation["operationId"], "parameters": parameters}
            made.setdefault("links", {})[operation["operationId"]] = link


def _operations(document: Document) -> Iterator[tuple[str, Document]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, item[method]
