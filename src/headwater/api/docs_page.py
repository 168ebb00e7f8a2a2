"""The page that explains the API: made of the OpenAPI document, without any script (U4)."""

from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from headwater.api.docs_curl import curl
from headwater.api.docs_markup import details, element, prose, table
from headwater.api.docs_shapes import fields_of, kind_of, sample

Document = dict[str, Any]
_METHODS = ("get", "post", "put", "patch", "delete")
_KEPT_PAGES = 4  # one per address that people use for us


def docs_routes(api: FastAPI) -> APIRouter:
    """`/api/docs` and its stylesheet, open to everybody."""
    routes = APIRouter(prefix="/api", include_in_schema=False)
    style = files("headwater.api").joinpath("docs.css").read_bytes()

    @lru_cache(maxsize=_KEPT_PAGES)
    def page(address: str) -> str:
        return docs_page(api.openapi(), address)

    @routes.get("")
    async def api_itself() -> dict[str, str]:
        """Tell whoever asks for the API as such where it is explained."""
        return {"docs": "/api/docs", "openapi": "/api/openapi.json"}

    @routes.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        """Explain the API."""
        return HTMLResponse(page(str(request.base_url).rstrip("/")))

    @routes.get("/docs.css")
    async def docs_style() -> Response:
        """The looks of that page."""
        return Response(style, media_type="text/css")

    return routes


def docs_page(document: Document, address: str) -> str:
    """The whole page; `address` is where the examples send their requests."""
    info = document["info"]
    grouped = {tag["name"]: list(_tagged(document, tag["name"])) for tag in document["tags"]}
    links = "".join(
        element("li", element("a", prose(_titled(name)), href=f"#tag-{name}") + _count(len(found)))
        for name, found in grouped.items()
    )
    links += element("li", element("a", "Shapes", href="#shapes"))
    sections = "".join(
        _section(tag, grouped[tag["name"]], document, address) for tag in document["tags"]
    )
    body = (
        element("header", _heading(info))
        + element("nav", element("ul", links), aria_label="Parts of the API")
        + element("main", _access(document) + sections + _shapes(document))
    )
    return _HEAD.format(title=prose(info["title"])) + body + "</body></html>\n"


_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} API</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="/api/docs.css"></head><body>'
)


def _heading(info: Document) -> str:
    title = element("h1", prose(info["title"]) + element("small", f"API {prose(info['version'])}"))
    source = element("a", "openapi.json", href="/api/openapi.json")
    return (
        title
        + element("p", prose(info["summary"]), class_="lead")
        + element("p", prose(info["description"]))
        + element("p", f"For programs: {source}")
    )


def _access(document: Document) -> str:
    rows = [
        (element("code", prose(name)), prose(scheme["description"]))
        for name, scheme in document["components"]["securitySchemes"].items()
    ]
    heading = element("h2", "Access", id="access")
    return element("section", heading + table(("Authorization", "what it carries"), rows))


def _tagged(document: Document, tag: str) -> Iterator[tuple[str, str, Document]]:
    for path, item in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in item and tag in item[method]["tags"]:
                yield method, path, item[method]


def _section(
    tag: Document, found: list[tuple[str, str, Document]], document: Document, address: str
) -> str:
    heading = element("h2", prose(_titled(tag["name"])), id=f"tag-{tag['name']}")
    told = element("p", prose(tag["description"]), class_="lead")
    operations = "".join(_operation(*one, document, address) for one in found)
    return element("section", heading + told + operations)


def _operation(
    method: str, path: str, operation: Document, document: Document, address: str
) -> str:
    badge = element("span", method.upper(), class_=f"method {method}")
    where = element("code", _breakable(path), class_="path")
    lock = "" if operation.get("security") != [] else element("span", "open", class_="open")
    line = badge + where + element("span", prose(operation["summary"]), class_="what") + lock
    told = operation["description"]
    inside = "" if told == f"{operation['summary']}." else element("p", prose(told))
    inside += _parameters(operation) + _body(operation, document)
    command = curl(method, path, operation, address)
    inside += element("h3", "Try it") + element("pre", element("code", prose(command, code=False)))
    inside += element("h3", "Answers") + _answers(operation, document)
    return details(line, element("div", inside), id=operation["operationId"], class_="operation")


def _breakable(path: str) -> str:
    """A path that may wrap behind its slashes."""
    return prose(path).replace("/", "/<wbr>")


def _parameters(operation: Document) -> str:
    rows = [
        (
            element("code", prose(one["name"])) + _needed(one.get("required", False)),
            one["in"],
            kind_of(one["schema"]),
            prose(one.get("description", "")),
        )
        for one in operation.get("parameters", [])
    ]
    if not rows:
        return ""
    return element("h3", "Parameters") + table(("name", "in", "type", "meaning"), rows)


def _needed(required: bool) -> str:
    return element("span", "required", class_="needed") if required else ""


def _body(operation: Document, document: Document) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    shown = "".join(_content(kind, content, document) for kind, content in contents.items())
    return element("h3", "Body") + shown if shown else ""


def _content(media_type: str, content: Document, document: Document) -> str:
    schema = content.get("schema", {})
    told = element("p", element("code", prose(media_type)) + " " + kind_of(schema))
    return told + fields_of(schema, document) + sample(content)


def _answers(operation: Document, document: Document) -> str:
    fine = ""
    errors = []
    for status, given in operation["responses"].items():
        answer = _resolved(given, document)
        number = element("span", prose(status), class_="status " + _colour(status))
        if status >= "400":
            errors.append((number, prose(answer["description"])))
        else:
            fine += _answer(number, answer, document)
    problem = kind_of({"$ref": "#/components/schemas/Problem"})
    told = element("p", f"An error is answered with a {problem}:")
    return fine + told + table(("status", "meaning"), errors)


def _answer(number: str, answer: Document, document: Document) -> str:
    line = number + element("span", prose(answer["description"]))
    inside = "".join(
        element("p", element("code", prose(name)) + " " + prose(header["description"]))
        for name, header in answer.get("headers", {}).items()
    )
    for media_type, content in answer.get("content", {}).items():
        inside += _content(media_type, content, document)
    return details(line, element("div", inside), class_="answer", open="")


def _resolved(answer: Document, document: Document) -> Document:
    if "$ref" not in answer:
        return answer
    common: Document = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return common


def _colour(status: str) -> str:
    return "good" if status < "400" else "bad"


def _shapes(document: Document) -> str:
    """Every schema that has a name, for links to lead to."""
    shown = element("h2", "Shapes", id="shapes")
    for name, schema in sorted(document["components"]["schemas"].items()):
        told = element("p", prose(schema.get("description", "")))
        inside = told + (fields_of(schema, document) or element("p", kind_of(schema)))
        shown += element("article", element("h3", prose(name), id=f"shape-{name}") + inside)
    return element("section", shown)


def _titled(tag: str) -> str:
    return tag.upper() if tag == "opml" else tag.capitalize()


def _count(number: int) -> str:
    return element("small", f" {number}")
