"""When incidents begin, change and end (Y1, Y2)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.rules.incident_texts import SourceState
from headwater.rules.incidents import (
    Evidence,
    Incident,
    IncidentChanges,
    IncidentKind,
    ServiceState,
    Severity,
    incident_changes,
    worst_first,
)
from tests.factories import NOW

HOUR = timedelta(hours=1)
HOST = "example.org"
MB = 1024**2


def state(id_: str = "a", **changes: Any) -> SourceState:
    return replace(SourceState(id_, "anna", HOST, f"Feed {id_}"), **changes)


def failing(id_: str = "a", *, hours: float, kind: str = "timeout", **changes: Any) -> SourceState:
    since = NOW - hours * HOUR
    return state(id_, failures=3, failing_since=since, kinds=(kind, None, None), **changes)


def decided(
    sources: Sequence[SourceState] = (),
    incidents: Sequence[Incident] = (),
    service: ServiceState | None = None,
    **others: Any,
) -> IncidentChanges:
    evidence = Evidence(incidents=incidents, sources=sources, **others)
    return incident_changes(evidence, service or ServiceState(), NOW, failing_hours=24)


def kinds(changes: IncidentChanges) -> list[IncidentKind]:
    assert not changes.updated
    assert not changes.closed
    return [incident.kind for incident in changes.opened]


DISABLED = state(enabled=False, auto_disabled=True, failures=5, kinds=("404",))
PROBLEMS = [
    (failing(hours=24), IncidentKind.FAILING),
    (failing(hours=23.9), None),
    (DISABLED, IncidentKind.DISABLED),
    (state(enabled=False, failures=5), None),  # a person disabled it (Y2)
    (failing(hours=6, kind="403"), IncidentKind.REJECTING),
    (failing(hours=5.9, kind="403"), None),
    (failing(hours=6, kind="404"), None),
    (state(failures=3, failing_since=NOW, kinds=("selector",) * 3), IncidentKind.SELECTOR),
    (state(failures=2, failing_since=NOW, kinds=("selector", "selector", None)), None),
    (state(failures=4, failing_since=NOW, kinds=("selector", "selector", "timeout")), None),
    (state(silent_since=NOW - 300 * HOUR, pace="5 a week"), IncidentKind.SILENT),
    (state(silent_since=NOW - 300 * HOUR, enabled=False), None),
    (state(), None),
]


@pytest.mark.parametrize(("source", "kind"), PROBLEMS)
def test_y1_a_source_with_a_problem_opens_an_incident(
    source: SourceState, kind: IncidentKind | None
):
    assert kinds(decided([source])) == ([] if kind is None else [kind])


def test_y1_a_disabled_source_that_works_when_polled_on_request_stays_in_its_incident():
    (incident,) = decided([failing(hours=30)]).opened
    works = state(enabled=False, auto_disabled=True)
    (updated,) = decided([works], [incident]).updated
    assert updated.title.startswith("“Feed a” has failed: ")


def test_y1_after_a_long_storm_sources_that_still_fail_are_not_reported_again():
    sources = [failing("a", hours=30, kind="404"), failing("b", hours=30, kind="404")]
    (storm,) = decided(sources, storms=frozenset({HOST})).opened
    assert storm.kind is IncidentKind.STORM
    changes = decided(sources[:1], [storm])
    assert [one.source_ids for one in changes.updated] == [("a",)]
    assert not changes.opened
    assert not changes.closed
    assert decided([failing("a", hours=3, kind="404")], [storm]).closed


def test_y1_several_sources_of_a_host_with_the_same_problem_are_one_incident():
    sources = [failing(id_, hours=30) for id_ in "abc"]
    elsewhere = failing("d", hours=30, host="other.example")
    changes = decided([*sources, elsewhere, failing("e", hours=30, user_id="bert")])
    found = {(one.user_id, one.host): one.source_ids for one in changes.opened}
    assert found == {
        ("anna", HOST): ("a", "b", "c"),
        ("anna", "other.example"): ("d",),
        ("bert", HOST): ("e",),
    }
    assert changes.opened[0].title.startswith("3 sources of example.org have failed since 16 Feb")


def test_y1_a_host_rejects_only_if_all_its_sources_are_rejected_and_none_succeeded():
    rejected = failing("a", hours=7, kind="429")
    assert kinds(decided([rejected, failing("b", hours=9, kind="401")])) == ["rejecting"]
    assert not decided([rejected, failing("b", hours=7, kind="timeout")])
    assert not decided([rejected], working=frozenset({("anna", HOST)}))


def test_y1_an_incident_opens_once_and_closes_when_its_source_works_again():
    (opened,) = decided([failing(hours=25)]).opened
    assert not decided([failing(hours=25)], [opened])  # known already
    # other failures, even of another kind, are still the same problem
    assert not decided([replace(failing(hours=26), failures=9)], [opened]).closed
    (closed,) = decided([state()], [opened]).closed
    assert (closed.id, closed.closed_at, closed.source_ids) == (opened.id, NOW, ("a",))


def test_y1_a_source_that_is_given_up_later_stays_in_its_incident():
    (opened,) = decided([failing(hours=25, kind="404")]).opened
    given_up = failing(hours=30, kind="404", enabled=False, auto_disabled=True)
    changes = decided([given_up], [opened])
    assert not changes.opened
    assert not changes.closed
    assert "given up on “Feed a”" in changes.updated[0].title


@pytest.mark.parametrize(
    "after",
    [
        state(),  # it recovered, or a person enabled it again
        state(enabled=False, failures=5),  # a person disabled it
        None,  # it was removed
    ],
)
def test_y1_an_incident_of_a_source_ends_with_its_problem(after: SourceState | None):
    (opened,) = decided([DISABLED]).opened
    changes = decided([] if after is None else [after], [opened])
    assert [one.id for one in changes.closed] == [opened.id]


def test_y1_sources_join_and_leave_an_open_incident():
    (opened,) = decided([failing("a", hours=25), failing("b", hours=25)]).opened
    changes = decided([state("a"), failing("b", hours=26), failing("c", hours=25)], [opened])
    assert not changes.opened
    assert not changes.closed
    assert [(one.id, one.source_ids) for one in changes.updated] == [(opened.id, ("b", "c"))]


def test_y1_a_missing_selector_ends_with_a_success_not_with_another_failure():
    missing = state(failures=3, failing_since=NOW, kinds=("selector",) * 3)
    (opened,) = decided([missing]).opened
    other = replace(missing, failures=4, kinds=("timeout", "selector", "selector"))
    assert not decided([other], [opened])
    assert decided([state()], [opened]).closed


@pytest.mark.parametrize(
    ("service", "free_bytes", "kind"),
    [
        (ServiceState(outage=True), None, IncidentKind.OUTAGE),
        (ServiceState(outage=False), None, None),
        (ServiceState(waiting_seconds=60), None, IncidentKind.STORING),
        (ServiceState(waiting_seconds=59), None, None),
        (ServiceState(), 400 * MB, IncidentKind.DISK),
        (ServiceState(), 600 * MB, None),
    ],
)
def test_y1_problems_of_the_whole_service_open_incidents(
    service: ServiceState, free_bytes: int | None, kind: IncidentKind | None
):
    changes = decided(service=service, free_bytes=free_bytes)
    assert kinds(changes) == ([] if kind is None else [kind])
    assert all(one.user_id is None and one.host is None for one in changes.opened)


def test_y1_problems_of_the_service_end_only_well_beyond_where_they_began():
    (full,) = decided(free_bytes=400 * MB).opened
    assert not decided((), [full], free_bytes=700 * MB)
    assert decided((), [full], free_bytes=800 * MB).closed
    (storing,) = decided(service=ServiceState(waiting_seconds=70)).opened
    assert not decided((), [storing], ServiceState(waiting_seconds=20))
    assert decided((), [storing], ServiceState(waiting_seconds=1)).closed


def test_y1_an_outage_ends_with_a_success_not_with_a_restart():
    (outage,) = decided(service=ServiceState(outage=True)).opened
    restarted = ServiceState(outage=False)
    assert not decided((), [outage], restarted)
    assert not decided((), [outage], restarted, succeeded_at=NOW - HOUR)
    assert decided((), [outage], restarted, succeeded_at=NOW + HOUR).closed


def test_y1_a_stall_that_could_not_be_stored_at_once_is_stored_later_with_its_beginning():
    since = NOW - timedelta(minutes=5)
    (storing,) = decided(service=ServiceState(waiting_seconds=0, stalled_since=since)).opened
    assert storing.opened_at == since
    assert decided((), [storing], ServiceState(waiting_seconds=0)).closed


def test_y1_a_process_that_does_not_know_the_state_of_the_service_changes_nothing():
    state = ServiceState(outage=True, waiting_seconds=70)
    opened = decided(service=state, free_bytes=400 * MB).opened
    assert len(opened) == 3
    assert not decided((), opened)


def test_y2_the_worst_come_first_then_the_oldest():
    (silent,) = decided([state(silent_since=NOW)]).opened
    (error,) = decided([DISABLED]).opened
    older = replace(error, id="older", opened_at=NOW - HOUR)
    assert worst_first([silent, error, older]) == [older, error, silent]
    assert [silent.severity, error.severity] == [Severity.WARNING, Severity.ERROR]


@pytest.mark.parametrize(
    ("source", "title", "advice"),
    [
        (
            DISABLED,
            "Headwater has given up on “Feed a”: nothing is at the address any more (404)",
            "Open the site",
        ),
        (
            failing(hours=30, kind="502"),
            "“Feed a” has failed since 16 February 2026: the site has an error",
            "usually ends by itself",
        ),
        (
            failing(hours=30, kind="login"),
            "“Feed a” has failed since 16 February 2026: the address leads to a login",
            "opens without a login",
        ),
        (
            failing(hours=7, kind="403"),
            "example.org has rejected every request for hours: the site denies access (403)",
            "Open the address in a browser",
        ),
        (
            state(failures=3, failing_since=NOW, kinds=("selector",) * 3),
            "“Feed a”: the selected part of the page is missing",
            "choose the watched parts again",
        ),
        (
            state(silent_since=NOW - 300 * HOUR, pace="5 a week"),
            "“Feed a” has published nothing since 5 February 2026 (usually 5 a week)",
            "Open the site",
        ),
    ],
)
def test_y2_an_incident_says_what_is_wrong_and_what_to_do(
    source: SourceState, title: str, advice: str
):
    (incident,) = decided([source]).opened
    assert incident.title == title
    assert advice in incident.advice
