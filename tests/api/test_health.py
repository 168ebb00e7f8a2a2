"""Health, readiness, the Host header, problem documents."""

import asyncio
import errno
import json
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from types import SimpleNamespace

import pytest

from headwater import __version__, logs
from headwater.api.factory import create_api
from headwater.api.middleware.origin_guard import host_part
from headwater.api.server import listen, web_server
from headwater.app import open_app
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoWeb, Reply
from headwater.engine.cluster.worker_counters import WorkerCounters
from headwater.errors import (
    ConfigError,
    DatabaseUnavailable,
    NotFound,
    SchemaTooNew,
    UsageError,
)
from headwater.operations.readiness import CheckStatus, disk, open_files, readiness
from headwater.operations.service_status import StatusCache
from headwater.rules.addresses import is_loopback
from headwater.settings import load_settings
from headwater.store.database import READERS
from tests.factories import a_source
from tests.scripted_host import ScriptedHost

OWN = "127.0.0.1"


def settings_in(folder, **options):
    wanted = {"app.database-url": f"sqlite:///{folder / 'test.db'}", **options}
    return load_settings(options=wanted, environ={}, cwd=folder)


@asynccontextmanager
async def serving(settings):
    """An API on a free port, with the service behind it."""
    async with open_app(settings) as app, app.service() as service:
        api = create_api(app, service)
        with listen(OWN, 0) as listener:
            server = web_server(api, end_streams=api.state.event_log.close)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:
                await asyncio.sleep(0.01)
            port = listener.getsockname()[1]
            yield SimpleNamespace(app=app, service=service, api=api, port=port)
            server.should_exit = True
            await task


