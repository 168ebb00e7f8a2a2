"""The OpenAPI document is complete, and the page made of it needs nothing from elsewhere."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from headwater.api.docs_page import docs_page
from headwater.api.openapi import completed
from headwater.api.openapi_events import schema_name
from headwater.engine.events import EventKind
from tests.api.conftest import DEFAULT, OWN, Served, serving, settings_in
from tests.api.following import following
from tests.system.conftest import feed_site, web_of

OPEN = {"/api/health", "/api/ready"}
PROBLEM = "application/problem+json"


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


async def test_every_operation_says_what_it_does(document: Any) -> None:
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
            assert parameter["in"] != "path" or "example" in parameter, (where, parameter)


async def test_every_answer_of_the_middlewares_is_documented(document: Any) -> None:
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


async def test_every_body_has_an_example_that_fits_its_schema(document: Any) -> None:
    definitions = {"components": document["components"]}
    seen = 0
    for method, path, operation in operations(document):
        bodies = list(operation.get("requestBody", {}).get("content", {}).items())
        for _, answer in answers(document, operation):
            bodies += answer.get("content", {}).items()
        for media_type, content in bodies:
            seen += 1
            assert content["example"] not in (None, "", {}), (method, path, media_type)
            if media_type == "text/event-stream":  # the schema is that of one event
                continue
            validator = jsonschema_rs.validator_for(
                content["schema"] | definitions, validate_formats=True
            )
            wrong = [error.message for error in validator.iter_errors(content["example"])]
            assert not wrong, (method, path, media_type, wrong)
    assert seen > 200


async def test_every_kind_of_event_has_a_shape_and_an_example_that_fits_it(document: Any) -> None:
    answer = document["paths"]["/api/events"]["get"]["responses"]["200"]
    stream = answer["content"]["text/event-stream"]["example"]
    examples = re.findall(r"^event: (.+)\ndata: (.+)$", stream, re.MULTILINE)
    assert {kind for kind, _ in examples} == {*EventKind, "reset"}
    for kind, data in examples:
        assert not unfit(document, schema_name(kind), json.loads(data)), kind


async def test_events_have_the_shapes_of_the_document(served: Served, document: Any) -> None:
    gone = {"url": f"http://{OWN}:9/", "maxFailures": 1}
    async with web_of(site=feed_site()) as web, following(served) as stream:
        for body in ({"url": web.url("site"), "includeHistory": True}, gone):
            source = (await served.post(f"{DEFAULT}/sources", body)).json["id"]
            await served.service.poll_now(source)
        await served.service.tick()
        served.service.events.tell(EventKind.OUTAGE, text="DNS")
        told = await stream.until("outage")
    assert {"poll.started", "poll.finished", "post.created", "tick"} <= {one.kind for one in told}
    for one in told:
        assert not unfit(document, schema_name(one.kind), one.data), one


def unfit(document: Any, name: str, data: Any) -> list[str]:
    """What is wrong with data, by a schema that allows nothing beyond what it names."""
    schema = document["components"]["schemas"][name] | {"additionalProperties": False}
    definitions = {"components": document["components"]}
    validator = jsonschema_rs.validator_for(schema | definitions, validate_formats=True)
    return [error.message for error in validator.iter_errors(data)]


async def test_examples_are_true_of_what_was_just_made_and_rename_nobody(document: Any) -> None:
    paths = document["paths"]
    made = paths["/api/users/{u}/podcasts/{p}/sources"]["post"]["responses"]["201"]
    source = made["content"]["application/json"]["example"]
    assert (source["health"], source["postCount"], source["lastPolled"]) == ("new", 0, None)
    for path in ("/api/users/{u}", "/api/users/{u}/podcasts/{p}"):
        put = paths[path]["put"]
        names = {one["example"] for one in put["parameters"] if one["in"] == "path"}
        body = put["requestBody"]["content"]["application/json"]["example"]
        assert names == {body["name"]} == {"default"}


async def test_what_is_made_says_where_it_is(document: Any) -> None:
    made = document["paths"]["/api/users/{u}/podcasts/{p}/sources"]["post"]["responses"]["201"]
    assert made["headers"]["Location"]["required"]
    assert made["links"]["getSource"]["parameters"] == {
        "u": "$request.path.u",
        "p": "$request.path.p",
        "s": "$response.body#/id",
    }


async def test_the_document_holds_for_other_limits_too(tmp_path: Path) -> None:
    async with serving(settings_in(tmp_path, **{"app.limits.max-page-size": 20})) as served:
        document = (await served.get("/api/openapi.json")).json
    parameters = document["paths"]["/api/users"]["get"]["parameters"]
    (limit,) = [one for one in parameters if one["name"] == "limit"]
    assert limit["schema"]["maximum"] == limit["schema"]["default"] == limit["example"] == 20


def test_two_schemas_of_one_name_are_noticed() -> None:
    same: Any = {"schemas": {"User": {}, "UserOut": {}}}
    with pytest.raises(AssertionError, match="one name"):
        completed({"info": {}, "paths": {}, "components": same})


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
async def test_a_method_that_is_not_there_is_told_which_are(
    served: Served, method: str, path: str, allowed: str | None
) -> None:
    answer = await served.call(method, path)
    assert answer.status == (404 if allowed is None else 405)
    assert answer.headers.get("Allow") == allowed
    assert answer.headers["Content-Type"] == PROBLEM


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"name": "\xff"}', b"[" * 60_000])
async def test_a_body_that_cannot_be_read_is_wrong_input(served: Served, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await served.post("/api/users", data=body, headers=headers)
    assert answer.status == 422
    assert answer.json["status"] == 422


async def test_u8_a_body_that_turns_out_too_large_is_413(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    async with serving(settings_in(tmp_path, **{"app.limits.max-request-bytes": 10_000})) as served:
        headers = {"Content-Type": "application/json"}
        url = f"{served.url}/api/users"
        async with served.session.post(url, data=pieces(), headers=headers) as answer:
            assert answer.status == 413
            assert "10,000 bytes" in (await answer.json(content_type=PROBLEM))["detail"]


async def test_whole_numbers_may_be_written_with_a_point(served: Served) -> None:
    body = b'{"name": "Morning", "maxArticleAgeDays": 14.0}'
    headers = {"Content-Type": "application/json"}
    made = await served.post("/api/users/default/podcasts", data=body, headers=headers)
    assert (made.status, made.json["maxArticleAgeDays"]) == (201, 14)
    half = body.replace(b"14.0", b"14.5").replace(b"Morning", b"Evening")
    refused = await served.post("/api/users/default/podcasts", data=half, headers=headers)
    assert refused.status == 422


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_u4_the_page_needs_no_script_and_nothing_from_elsewhere(served: Served) -> None:
    answer = await served.get("/api/docs")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    page = Page(answer.body.decode())
    assert not page.open
    assert not {tag for tag, _ in page.tags} & {"script", "style", "img", "iframe", "base", "form"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        address = attributes.get("href") or "#"
        assert address.startswith(("#", "/api/", "data:,")), address
    style = await served.get("/api/docs.css")
    assert style.headers["Content-Type"] == "text/css; charset=utf-8"
    assert b"prefers-color-scheme: dark" in style.body
    assert not re.search(rb"url\(|@import|//", style.body)


async def test_the_page_shows_every_operation_and_leads_nowhere_in_vain(
    served: Served, document: Any
) -> None:
    page = Page((await served.get("/api/docs")).body.decode())
    named = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    for _, _, operation in operations(document):
        assert operation["operationId"] in named
    for _, attributes in page.tags:
        address = attributes.get("href") or ""
        if address.startswith("#"):
            assert address[1:] in named, address


async def test_u4_the_page_and_its_style_are_open_where_tokens_are_on(served: Served) -> None:
    await served.admin()
    for path in ("/api/docs", "/api/docs.css", "/api/openapi.json"):
        assert (await served.get(path)).status == 200
    assert (await served.get("/api/users")).status == 401


async def test_u4_text_of_the_document_stays_text(document: Any) -> None:
    evil = "<script>alert('`<b>`')</script>\""
    spoilt = json.loads(json.dumps(document))
    for _, _, operation in operations(spoilt):
        operation["summary"] = operation["description"] = evil
        for parameter in operation.get("parameters", []):
            parameter["description"] = parameter["example"] = evil
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content["example"] = {evil: evil}
    for schema in spoilt["components"]["schemas"].values():
        schema["description"] = evil
        if "enum" in schema:
            schema["enum"] = [evil]
    spoilt["info"]["title"] = spoilt["info"]["description"] = evil
    page = Page(docs_page(spoilt, f"http://{evil}"))
    assert not page.open
    assert not {tag for tag, _ in page.tags} & {"script", "b"}
