"""The OpenAPI document is complete, and its viewer needs no other host."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import headwater.api
from headwater.engine.events import EventKind
from tests.api.conftest import DEFAULT, OWN, Served, serving, settings_in
from tests.api.event_stream_client import event_stream
from tests.system.conftest import feed_site, web_of

OPEN = {"/api/health", "/api/ready"}
PROBLEM = "application/problem+json"
VIEWER = Path(headwater.api.__file__).parent / "static" / "swagger-ui"


@pytest.fixture
async def document(served: Served) -> Any:
    return (await served.get("/api/openapi.json")).json


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def answers(document: Any, operation: Any) -> Iterator[tuple[str, Any]]:
    for status, answer in operation["responses"].items():
        name = answer.get("$ref", "").rpartition("/")[2]
        yield status, document["components"]["responses"][name] if name else answer


async def test_every_operation_has_a_description(document: Any) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids) > 40
    described = {tag["name"] for tag in document["tags"]}
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert re.fullmatch(r"[a-z][A-Za-z]+[a-z]", operation["operationId"]), where
        assert operation["summary"], where
        assert operation["description"], where
        assert set(operation["tags"]) <= described, where
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (where, parameter)
            assert parameter["in"] != "path" or parameter["schema"]["example"], (where, parameter)


async def test_every_operation_is_listed_on_the_page_about_the_api(document: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([A-Z]+ \S+)` \| (.+) \|$", page, re.MULTILINE)
    podcast = "/api/users/{u}/podcasts/{p}"
    expected = [
        (f"{method.upper()} {path.replace(podcast, '…')}", operation["summary"])
        for method, path, operation in operations(document)
    ]
    assert sorted(listed) == sorted(expected)


async def test_every_response_of_the_middlewares_is_documented(document: Any) -> None:
    for method, path, operation in operations(document):
        found = dict(answers(document, operation))
        expected = {"403", "422"}
        expected |= set() if path in OPEN else {"401", "429", "503"}
        expected |= {"404"} if "{" in path else set()
        expected |= {"413"} if "requestBody" in operation else set()
        assert expected <= set(found), (method, path)
        for status, answer in found.items():
            assert answer["description"], (method, path, status)
            if status >= "400":
                assert list(answer["content"]) == [PROBLEM], (method, path, status)
        assert "WWW-Authenticate" in found.get("401", {"headers": ["WWW-Authenticate"]})["headers"]
        assert (operation.get("security") == []) == (path in OPEN), path


async def test_every_field_is_explained_and_none_is_in_snake_case(document: Any) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name
        for field, shape in schema.get("properties", {}).items():
            assert re.fullmatch(r"[a-z][A-Za-z]*", field), (name, field)
            assert shape.get("description"), (name, field)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            assert "_" not in parameter["name"], path


async def test_every_request_body_has_an_example_that_fits_its_schema(document: Any) -> None:
    seen = 0
    for method, path, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            seen += 1
            named = content.get("examples", {"example": {"value": content.get("example")}})
            example = named["example"]["value"]
            assert example, (method, path)
            assert not unfit(document, content["schema"], example), (method, path)
    assert seen > 12


async def test_every_example_of_a_response_field_or_parameter_fits_its_schema(
    document: Any,
) -> None:
    shapes = list(document["components"]["schemas"].items())
    fields = [(name, field) for name, schema in shapes for field in properties_of(schema)]
    fields += [
        (path, parameter["schema"])
        for _, path, operation in operations(document)
        for parameter in operation.get("parameters", [])
    ]
    examples = [(name, field, one) for name, field in fields for one in examples_of(field)]
    assert len(examples) > 100
    for name, field, example in examples:
        assert not unfit(document, field, example), (name, field)


def examples_of(schema: Any) -> list[Any]:
    return [*schema.get("examples", []), *([schema["example"]] if "example" in schema else [])]


def properties_of(schema: Any) -> list[Any]:
    return list(schema.get("properties", {}).values())


async def test_every_error_and_every_document_has_an_example_that_fits(document: Any) -> None:
    seen = 0
    for method, path, operation in operations(document):
        for status, answer in answers(document, operation):
            for media_type, content in answer.get("content", {}).items():
                if media_type in ("application/json", "text/event-stream"):
                    continue  # fields have examples; the stream's schema is that of one event
                seen += 1
                where = (method, path, status, media_type)
                assert not unfit(document, content["schema"], content["example"]), where
    assert seen > 200


async def test_the_example_of_the_stream_fits_the_schemas_of_its_events(document: Any) -> None:
    answer = document["paths"]["/api/events"]["get"]["responses"]["200"]
    content = answer["content"]["text/event-stream"]
    assert content["schema"] == {"$ref": "#/components/schemas/Event"}
    examples = re.findall(r"^event: (.+)\ndata: (.+)$", content["example"], re.MULTILINE)
    assert len(examples) > 1
    for kind, data in examples:
        assert not unfit_event(document, kind, json.loads(data)), kind


async def test_events_have_the_shapes_of_the_document(served: Served, document: Any) -> None:
    gone = {"type": "rss", "url": f"http://{OWN}:9/", "maxFailures": 1}
    async with web_of(site=feed_site()) as web, event_stream(served) as stream:
        for body in ({"url": web.url("site"), "includeHistory": True}, gone):
            source = (await served.post(f"{DEFAULT}/sources", body)).json["id"]
            await served.service.poll_now(source)
        await served.service.tick()
        served.service.events.emit(EventKind.OUTAGE, text="DNS")
        reported = await stream.until("outage")
    assert {"poll.started", "poll.finished", "post.created", "tick"} <= {
        one.kind for one in reported
    }
    for one in reported:
        assert not unfit_event(document, one.kind, one.data), one


def unfit_event(document: Any, kind: str, data: Any) -> list[str]:
    """The errors in the data of an event, by a schema that allows no further fields."""
    name = "".join(part.title() for part in kind.split(".")) + "Event"
    schema = document["components"]["schemas"][name] | {"additionalProperties": False}
    return unfit(document, schema, data)


def unfit(document: Any, schema: Any, data: Any) -> list[str]:
    """The errors in data, by a schema."""
    definitions = {"components": document["components"]}
    validator = jsonschema_rs.validator_for(schema | definitions, validate_formats=True)
    return [error.message for error in validator.iter_errors(data)]


async def test_the_examples_do_not_rename_existing_objects(document: Any) -> None:
    for path in ("/api/users/{u}", "/api/users/{u}/podcasts/{p}"):
        put = document["paths"][path]["put"]
        names = {one["schema"]["example"] for one in put["parameters"] if one["in"] == "path"}
        body = put["requestBody"]["content"]["application/json"]["examples"]["example"]["value"]
        assert names == {body["name"]} == {"default"}


async def test_a_created_object_has_a_location_header(document: Any) -> None:
    made = document["paths"]["/api/users/{u}/podcasts/{p}/sources"]["post"]["responses"]["201"]
    assert made["headers"]["Location"]["required"]
    assert made["links"]["getSource"]["parameters"] == {
        "u": "$request.path.u",
        "p": "$request.path.p",
        "s": "$response.body#/id",
    }


async def test_the_document_is_valid_for_other_limits(tmp_path: Path) -> None:
    async with serving(settings_in(tmp_path, **{"app.limits.max-page-size": 20})) as served:
        document = (await served.get("/api/openapi.json")).json
    parameters = document["paths"]["/api/users"]["get"]["parameters"]
    (limit,) = [one for one in parameters if one["name"] == "limit"]
    assert limit["schema"]["maximum"] == limit["schema"]["default"] == 20
    assert limit["schema"]["examples"] == [20]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/api/users", "GET, HEAD, POST"),
        ("OPTIONS", "/api/users/default", "DELETE, GET, HEAD, PUT"),
        ("GET", f"{DEFAULT}/opml/", None),
        ("OPTIONS", f"{DEFAULT}/sources/batch", "POST"),
        ("POST", "/api/docs", "GET"),
    ],
)
async def test_a_method_not_allowed_response_names_the_allowed_ones(
    served: Served, method: str, path: str, allowed: str | None
) -> None:
    answer = await served.call(method, path)
    assert answer.status == (404 if allowed is None else 405)
    assert answer.headers.get("Allow") == allowed
    assert answer.headers["Content-Type"] == PROBLEM


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"name": "\xff"}', b"[" * 60_000])
async def test_an_unreadable_body_is_invalid_input(served: Served, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await served.post("/api/users", data=body, headers=headers)
    assert answer.status == 422
    assert answer.json["status"] == 422


async def test_u8_a_body_that_exceeds_the_limit_while_read_is_413(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    async with serving(settings_in(tmp_path, **{"app.limits.max-request-bytes": 10_000})) as served:
        headers = {"Content-Type": "application/json"}
        url = f"{served.url}/api/users"
        async with served.session.post(url, data=pieces(), headers=headers) as answer:
            assert answer.status == 413
            assert "10,000 bytes" in (await answer.json(content_type=PROBLEM))["detail"]


async def test_integers_may_be_written_with_a_decimal_point(served: Served) -> None:
    body = b'{"name": "Morning", "maxArticleAgeDays": 14.0}'
    headers = {"Content-Type": "application/json"}
    made = await served.post("/api/users/default/podcasts", data=body, headers=headers)
    assert (made.status, made.json["maxArticleAgeDays"]) == (201, 14)
    half = body.replace(b"14.0", b"14.5").replace(b"Morning", b"Evening")
    refused = await served.post("/api/users/default/podcasts", data=half, headers=headers)
    assert refused.status == 422


async def test_u4_the_page_has_no_inline_script_or_style_and_needs_no_other_host(
    served: Served,
) -> None:
    answer = await served.get("/api/docs")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    page = answer.body.decode()
    assert not re.search(r"<style|<script(?! src)| style=| on\w+=", page)
    addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(addresses) > 4
    assert all(one.startswith(("/", "data:,")) for one in addresses)
    for address in addresses:
        if address.startswith("/api/docs/"):
            file = await served.get(address)
            assert file.status == 200
            assert "immutable" in file.headers["Cache-Control"]
            other = await served.get(address.partition("?")[0] + "?v=another-version")
            assert "immutable" not in other.headers.get("Cache-Control", "")


async def test_u4_the_page_and_its_files_need_no_token(served: Served) -> None:
    await served.admin()
    for path in ("/api/docs", "/api/docs/docs.js", "/api/docs/swagger-ui.css", "/api/openapi.json"):
        assert (await served.get(path)).status == 200
    assert (await served.get("/api/users")).status == 401


def test_the_viewer_files_match_their_recorded_hashes() -> None:
    lines = (VIEWER / "SHA256SUMS").read_text().splitlines()
    recorded = {name: digest for digest, name in map(str.split, lines)}
    files = {path.name for path in VIEWER.iterdir()} - {"README.md", "SHA256SUMS"}
    assert files == recorded.keys()
    for name, digest in recorded.items():
        assert sha256((VIEWER / name).read_bytes()).hexdigest() == digest, name