async def get(port, path, *, host=OWN, lines=()):
    reader, writer = await asyncio.open_connection(OWN, port)
    heads = [f"GET {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), *lines]
    writer.write("\r\n".join([*heads, "Connection: close", "", ""]).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest)
    return int(first.split()[1]), headers, body


async def test_health_reports_version_and_schema(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        status, headers, body = await get(served.port, "/api/health")
        schema, _ = await served.app.store.schema()
    assert status == 200
    assert json.loads(body) == {"status": "ok", "version": __version__, "schema": schema}
    assert "server" not in headers


async def test_ready_needs_a_tick(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        status, headers, body = await get(served.port, "/api/ready")
        assert status == 503
        assert headers["content-type"] == "application/problem+json"
        found = json.loads(body)
        assert found["detail"] == "not ready: scheduler"
        assert found["checks"]["scheduler"] == {"ok": False, "detail": "no tick yet"}
        assert found["checks"]["database"]["ok"] is True
        await served.service.tick()
        status, _, body = await get(served.port, "/api/ready")
        assert status == 200
        names = {"database", "results", "scheduler", "loop", "outage", "names", "disk", "files"}
        assert set(json.loads(body)["checks"]) == names


async def test_k5_ready_names_the_failed_check(tmp_path):
    settings = settings_in(tmp_path)
    async with open_app(settings) as app, app.service() as service:
        await service.tick()
        app.store.database_error = "the disk is full"
        service.guard.kind = "DNS"
        service.metrics.loop_lag.note(6.0)
        for name in ("a.example", "b.example", "c.example"):
            service.metrics.names.note(name, False)
        later = app.clock.now().replace(year=2099)
        found = {c.name: c for c in await readiness(settings, app.store, service, later)}
    wrong = {name for name, check in found.items() if check.verdict is CheckStatus.WRONG}
    assert wrong == {"database", "scheduler", "loop", "outage", "names"}
    assert found["database"].cause == "the disk is full"
    assert found["database"].detail == "the last write failed; the log has the reason"
    assert found["outage"].detail.startswith("this machine seems to be offline (DNS)")
    assert found["names"].detail == "name servers do not respond: 3 names without an answer"


async def test_one_unresolved_name_or_a_short_lag_is_reported_but_not_unready(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        served.service.metrics.names.note("sick.example", False)
        served.service.metrics.loop_lag.note(2.0)
        status, _, body = await get(served.port, "/api/ready")
    checks = json.loads(body)["checks"]
    assert status == 200
    assert checks["names"]["detail"] == "1 without an answer since the last success"
    assert checks["loop"]["detail"] == "at most 2000 ms late in the last minutes"


async def test_o1_ready_reports_exhausted_file_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.operations.readiness.open_files", lambda: (1_010, 1_024.0))
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        status, _, body = await get(served.port, "/api/ready")
    found = json.loads(body)
    assert (status, found["detail"]) == (503, "not ready: files")
    assert found["checks"]["files"] == {"ok": False, "detail": "1,010 of 1,024 open"}


def test_o1_if_no_file_can_be_opened_all_are_counted_as_used(monkeypatch):
    def none_left(_):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("os.listdir", none_left)
    used, most = open_files()
    assert used == most > 0


async def test_k5_ready_counts_results_waiting_for_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.store.sqlite.BUSY_SECONDS", 0.01)
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": True})
    locked = asyncio.Event()

    async def response_while_locked(_):
        await locked.wait()
        return Reply(status=404)

    host = ScriptedHost(response_while_locked, name="missing")
    async with serving(settings) as served, DemoWeb([host], clock=SystemClock()) as web:
        store, service = served.app.store, served.service
        now = served.app.clock.now()
        await store.sources.add_many(
            [a_source(url=web.url("missing"), last_polled=now - timedelta(days=2))]
        )
        await service.tick()
        with closing(sqlite3.connect(tmp_path / "test.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # no other writer succeeds until this ends
            locked.set()
            while not store.results_waiting:
                await asyncio.sleep(0.01)
            status, _, body = await get(served.port, "/api/ready")
            other.execute("ROLLBACK")
        await service.lanes.emptied(service.lanes.names())
        after, _, _ = await get(served.port, "/api/ready")
    checks = json.loads(body)["checks"]
    assert (status, after, store.results_waiting) == (503, 200, 0)
    assert checks["results"] == {"ok": False, "detail": "results of 1 polls wait for the database"}
    assert checks["database"]["detail"] == "the last write failed; the log has the reason"


async def test_u6_ready_reveals_neither_folders_nor_database_messages(tmp_path, lines):
    logs.configure("json", "info", stream=lines)
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        fine = await get(served.port, "/api/ready")
        served.app.store.database_error = "cannot connect to db.internal as anna"
        troubled = [await get(served.port, "/api/ready") for _ in range(3)]
        served.app.store.database_error = None
        broken = "ALTER TABLE schema_version RENAME COLUMN version TO versions"
        await served.app.store.database.write(lambda session: session.execute(broken))
        again = await get(served.port, "/api/ready")
        assert json.loads(again[2])["checks"]["database"]["ok"] is False
    for _, _, body in (fine, *troubled, again):
        assert not [word for word in (str(tmp_path), "internal", "versions") if word in str(body)]
    reported = [json.loads(line) for line in lines.getvalue().splitlines() if "not ready" in line]
    assert [one["check"] for one in reported] == [
        "database"
    ]  # once, however many requests there are
    assert reported[0]["why"] == "cannot connect to db.internal as anna"
    assert str(tmp_path) in disk(settings_in(tmp_path)).detail  # reported by `doctor`


async def hang(database):
    """Block every reader of a database; returns the function that releases them."""
    let_go = threading.Event()
    began = [threading.Event() for _ in range(READERS)]

    def wait(one):
        one.set()
        let_go.wait(30)

    waiting = [asyncio.create_task(database.read(lambda _, one=e: wait(one))) for e in began]
    for event in began:
        await asyncio.to_thread(event.wait, 30)
    return let_go, waiting


async def test_health_responds_while_the_database_does_not(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        let_go, waiting = await hang(served.app.store.database)
        asked = [get(served.port, path) for path in ("/api/health", "/api/ready")]
        try:
            health, ready = await asyncio.wait_for(asyncio.gather(*asked), 20)
        finally:
            let_go.set()
            await asyncio.gather(*waiting)
        again = await get(served.port, "/api/health")
    assert (health[0], json.loads(health[2])["schema"]) == (200, None)
    assert ready[0] == 503
    assert json.loads(ready[2])["checks"]["database"]["detail"] == "no response within 5 s"
    assert isinstance(json.loads(again[2])["schema"], int)


async def test_k5_a_status_page_waits_only_once_for_an_unresponsive_database(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        app = served.app
        watch = StatusCache(app.store, app.clock, app.policy, 60)
        let_go, waiting = await hang(app.store.database)
        try:
            async with asyncio.timeout(13):  # one after the other, three queries would take 15 s
                found = await watch.read()
        finally:
            let_go.set()
            await asyncio.gather(*waiting)
    assert (found.backlog, found.by_health, found.schema) == (None, None, None)


async def test_k7_ready_reports_a_schema_that_another_version_has_upgraded(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        await served.app.store.database.execute("INSERT INTO schema_version VALUES (9999)")
        status, _, body = await get(served.port, "/api/ready")
        with pytest.raises(SchemaTooNew, match="schema 9999"):
            await served.service.tick()
    found = json.loads(body)
    assert (status, found["detail"]) == (503, "not ready: database")
    assert found["checks"]["database"]["detail"].startswith("schema 9999, this program knows ")


async def test_health_responds_when_the_database_is_broken(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        broken = "ALTER TABLE schema_version RENAME COLUMN version TO versions"
        await served.app.store.database.write(lambda session: session.execute(broken))
        health = await get(served.port, "/api/health")
        ready = await get(served.port, "/api/ready")
    assert (health[0], json.loads(health[2])["schema"]) == (200, None)
    assert (ready[0], json.loads(ready[2])["checks"]["database"]["ok"]) == (503, False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (OWN, 200),
        (f"{OWN}:1", 200),
        ("localhost:8420", 200),
        ("LOCALHOST.", 200),
        ("[::1]:8420", 200),
        ("feeds.example", 200),
        ("127.1", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example:8420", 403),
        ("", 403),
        ("[::1", 403),
        ("feeds.example@evil.example", 403),
        ("10.0.0.1", 403),
    ],
)
async def test_u3_the_host_header_must_be_an_allowed_name(tmp_path, host, status):
    settings = settings_in(tmp_path, **{"app.server.allowed-hosts": ["feeds.example"]})
    async with serving(settings) as served:
        got, headers, body = await get(served.port, "/api/health", host=host)
    assert got in (status, 400)  # a header that is no host is refused by the server library
    if got == 403:
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(body)["status"] == 403


async def test_u3_two_host_headers_or_none_are_refused(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        twice = await get(served.port, "/api/health", lines=["Host: evil.example"])
        none = await get(served.port, "/api/health", host=None)
    assert twice[0] in (400, 403)
    assert none[0] in (400, 403)


async def test_errors_are_problem_documents(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        routes = {
            "/api/lost": NotFound("there is no such thing"),
            "/api/odd": UsageError("must be a number", field="limit"),
            "/api/away": DatabaseUnavailable("the database is away"),
            "/api/broken": RuntimeError("secret detail"),
        }

        def failing(error):
            async def route():
                raise error

            return route

        for path, error in routes.items():
            served.api.add_api_route(path, failing(error))
        found = {path: await get(served.port, path) for path in (*routes, "/nothing")}
    documents = {path: json.loads(body) for path, (_, _, body) in found.items()}
    assert [found[path][0] for path in found] == [404, 422, 503, 500, 404]
    for path, document in documents.items():
        assert found[path][1]["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail", "errors"} <= set(document)
    assert documents["/api/odd"]["errors"] == [{"field": "limit", "message": "must be a number"}]
    assert "secret" not in json.dumps(documents)


def test_an_occupied_port_is_a_one_line_error():
    with (
        listen(OWN, 0) as taken,
        pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1 port .*in use") as caught,
    ):
        listen(OWN, taken.getsockname()[1])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.org", False),
    ],
)
def test_loopback_addresses_are_recognised(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("header", "host"), [("a:1", "a"), ("a", "a"), ("[::1]:1", "::1"), ("[::1]", "::1")]
)
def test_the_host_of_a_header(header, host):
    assert host_part(header) == host


def test_disk_has_a_text_for_every_database(tmp_path):
    assert disk(settings_in(tmp_path)).verdict is not CheckStatus.WRONG
    url = "postgresql://anna@db.example/headwater"
    settings = load_settings(options={"app.database-url": url}, environ={}, cwd=tmp_path)
    assert disk(settings).verdict is CheckStatus.OK


async def test_k5_ready_reports_a_deleted_database_file(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        (tmp_path / "test.db").unlink()
        status, _, body = await get(served.port, "/api/ready")
    detail = json.loads(body)["checks"]["database"]["detail"]
    assert status == 503
    assert detail.startswith("the file was deleted or replaced while this process was running")


async def test_k5_ready_and_metrics_report_how_long_results_wait_in_a_worker(tmp_path):
    async with serving(settings_in(tmp_path)) as served:
        await served.service.tick()
        served.service.workers = (WorkerCounters(oldest_result_seconds=12.0),)
        status, _, body = await get(served.port, "/api/ready")
        _, _, metrics = await get(served.port, "/metrics")
    checks = json.loads(body)["checks"]
    assert status == 503
    assert checks["results"]["detail"] == "results or queries of the scheduler have waited for 12 s"
    assert b"headwater_oldest_result_seconds 12" in metrics
    assert b"_oldest_result_seconds For how long the oldest poll result, or query of the" in metrics
