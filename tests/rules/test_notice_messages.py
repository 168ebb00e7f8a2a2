"""Notices: one message about all events, safe in headers and HTML (Y3)."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.rules.incidents import Incident, IncidentKind, Severity
from headwater.rules.notice_messages import DIGEST_EVENT, Notice, notice_of, sample_notice
from headwater.rules.webhook_messages import (
    MAX_PAYLOAD_BYTES,
    incident_happening,
    message_id,
    payload,
)

NOW = datetime(2026, 2, 16, 8, tzinfo=UTC)
BROKEN = Incident(
    "i1", IncidentKind.FAILING, Severity.ERROR, "default", "river.example",
    "river.example: a source fails", "Open the address in a browser.", NOW, None, ("s1",),
)  # fmt: skip
OVER = replace(BROKEN, closed_at=NOW + timedelta(hours=3))


def composed(*incidents: Incident) -> Notice:
    messages = dict(map(stored, incidents))
    return notice_of("c", messages, NOW)


def stored(incident: Incident) -> tuple[str, str]:
    happening = incident_happening(incident, ())
    at = incident.closed_at or incident.opened_at
    id_ = message_id("c", happening.event, incident.id)
    return id_, payload(happening.event, at, happening.data)


def test_y3_a_problem_says_what_is_wrong_what_to_do_and_since_when():
    notice = composed(BROKEN)
    assert notice.subject == "Headwater: river.example: a source fails"
    for text in (notice.text, notice.html):
        assert "river.example: a source fails" in text
        assert "Open the address in a browser." in text
        assert "Reported 2026-02-16 08:00 UTC." in text
    assert not notice.is_good
    assert json.loads(notice.payload)["type"] == "incident.opened"


def test_y3_the_end_says_how_long_it_lasted():
    notice = composed(OVER)
    assert notice.subject == "Headwater: resolved: river.example: a source fails"
    assert "Reported 2026-02-16 08:00 UTC, over since 2026-02-16 11:00 UTC." in notice.text
    assert notice.is_good


def test_y3_beginning_and_end_together_are_listed_once_as_resolved():
    notice = composed(BROKEN, OVER)
    assert notice.text.count(BROKEN.title) == 1
    assert notice.subject == "Headwater: resolved: river.example: a source fails"
    listed: Any = json.loads(notice.payload)
    assert listed["type"] == DIGEST_EVENT
    assert [one["closedAt"] for one in listed["data"]["incidents"]] == ["2026-02-16T11:00:00.000Z"]


def others(count: int, **changes: Any) -> list[Incident]:
    return [replace(BROKEN, id=f"x{n}", title=f"Problem {n}", **changes) for n in range(count)]


@pytest.mark.parametrize(
    ("incidents", "subject"),
    [
        (others(3), "Headwater: 3 problems"),
        ([BROKEN, replace(OVER, id="i2")], "Headwater: 1 problem, 1 resolved"),
        (others(2, closed_at=NOW), "Headwater: 2 problems resolved"),
    ],
)
def test_y3_several_are_counted_in_the_subject(incidents: list[Incident], subject: str):
    assert composed(*incidents).subject == subject


def test_y3_a_message_is_bounded():
    notice = composed(*others(120, advice="a" * 300))
    assert "And 70 more." in notice.text
    assert "And 70 more." in notice.html
    assert len(notice.payload.encode()) <= MAX_PAYLOAD_BYTES
    assert len(composed(replace(BROKEN, title="long " * 200)).subject) <= 120


def test_y3_m6_u7_titles_from_outside_are_neither_headers_nor_html():
    evil = replace(BROKEN, title="a\r\nBcc: eve@example.org\r\n\r\n<script>x</script>\x1b[31m\0")
    notice = composed(evil)
    assert notice.subject == "Headwater: a Bcc: eve@example.org <script>x</script> [31m"
    assert "<script>" not in notice.html
    assert "\nBcc" not in notice.text


def test_y3_the_id_depends_on_the_events_alone():
    assert composed(BROKEN, OVER).id == composed(BROKEN, OVER).id
    assert len({composed(BROKEN).id, composed(OVER).id, composed(BROKEN, OVER).id}) == 3
    assert composed(BROKEN).id == stored(BROKEN)[0]


def test_y3_messages_link_to_the_dashboard_if_its_address_is_known():
    messages, site = dict([stored(BROKEN)]), "https://hw.example.org"
    without = notice_of("c", messages, NOW)
    assert without.link is None
    assert "http" not in without.text + without.html
    notice = notice_of("c", messages, NOW, dashboard=site)
    assert notice.link == f"{site}/#incident-i1"
    assert f"  {site}/#incident-i1\n" in notice.text
    assert f'<a href="{site}/#incident-i1">' in notice.html
    both = messages | dict([stored(replace(BROKEN, id="i2"))])
    assert notice_of("c", both, NOW, dashboard=site).link == f"{site}/"
    assert sample_notice("c", "1", NOW, dashboard=site).link == f"{site}/"


def test_y3_a_test_message_is_quiet():
    notice = sample_notice("c", "once", NOW)
    assert notice.is_quiet
    assert notice.id != sample_notice("c", "again", NOW).id
