"""Every request has an id, is counted by route and, if configured, has a line in the access log."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from headwater import logs
from headwater.errors import DatabaseUnavailable
from headwater.settings import load_settings
from headwater.web.factory import add_pages
from tests.api.conftest import DEFAULT, OWN, Answer, Served, serving, settings_in
from tests.api.prometheus_text import read

REQUEST_ID = "X-Request-Id"
COUNTED = "headwater_http_requests_total"
SECONDS = "headwater_http_request_duration_seconds"


@pytest.mark.parametrize("given", ["a", "x" * 128, "!~", "7f3a-Trace/1:2"])
async def test_a_valid_request_id_is_returned(served: Served, given: str):
    answer = await served.get("/api/health", headers={REQUEST_ID: given})
    assert ids(answer) == [given]


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "ü"])
async def test_an_invalid_request_id_is_replaced(served: Served, given: str):
    (new,) = ids(await served.get("/api/health", headers={REQUEST_ID: given}))
    assert re.fullmatch(r"[0-9a-f]{32}", new)


async def test_every_request_gets_an_id_of_its_own(served: Served):
    found = [ids(await served.get("/api/health"))[0] for _ in range(3)]
    assert len(set(found)) == 3


async def test_every_response_has_the_request_id(tmp_path: Path):
    async with serving(settings_in(tmp_path), add=add_pages) as served:
        failing(served, "/api/broken", RuntimeError("secret detail"))
        failing(served, "/broken", RuntimeError("secret detail"))
        token = await served.admin()
        large = b'"' + b"x" * 70_000 + b'"'
        calls: list[tuple[str, str, int, dict[str, Any]]] = [
            ("GET", "/api/users", 401, {}),
            ("GET", "/", 303, {}),
            ("GET", "/", 200, {"token": token}),
            ("GET", "/static/style.css", 200, {}),
            ("GET", "/nothing", 404, {"token": token}),
            ("HEAD", "/api/health", 200, {}),
            ("DELETE", "/api/health", 405, {}),
            ("POST", "/api/users", 413, {"token": token, "data": large}),
            ("POST", "/api/users", 422, {"token": token, "body": {}}),
            ("GET", "/api/users", 403, {"headers": {"Host": "elsewhere.example"}}),
            ("GET", "/api/broken", 500, {"token": token}),
            ("GET", "/broken", 500, {"token": token}),
        ]
        for method, path, status, options in calls:
            answer = await served.call(method, path, **options)
            assert (answer.status, len(ids(answer))) == (status, 1), (method, path)
        for _ in range(21):
            answer = await served.get("/api/users", token="wrong")
        assert (answer.status, len(ids(answer))) == (429, 1)


async def test_an_event_stream_has_the_request_id(served: Served):
    headers = {REQUEST_ID: "my-stream"}
    async with served.session.get(f"{served.url}/api/events", headers=headers) as stream:
        assert stream.headers.getall(REQUEST_ID) == ["my-stream"]


async def test_the_log_of_a_failed_request_has_its_id(served: Served, lines: io.StringIO):
    logs.configure("json", stream=lines)
    failing(served, "/api/broken", RuntimeError("broken route"))
    reason = DatabaseUnavailable("it is away")
    reason.__cause__ = OSError("disk")
    failing(served, "/api/away", reason)
    for path, request_id in (("/api/broken", "first"), ("/api/away", "second")):
        await served.get(path, headers={REQUEST_ID: request_id})
    first, second = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert (first["event"], first["request_id"]) == ("[API] a request failed", "first")
    assert first["exception"].endswith("RuntimeError: broken route")
    assert (second["event"], second["request_id"]) == ("[API] the database failed", "second")


async def test_head_is_no_error_and_keeps_the_connection(served: Served, lines: io.StringIO):
    logs.configure("json", stream=lines)
    for _ in range(2):
        answer = await served.call("HEAD", "/api/health")
        assert (answer.status, answer.body, "Connection" in answer.headers) == (200, b"", False)
    assert lines.getvalue() == ""


async def test_requests_are_counted_by_route(tmp_path: Path):
    async with serving(settings_in(tmp_path), add=add_pages) as served:
        for number in range(3):
            await served.get(f"{DEFAULT}/sources/no-such-{number}")
            await served.get(f"/nothing/{number}")
            await served.call(f"ODD{number}", f"{DEFAULT}/sources")
        await served.get(f"{DEFAULT}/sources")
        await served.call("HEAD", f"{DEFAULT}/sources")
        await served.get("/podcasts/default/sources")
        found = read((await served.get("/metrics")).body.decode())
    sources = "route=/api/users/{u}/podcasts/{p}/sources"
    counted = found[COUNTED]
    assert counted[f"method=GET,{sources}/{{s}},status=404"] == 3
    assert counted["method=GET,route=other,status=404"] == 3
    assert counted[f"method=other,{sources},status=405"] == 3
    assert counted[f"method=GET,{sources},status=200"] == 1
    assert counted[f"method=HEAD,{sources},status=200"] == 1
    assert counted["method=GET,route=/podcasts/{p}/sources,status=200"] == 1
    labels = (("method", "GET"), ("route", "/api/users/{u}/podcasts/{p}/sources/{s}"))
    assert found[SECONDS].values["_count", labels] == 3


async def test_without_a_setting_there_is_no_access_log(
    served: Served, capsys: pytest.CaptureFixture[str]
):
    await served.get("/api/health")
    assert capsys.readouterr().out == ""


async def test_the_access_log_has_one_line_per_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    options = {"app.server.access-log": "json", "app.server.trusted-proxies": [OWN]}
    async with serving(settings_in(tmp_path, **options)) as served:
        path = f"{DEFAULT}/feed.json"
        forwarded = {"X-Forwarded-For": "192.0.2.7", REQUEST_ID: "one"}
        url = URL(f"{served.url}{path}?to%6ben=s3cret&token=s3cret", encoded=True)
        async with served.session.get(url, headers=forwarded) as answer:
            status, body = answer.status, await answer.read()
        await served.call("HEAD", path)
        ann = await served.person("ann")
        await served.get("/api/users/ann", token=ann)
        await served.get("/api/users/ann", token="s3cret")
        user = await served.app.store.accounts.user("ann")
    written = capsys.readouterr().out
    assert "s3cret" not in written
    assert ann not in written
    first, head, own, refused = [json.loads(line) for line in written.splitlines()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first.pop("ms") >= 0
    assert first == {
        "level": "info",
        "event": "[API] request",
        "method": "GET",
        "route": "/api/users/{u}/podcasts/{p}/feed.json",
        "path": f"{path}?to%6ben=***&token=***",
        "status": status,
        "bytes": len(body),
        "client": "192.0.2.7",
        "who": "admin",
        "request_id": "one",
    }
    assert (head["method"], head["status"], head["bytes"]) == ("HEAD", 200, 0)
    assert (own["path"], own["status"], own["who"]) == ("/api/users/ann", 200, user.id)
    assert (refused["status"], refused["who"], refused["route"]) == (401, None, "other")


async def test_u6_secrets_are_masked_before_the_access_log_truncates_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async with serving(settings_in(tmp_path, **{"app.server.access-log": "json"})) as served:
        url = f"{served.url}/api/health?url=https://user:s3cret{'x' * 5000}@example.org/"
        async with served.session.get(URL(url, encoded=True)):
            pass
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["path"] == "/api/health?url=https://example.org/"


@pytest.mark.parametrize(
    ("text", "expected"), [("off", "off"), ("json", "json"), ('"off"', "off"), ("JSON", "json")]
)
def test_the_access_log_can_be_switched_off_in_yaml(tmp_path: Path, text: str, expected: str):
    file = tmp_path / "config.yaml"
    file.write_text(f"app: {{server: {{access-log: {text}}}}}\n")
    settings = load_settings(config_file=file, environ={}, cwd=tmp_path)
    assert settings.server.access_log == expected


def ids(answer: Answer) -> list[str]:
    found: Any = answer.headers
    return list(found.getall(REQUEST_ID))


def failing(served: Served, path: str, error: Exception) -> None:
    async def route() -> None:
        raise error

    served.api.add_api_route(path, route, include_in_schema=False)
