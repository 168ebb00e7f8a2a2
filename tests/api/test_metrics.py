"""`/metrics`: format, values and access; the Grafana dashboard and the monitoring page."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from headwater import __version__
from headwater.api.routes.metrics import MEDIA_TYPE, exposition
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoWeb, Reply
from headwater.errors import DatabaseUnavailable
from headwater.operations.metric_families import Family, Sample
from headwater.operations.service_status import CachedValue
from headwater.operations.storage import back_up_and_record
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.api.prometheus_text import MetricFamily, read
from tests.api.stored_data import polled, source_of
from tests.scripted_host import ScriptedHost
from tests.store.store_data import StoreClock

ROOT = Path(__file__).resolve().parents[2]
FEED = b"""<rss version="2.0"><channel><title>River</title><item><title>Level</title>
<link>https://example.org/1</link><description>It rose.</description></item></channel></rss>"""
_METRIC = re.compile(r"\b(?:headwater|process)_[a-z_]+\b")


async def scrape(served: Served, token: str | None = None) -> dict[str, MetricFamily]:
    answer = await served.get("/metrics", token=token)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    return read(answer.body.decode())


def a_web() -> DemoWeb:
    hosts = [
        ScriptedHost(lambda _: Reply(body=FEED, content_type="application/rss+xml"), name="good"),
        ScriptedHost(lambda _: Reply(status=404), name="missing"),
        ScriptedHost(lambda _: Reply(status=429, headers={"Retry-After": "600"}), name="busy"),
    ]
    return DemoWeb(hosts, clock=SystemClock())


async def test_a_scrape_reports_poll_counters_and_the_current_state(served_by_each: Served):
    served = served_by_each
    async with a_web() as web:
        for host in ("good", "missing", "busy"):
            url = web.url(host, "/feed?token=secret")
            made = await served.post(f"{DEFAULT}/sources", {"type": "rss", "url": url})
            await served.service.poll_now(made.json["id"])
        await served.service.tick()
        answer = await served.get("/metrics")
        found = read(answer.body.decode())
        addresses = [web.address(host) for host in ("good", "missing", "busy")]

    polls = found["headwater_polls_total"]
    assert (polls["outcome=stored,type=rss"], polls["outcome=failed,type=rss"]) == (1, 2)
    assert (polls["outcome=discarded"], polls["type=website"]) == (0, 0)
    assert found["headwater_posts_stored_total"][""] == 1
    failures = found["headwater_poll_failures_total"]
    assert (failures["kind=404"], failures["kind=429"], failures["kind=other"]) == (1, 1, 0)
    assert found["headwater_poll_duration_seconds"].values["_count", (("type", "rss"),)] == 3
    assert found["headwater_lane_wait_seconds"].values["_count", ()] == 3
    assert found["headwater_lanes_on_hold"][""] == 1
    sources = found["headwater_sources"]
    assert (sources["health=ok"], sources["health=failing"], sources["health=new"]) == (1, 2, 0)
    assert found["headwater_sources_enabled"][""] == 3
    assert found["headwater_sources_due"][""] == 0
    assert found["headwater_commit_outcomes"].values["_sum", ()] == 3
    assert found["headwater_commit_duration_seconds"].values["_sum", ()] > 0
    assert found["headwater_tick_duration_seconds"].values["_count", ()] == 1
    assert found["headwater_tick_duration_seconds"].values["_sum", ()] > 0
    assert found["headwater_info"][f"version={__version__}"] == 1
    assert found["process_resident_memory_bytes"][""] > 10_000_000
    assert 3 < found["process_open_fds"][""] < found["process_max_fds"][""]
    # U6; labels that grow with stored data would overload the metrics storage
    for reported in ("secret", "default", *addresses):
        assert reported not in answer.body.decode()


async def test_an_empty_service_serves_every_family(served: Served):
    found = await scrape(served)
    assert {family.kind for family in found.values()} == {"counter", "gauge", "histogram"}
    for name, family in found.items():
        assert family.values, name
        assert name.endswith("_total") == (family.kind == "counter"), name
        assert family.meaning.endswith("."), name


async def test_u2_metrics_are_for_administrators_once_tokens_exist(served: Served):
    assert (await served.get("/metrics")).status == 200
    user, admin = await served.person("ann"), await served.admin()
    nobody, someone = await served.get("/metrics"), await served.get("/metrics", token=user)
    assert (nobody.status, someone.status) == (401, 403)
    for refused in (nobody, someone):
        assert "`headwater tokens add prometheus --scope metrics`" in refused.json["detail"]
    assert someone.headers["Content-Type"] == "application/problem+json"
    assert (await scrape(served, admin))["headwater_info"][""] == 1


@pytest.mark.parametrize("path", ["/metric", "/metrics/", "/metrics/x", "/nothing", "/"])
async def test_u2_unknown_paths_are_404_for_authenticated_users(served: Served, path: str):
    admin = await served.admin()
    assert (await served.get(path)).status in (
        401,
        303,
    )  # 303: browsers are redirected to the login page
    answer = await served.get(path, token=admin)
    assert (answer.status, answer.json["status"]) == (404, 404)
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_open_event_streams_are_counted(served: Served):
    async with served.session.get(f"{served.url}/api/events") as stream:
        assert stream.status == 200
        assert (await scrape(served))["headwater_event_streams"][""] == 1


