"""Charts as SVG: their content, and escaping of foreign text."""

from datetime import timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from headwater.model import OutcomeKind, PollRecord
from headwater.web.humanize import round_top
from headwater.web.rendering import templates
from tests.factories import NOW

EVIL = '<script>alert(1)</script>"\' onload="x'
SVG = "{http://www.w3.org/2000/svg}"


def read(svg: str) -> ET.Element:
    """A chart as its browser parses it; it must be well-formed."""
    assert "style=" not in svg
    named = str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return ET.fromstring(named)


class Bar(NamedTuple):
    """What a bar stacks, and its tooltip."""

    unchanged: int
    stored: int
    failed: int
    text: str = "now"


def a_chart(
    bars: list[Bar], title: str = "Checks", ticks: tuple[str, ...] = ("then", "now")
) -> str:
    draw: Any = templates().get_template("_charts.html").module
    parts = {"unchanged": "unchanged", "stored": "stored", "failed": "failed"}
    top = round_top(max((bar.unchanged + bar.stored + bar.failed for bar in bars), default=0))
    said = {"caller": lambda bar, _: escape(bar.text)}
    return str(draw.stacked_bars(bars, parts, top, "polls", title, "all of them", ticks, **said))


def a_strip(polls: list[PollRecord]) -> str:
    draw: Any = templates().get_template("_charts.html").module
    return str(draw.outcome_strip(polls))


def a_poll(kind: OutcomeKind = OutcomeKind.UNCHANGED, **changes: object) -> PollRecord:
    plain = {
        "id": 1, "source_id": "s1", "started_at": NOW, "duration_ms": 42, "outcome": kind,
        "status": 200, "size": 0, "new_posts": 0, "skipped": {}, "failure_type": None,
        "failure_kind": None, "error": None, "redirected_to": None,
    }  # fmt: skip
    return PollRecord(**plain | changes)  # type: ignore[arg-type]


def test_a_chart_has_a_title_a_summary_and_axis_labels():
    chart = read(a_chart([Bar(1, 2, 0, "a minute ago")], ticks=("1 h ago", "30 min", "now")))
    assert chart.get("role") == "img"
    assert chart.get("aria-labelledby") == "polls-title polls-text"
    assert chart.findtext(f"{SVG}title") == "Checks"
    assert chart.findtext(f"{SVG}desc") == "all of them"
    words = [text.text for text in chart.iter(f"{SVG}text")]
    assert words == ["0", "2", "4", "1 h ago", "30 min", "now"]


def test_bars_are_stacked_without_gaps_and_end_within_the_chart():
    chart = read(a_chart([Bar(3, 2, 1), Bar(0, 0, 0)]))
    full, empty = chart.findall(f"{SVG}g")
    parts = [rect for rect in full.iter(f"{SVG}rect") if rect.get("class") != "column"]
    assert [rect.get("class") for rect in parts] == ["unchanged", "stored", "failed"]
    bottoms = [float(rect.get("y", 0)) + float(rect.get("height", 0)) for rect in parts]
    tops = [float(rect.get("y", 0)) for rect in parts]
    assert bottoms[1:] == pytest.approx(tops[:-1], abs=0.02)
    assert tops[-1] > 0
    assert [rect.get("class") for rect in empty.iter(f"{SVG}rect")] == ["column"]


def test_a_chart_without_data_is_empty():
    assert read(a_chart([])).findall(f"{SVG}g") == []


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 2), (1, 2), (3, 4), (7, 8), (10, 10), (11, 12), (13, 16), (21, 30), (101, 120),
     (1040, 1200), (99_999, 100_000)],
)  # fmt: skip
def test_a_scale_ends_with_a_round_number(highest: int, top: int):
    assert round_top(highest) == top


@given(st.integers(0, 10**12))
def test_a_scale_holds_its_highest_value_and_has_a_whole_middle(highest: int):
    top = round_top(highest)
    assert highest <= top <= max(2 * highest, 2)
    assert top % 2 == 0


def test_u4_foreign_text_is_escaped():
    poll = a_poll(OutcomeKind.FAILED, error=EVIL)
    charts = (
        a_chart([Bar(1, 1, 1, EVIL)], title=EVIL, ticks=(EVIL,)),
        a_strip([poll]),
    )
    for chart in charts:
        assert "<script>" not in chart
        tree = read(chart)
        assert [e for e in tree.iter() if e.tag == f"{SVG}script" or "onload" in e.attrib] == []


def test_marks_are_ordered_by_time_and_differ_by_more_than_colour():
    polls = [a_poll(kind) for kind in (OutcomeKind.FAILED, OutcomeKind.UNCHANGED,
                                       OutcomeKind.STORED)]  # fmt: skip
    groups = read(a_strip(polls)).findall(f"{SVG}g")
    drawn = [[rect.get("class") for rect in group.iter(f"{SVG}rect")] for group in groups]
    assert drawn == [["stored"], ["unchanged"], ["failed", "gap"]]
    heights = [next(group.iter(f"{SVG}rect")).get("height") for group in groups]
    assert heights == ["24", "10", "24"]


@pytest.mark.parametrize(
    ("kinds", "reported"),
    [
        ([], "no check yet"),
        ([OutcomeKind.STORED], "the last check, which did not fail"),
        ([OutcomeKind.FAILED], "the last check, which failed"),
        ([OutcomeKind.STORED] * 2, "the last 2 checks, none of them failed"),
        ([OutcomeKind.FAILED, *[OutcomeKind.STORED] * 2], "the last 3 checks, 1 of them failed"),
    ],
)
def test_marks_are_described_by_their_count_and_failures(kinds: list[OutcomeKind], reported: str):
    assert read(a_strip([a_poll(kind) for kind in kinds])).get("aria-label") == reported


def test_a_poll_is_reported_in_one_line():
    def title_of(poll: PollRecord) -> str:
        return read(a_strip([poll])).findtext(f"{SVG}g/{SVG}title") or ""

    later = NOW + timedelta(hours=1)
    stored = a_poll(OutcomeKind.STORED, new_posts=1, started_at=later)
    assert title_of(stored) == "2026-02-17 13:00 UTC: 1 new post (42 ms)"
    assert title_of(a_poll()).endswith(": nothing new (42 ms)")
    failed = a_poll(OutcomeKind.FAILED, error="HTTP 404 Not Found")
    assert title_of(failed).endswith(": failed: HTTP 404 Not Found (42 ms)")
