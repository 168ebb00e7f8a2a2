"""Queries of the Grafana dashboard and the alert rules: metrics exist, totals are not added up."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.conftest import Served
from tests.api.prometheus_text import read

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus/headwater.rules.yaml"
_METRIC = re.compile(r"\b(?:headwater|process)_[a-z_]+")
# different on each server; all other metrics are totals that every server of a database reports
OWN = re.compile(r"process_|headwater_http_|headwater_event_streams|headwater_info")
AGGREGATIONS = "sum max min avg count group topk bottomk quantile stddev".split()
_CALL = re.compile(r"(\w+)\s*(?:(?:by|without|on)\s*\([^()]*\)\s*)?$")


def dashboard_queries() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "grafana/headwater.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def aggregation_of(query: str, position: int) -> str | None:
    """The innermost aggregation around a position of a query."""
    depth = 0
    for index in range(position - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(query[index], 0)
        if depth < 0:
            depth = 0
            call = _CALL.search(query[:index])
            if call and call[1] in AGGREGATIONS:
                return call[1]
    return None


def totals_added_up(query: str) -> list[str]:
    """The totals of a query that are not taken from one of several servers."""
    return [
        found[0]
        for found in _METRIC.finditer(query)
        if not OWN.match(found[0])
        and "worker_job" not in query
        and aggregation_of(query, found.start()) not in ("max", "min", "avg")
    ]


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum(headwater_sources)", ["headwater_sources"]),
        ("headwater_sources_due", ["headwater_sources_due"]),
        ("sum(max by (job) (headwater_sources))", []),
        ("sum by (le) (rate(headwater_polls_total[5m]))", ["headwater_polls_total"]),
        ("sum by (le) (max by (le) (rate(headwater_polls_total[5m])))", []),
        ("max(a) + headwater_sources", ["headwater_sources"]),
        ("sum(headwater_http_requests_total)", []),
    ],
)
def test_totals_that_are_added_up_are_found(query: str, wrong: list[str]):
    assert totals_added_up(query) == wrong


def test_the_dashboard_adds_up_no_totals_of_several_servers():
    queries = list(dashboard_queries())
    assert len(queries) > 40
    assert {query: totals_added_up(query) for query in queries if totals_added_up(query)} == {}


def test_alert_rules_add_up_no_totals_of_several_servers():
    for rule in rules():
        assert totals_added_up(rule["expr"]) == [], rule["alert"]


async def test_every_metric_of_the_alert_rules_is_served(served: Served):
    found = read((await served.get("/metrics")).body.decode())
    for rule in rules():
        assert set(_METRIC.findall(rule["expr"])) <= set(found), rule["alert"]


def test_alert_rules_are_complete():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) > 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]


if shutil.which("promtool"):

    @pytest.mark.system
    def test_prometheus_accepts_the_rules_and_the_queries_of_the_dashboard(tmp_path: Path):
        queries = [
            {"record": f"q{number}", "expr": query.replace("$__rate_interval", "5m")}
            for number, query in enumerate(dashboard_queries())
        ]
        file = tmp_path / "dashboard.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}))
        check = ["promtool", "check", "rules", str(RULES), str(file)]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.system
    def test_two_servers_of_one_database_are_counted_once(tmp_path: Path):
        series = [
            {"series": f'{name}{{job="headwater",instance="{server}"}}', "values": values}
            for server in ("a", "b")
            for name, values in {"headwater_sources_due": "7x20", "headwater_lanes": "3x20"}.items()
        ]
        polls = 'headwater_polls_total{job="headwater",type="rss",outcome="stored"'
        series += [{"series": f'{polls},instance="{s}"}}', "values": "0+60x20"} for s in "ab"]
        expected = {"headwater_sources_due": ("{}", 7), "headwater_lanes{": ("{}", 3)}
        expected["sum by (type) (max by"] = ('{type="rss"}', 1)  # polls per second
        tests = []
        for part, (labels, value) in expected.items():
            query = next(query for query in dashboard_queries() if part in query)
            for name, text in {"$__rate_interval": "5m", "$job": ".*", "$instance": ".*"}.items():
                query = query.replace(name, text)
            sample = {"labels": labels, "value": value}
            tests.append({"expr": query, "eval_time": "10m", "exp_samples": [sample]})
        whole = [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]
        file = tmp_path / "test.yaml"
        file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": whole}))
        check = ["promtool", "test", "rules", str(file)]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.system
    def test_alerts_fire_once_with_two_servers_and_not_in_normal_operation(tmp_path: Path):
        series = [
            {"series": f'{name}{{job="headwater",instance="{server}"}}', "values": values}
            for server in ("a", "b")
            for name, values in {
                "up": "1x600",
                "headwater_last_tick_age_seconds": "30x60 900x120",
                "headwater_outage": "0x600",
            }.items()
        ]
        labels = {"job": "headwater", "severity": "critical"}
        texts = next(r for r in rules() if r["alert"] == "HeadwaterPollsNothing")["annotations"]
        fired = [{"exp_labels": labels, "exp_annotations": texts}]
        alerts = [
            {"eval_time": "30m", "alertname": "HeadwaterPollsNothing", "exp_alerts": []},
            {"eval_time": "90m", "alertname": "HeadwaterPollsNothing", "exp_alerts": fired},
            {"eval_time": "90m", "alertname": "HeadwaterDown", "exp_alerts": []},
        ]
        tests = [{"interval": "1m", "input_series": series, "alert_rule_test": alerts}]
        file = tmp_path / "test.yaml"
        file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
        check = ["promtool", "test", "rules", str(file)]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