async def test_h2_a_document_over_the_budget_of_parsing_is_counted(tmp_path: Path):
    page = b"<html><body>" + b"<p>The river <b>rose</b>.</p>" * 250_000
    host = ScriptedHost(lambda _: Reply(body=page, content_type="text/html"), name="heavy")
    settings = settings_in(tmp_path, **{"app.fetch.parse-memory-mb": 64})
    async with DemoWeb([host], clock=SystemClock()) as web, serving(settings) as served:
        url = web.url("heavy", "/page")
        made = await served.post(f"{DEFAULT}/sources", {"type": "website", "url": url})
        await served.service.poll_now(made.json["id"])
        found = await scrape(served)
    assert found["headwater_parse_kills_total"][""] == 1
    assert found["headwater_poll_failures_total"]["kind=too expensive"] == 1


def test_labels_are_escaped_and_numbers_spelled_as_prometheus_wants_them():
    odd = 'a "quoted"\\ \n text'
    samples = (Sample(float("inf"), {"label": odd}), Sample(1.5, {"label": "b"}))
    text = exposition([Family("x", "gauge", "Odd.", samples)])
    assert text.splitlines()[2:] == [
        r'x{label="a \"quoted\"\\ \n text"} +Inf',
        'x{label="b"} 1.5',
    ]
    assert read(text)["x"]["label=b"] == 1.5


class SlowQuery:
    """A database query that takes a given time."""

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock
        self.asked = 0
        self.seconds = 0.0
        self.away = False

    async def __call__(self) -> int:
        await self._clock.sleep(self.seconds)
        self.asked += 1
        if self.away:
            raise DatabaseUnavailable("away")
        return self.asked


async def test_frequent_scrapes_rarely_query_the_database():
    clock = StoreClock()
    answers = SlowQuery(clock)
    kept = CachedValue(answers, clock, share=0.1)
    assert [await kept.get() for _ in range(5)] == [1] * 5
    clock.seconds += 6
    assert await kept.get() == 2
    clock.seconds += 6
    answers.seconds = 2  # now an expensive query: cached for twenty seconds
    assert await kept.get() == 3
    clock.seconds += 19
    assert await kept.get() == 3
    clock.seconds += 2
    answers.away = True
    assert await kept.get() is None


async def test_a_scrape_reports_size_cleanup_backlog_and_last_backup(
    served_by_each: Served, tmp_path: Path
):
    served = served_by_each
    store, now = served.app.store, served.app.clock.now()
    source = await source_of(served)
    await polled(served, source, started_at=now - timedelta(days=30))
    await back_up_and_record(store, tmp_path / "backup.db", now - timedelta(hours=2))

    found = await scrape(served)
    assert found["headwater_database_bytes"][""] > 100_000
    assert ("headwater_database_free_bytes" in found) != store.database.takes_workers
    backlog = found["headwater_cleanup_backlog"]
    assert (backlog["kind=polls"], backlog["kind=posts"]) == (1, 0)
    assert 7200 <= found["headwater_last_backup_age_seconds"][""] < float("inf")


async def test_every_metric_of_the_dashboard_is_served(served: Served):
    found = await scrape(served)
    dashboard = json.loads((ROOT / "deploy/grafana/headwater.json").read_text(encoding="utf-8"))
    used = names_in(dashboard)
    assert used - served_names(found) == set()
    unused = set(found) - {base(name, found) for name in used}
    assert unused == set(), "worth a panel, or not worth a metric"


def test_the_dashboard_imports_into_any_grafana():
    dashboard = json.loads((ROOT / "deploy/grafana/headwater.json").read_text(encoding="utf-8"))
    assert dashboard["id"] is None
    assert next(v["type"] for v in dashboard["templating"]["list"]) == "datasource"
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert re.search(r'job=~"\$(worker_)?job"', target["expr"])
    areas = [
        {(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)}
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set().union(*areas)) == len(areas), "two panels lie on each other"


async def test_the_monitoring_page_names_every_metric_and_no_other(served: Served):
    found = await scrape(served)
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_]+)`[^|]*\| (\w+) \|", page, re.MULTILINE))
    assert rows == {name: family.kind for name, family in found.items()}
    assert set(_METRIC.findall(page)) - served_names(found) == set()
    labels = {
        label
        for family in found.values()
        for _, has in family.values
        for label, _ in has
        if label != "le"
    }
    for label in labels:
        assert f"`{label}`" in page


def names_in(node: object) -> set[str]:
    if isinstance(node, dict):
        expressions = [v for k, v in node.items() if k in ("expr", "query", "definition")]
        own = {n for e in expressions if isinstance(e, str) for n in _METRIC.findall(e)}
        return own.union(*(names_in(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(names_in(value) for value in node))
    return set()


def served_names(found: dict[str, MetricFamily]) -> set[str]:
    """The names of the served samples."""
    return {name + suffix for name, family in found.items() for suffix, _ in family.values} | set(
        found
    )


def base(name: str, found: dict[str, MetricFamily]) -> str:
    """The family that a sample's name belongs to."""
    return name if name in found else re.sub(r"_(bucket|sum|count)$", "", name)
