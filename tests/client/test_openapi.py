"""The client has every operation of the OpenAPI document, with its parameters and results (V4)."""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, date, datetime
from typing import (
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pytest

from headwater.client import Headwater
from headwater.client.clients import Operations
from headwater.client.decoding import to_camel
from headwater.client.operation import ApiRequest, Page, listing, operation
from headwater.client.results.events import EVENT_TYPES
from headwater.client.results.service import Key
from tests.api.conftest import Served

# for feed readers, which do not use the client
FEEDS = {
    "showIncidentFeed",
    "showAtomFeed",
    "showJsonFeed",
    "showSearchAtomFeed",
    "showSearchJsonFeed",
}
STREAM = "followEvents"  # `events`, a method of each client
# set by the client itself: the ETag is a header
NOT_IN_DOCUMENTS = {"etag"}


@pytest.fixture
async def document(served: Served) -> Any:
    return (await served.get("/api/openapi.json")).json


def declared() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The names and functions of all calls."""
    for name in dir(Operations):
        found = inspect.getattr_static(Operations, name)
        if isinstance(found, operation | listing):
            yield name, found.build


def requests_of(build: Callable[..., Any]) -> Iterator[ApiRequest[Any]]:
    """The requests of a call with every argument; one per podcast, and one for all."""
    hints = get_type_hints(build)
    given: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(build).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (settings,) = get_args(hints[name])
            given |= {key: example(kind) for key, kind in get_type_hints(settings).items()}
        else:
            given[name] = example(hints[name])
    client = Headwater("http://localhost")
    yield build(client, **given)
    if hints.get("podcast") == str | None:
        yield build(client, **given | {"podcast": None})


def example(kind: Any) -> Any:
    """A value of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return example(arguments[0])
    if origin is Literal:
        return arguments[0]
    if is_typeddict(kind):
        return {name: example(one) for name, one in get_type_hints(kind).items()}
    if origin in (list, Iterable, tuple):
        return [example(arguments[0])]
    if origin is dict:
        return {}
    values = {str: "x", bool: True, int: 5, float: 0.5}
    return datetime(2026, 1, 2, tzinfo=UTC) if kind in (date, datetime) else values[kind]


def operation_for(document: Any, request: ApiRequest[Any]) -> Any:
    """The operation of the document that a request calls."""
    found = [
        (path.count("{"), item[request.method.lower()])
        for path, item in document["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.path)
        and request.method.lower() in item
    ]
    assert found, f"there is no {request.method} {request.path}"
    return min(found, key=lambda one: one[0])[1]


CALLS = dict(declared())


async def test_v4_every_operation_has_a_call(document: Any) -> None:
    called = {
        operation_for(document, request)["operationId"]
        for build in CALLS.values()
        for request in requests_of(build)
    }
    there_are = {
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
    }
    assert there_are - called == FEEDS | {STREAM}
    assert called <= there_are


async def test_v4_calls_have_the_parameters_of_their_operations(document: Any) -> None:
    for name, build in CALLS.items():
        for request in requests_of(build):
            found = operation_for(document, request)
            parameters = found.get("parameters", [])
            queries = {one["name"] for one in parameters if one["in"] == "query"}
            headers = {one["name"] for one in parameters if one["in"] == "header"}
            exclusive = {"after"} if "changedAfter" in queries else set()  # another order is given
            assert set(request.query) | exclusive == queries, name
            assert set(request.headers) == headers, name
            assert bool(found.get("requestBody")) == (request.body is not None), name


async def test_v4_the_event_stream_has_the_parameters_of_its_operation(document: Any) -> None:
    parameters = document["paths"]["/api/events"]["get"]["parameters"]
    names = {to_camel(name) for name in inspect.signature(Headwater.events).parameters} - {"self"}
    assert names == {one["name"] for one in parameters if one["in"] == "query"}


async def test_v4_request_bodies_have_the_fields_of_their_schemas(document: Any) -> None:
    for name, build in CALLS.items():
        for request in requests_of(build):
            content = operation_for(document, request).get("requestBody", {}).get("content", {})
            if request.body is None or request.content_type != "application/json":
                assert request.content_type in content or not content, name
                continue
            compare_body(document, content["application/json"]["schema"], request.body, name)


def compare_body(document: Any, schema: Any, value: Any, where: str) -> None:
    """Assert that the value has every property of a schema, and no other."""
    if "discriminator" in schema:  # the example is of the first of several types
        schema = schema["oneOf"][0]
    schema = resolved(document, schema)
    if isinstance(value, list):
        compare_body(document, schema["items"], value[0], f"{where}.0")
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return
    assert set(value) == set(properties), where
    for name, member in value.items():
        compare_body(document, properties[name], member, f"{where}.{name}")


async def test_v4_results_have_the_fields_and_types_of_their_schemas(document: Any) -> None:
    for name, build in CALLS.items():
        for request in requests_of(build):
            answers = operation_for(document, request)["responses"]
            schemas = [
                content["schema"]
                for status, answer in sorted(answers.items())
                if status < "300"
                for content in answer.get("content", {}).values()
            ]
            kinds = get_args(request.result) or [request.result]
            if get_origin(request.result) is Page:
                kinds = [request.result]
            assert len(schemas) == len([one for one in kinds if one is not types.NoneType]), name
            for schema, kind in zip(schemas, kinds, strict=False):
                assert differences(document, schema, kind, name) == []


async def test_v4_events_have_the_fields_and_types_of_their_schemas(document: Any) -> None:
    schemas = document["components"]["schemas"]
    assert set(EVENT_TYPES) == set(schemas["Event"]["properties"]["event"]["enum"])
    for name, kind in EVENT_TYPES.items():
        schema = schemas["".join(part.title() for part in name.split(".")) + "Event"]
        assert differences(document, schema, kind, name) == []


def resolved(document: Any, schema: Any) -> Any:
    """The schema that a reference names; of one that may be null, the other one."""
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    others = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return resolved(document, others[0]) if len(others) == 1 else schema


def differences(document: Any, schema: Any, kind: Any, where: str) -> list[str]:
    """What differs between a schema and a type of the client."""
    nullable = {"type": "null"} in schema.get("anyOf", ()) or schema.get("type") == "null"
    optional = get_origin(kind) in (Union, types.UnionType) and types.NoneType in get_args(kind)
    if nullable != (optional or kind is types.NoneType):
        return [f"{where}: null is {nullable} in the document"]
    if optional:
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
    if "oneOf" in schema:
        pairs = zip(schema["oneOf"], get_args(kind), strict=True)  # in the same order
        return [text for one, type_ in pairs for text in differences(document, one, type_, where)]
    schema = resolved(document, schema)
    origin = get_origin(kind) or kind
    if is_dataclass(origin):
        return class_differences(document, schema, kind, where)
    if origin is tuple and schema.get("type") == "array":
        return differences(document, schema["items"], get_args(kind)[0], f"{where}[]")
    if origin is dict and schema.get("type") == "object":
        members = schema.get("additionalProperties", True)
        return [] if members is True else differences(document, members, get_args(kind)[1], where)
    if kind_of(schema) == (set(get_args(kind)) if origin is Literal else kind):
        return []
    return [f"{where}: {kind} is {kind_of(schema)} in the document"]


def class_differences(document: Any, schema: Any, kind: Any, where: str) -> list[str]:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    hints = get_type_hints(origin)
    if origin is Page:
        hints["items"] = types.GenericAlias(tuple, (arguments[0], ...))
    properties = schema["properties"]
    found = []
    for one in fields(origin):
        name = to_camel(one.name)
        if name in properties:
            found += differences(document, properties[name], hints[one.name], f"{where}.{name}")
        elif one.default is MISSING:
            found.append(f"{where}: {name} is not in the document")
    names = {to_camel(one.name) for one in fields(origin)}
    return found + [f"{where}: {name} is missing" for name in properties.keys() - names]


def kind_of(schema: Any) -> Any:
    """The type of a simple value, or the set of its choices."""
    if "enum" in schema or "const" in schema:
        return set(schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:  # integer or number
        return max((kind_of(one) for one in schema["anyOf"]), key=lambda one: one is float)
    if schema.get("type") == "string":
        return {"date-time": datetime, "date": date}.get(schema.get("format"), str)
    return {"integer": int, "number": float, "boolean": bool, "null": types.NoneType}.get(
        schema.get("type"), Any
    )


@pytest.mark.parametrize(
    ("schema", "kind", "same"),
    [
        ({"type": "string"}, str, True),
        ({"type": "string"}, int, False),
        ({"type": "string"}, str | None, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, str | None, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, str, False),
        ({"type": "string", "format": "date-time"}, str, False),
        ({"enum": ["a", "b"]}, Literal["a", "b"], True),
        ({"enum": ["a", "b"]}, Literal["a"], False),
        ({"type": "array", "items": {"type": "integer"}}, tuple[str, ...], False),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, str | int, True),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, str | bool, False),
        ({"type": "object", "properties": {"provider": {"type": "string"}}}, Key, False),
    ],
)
def test_differences_are_detected(schema: Any, kind: Any, same: bool) -> None:
    assert (differences({}, schema, kind, "x") == []) is same


def test_only_an_etag_is_not_in_a_document() -> None:
    results = {request.result for build in CALLS.values() for request in requests_of(build)}
    classes = [kind for kind in results if is_dataclass(kind)]
    defaults = [one for kind in classes for one in fields(kind) if one.default is not MISSING]
    extra = {one.name for one in defaults}
    assert extra == NOT_IN_DOCUMENTS
