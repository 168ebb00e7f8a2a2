"""Sources with the same address that are due together are fetched once (Y7)."""

from dataclasses import replace

import pytest

from headwater.model import Answer, SourceType, Validators
from headwater.rules.shared_requests import answer_for, longest_delay, may_share, shared_request
from headwater.watch_settings import WatchSettings
from tests.factories import a_policy, a_source, a_subject, an_entry

NEW = Validators('"2"')
OLD = Validators('"1"')


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"podcast_id": "other", "poll_interval_minutes": 5, "label": "Mine"}, True),
        ({"url": "https://user:secret@example.org/feed"}, False),
        ({"type": SourceType.WEBSITE}, False),
        ({"watch": WatchSettings(include=("main",))}, False),
    ],
)
def test_y7_the_same_type_address_and_selection_share_a_request(changes, shared):
    assert may_share(a_source(), a_source(**changes)) is shared


def test_y7_p8_a_request_is_conditional_only_if_all_sources_have_the_same_version():
    known = a_subject(a_source(validators=NEW, body_hash="b"))
    assert shared_request([known, known]) is known
    for other in (a_source(), a_source(validators=OLD, body_hash="a"), a_source(validators=NEW)):
        request = shared_request([known, a_subject(other)]).source
        assert (request.validators, request.body_hash) == (Validators(), None)
        assert request.id == known.source.id


@pytest.mark.parametrize("changes", [{"last_seen_id": None}, {"late_entry_hours": 24}])
def test_y7_t1_entries_that_one_source_may_lack_count_as_unseen(changes):
    seen = a_source(last_seen_id="2026-02-16T08:00:00.000Z", validators=NEW, body_hash="b")
    request = shared_request([a_subject(seen), a_subject(replace(seen, **changes))]).source
    assert request.last_seen_id is None
    assert (request.validators, request.body_hash) == (NEW, "b")


def test_y7_p8_a_source_that_has_the_document_already_gets_nothing_new():
    answer = Answer(200, (an_entry(),), validators=NEW, body_hash="b", title="T")
    assert answer_for(a_source(), answer) is answer
    unchanged = answer_for(a_source(body_hash="b"), answer)
    assert (unchanged.unchanged, unchanged.entries, unchanged.validators) == (True, (), NEW)
    not_modified = Answer(304, unchanged=True, validators=NEW)
    assert answer_for(a_source(body_hash="b"), not_modified) is not_modified


def test_y7_p2_the_lane_keeps_the_longest_delay_of_the_sources():
    sources = [a_source(poll_delay_seconds=seconds) for seconds in (1, 7, None)]
    found = longest_delay([a_subject(one) for one in sources], a_policy())
    assert found.poll_delay_seconds == 7
