"""The page of a source explains its schedule without technical terms."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model import Hold, HostState, Source
from headwater.rules.explanation import LaneStatus, explain
from headwater.source_settings import FullText
from headwater.web.explanation_texts import shown_steps
from tests.factories import NOW, a_policy, a_source

MINUTE = timedelta(minutes=1)
TERMS = re.compile(
    r"\b(lanes?|ticks?|holds?|effective interval|poll(s|ed)?|host|headwater)\b", re.I
)
SOURCES = (
    a_source(),
    a_source(last_polled=NOW),
    a_source(last_polled=NOW, consecutive_failures=3, full_text=FullText.ON),
    a_source(last_polled=NOW, requested_at=NOW),
    a_source(last_polled=NOW, enabled=False),
    a_source(url="no url at all", host=None, last_polled=NOW),
)
LANES = (
    LaneStatus(),
    LaneStatus(polling=True, in_flight=True),
    LaneStatus(ahead=0, in_flight=True),
    LaneStatus(ahead=1, seconds_before=20),
    LaneStatus(ahead=5, seconds_before=90),
    LaneStatus(in_flight=True),
    LaneStatus(paused=True),
    LaneStatus(outage="DNS"),
)


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
@pytest.mark.parametrize("lane", LANES, ids=range(len(LANES)))
def test_steps_have_no_technical_terms(source: Source, lane: LaneStatus):
    state = HostState("feeds.example.org")
    resting = replace(state, next_allowed_at=NOW + MINUTE, next_allowed_set_at=NOW - MINUTE)
    held = replace(state, hold=Hold(NOW + MINUTE, NOW - MINUTE, "HTTP 429 Too Many Requests"))
    for place in (state, resting, held):
        for polled in (True, False):
            found = explain(
                source, place, NOW, a_policy(), polled=polled, lane=lane, pages_pending=2,
                storm_kind="404", search=(NOW, None), key_advice="`headwater keys set x`",
            )  # fmt: skip
            steps = shown_steps(found.steps)
            assert [step.at for step in steps] == [step.at for step in found.steps]
            for step in steps:
                text = f"{step.what}: {step.detail}".replace("feeds.example.org", "")
                assert not TERMS.search(text), text
