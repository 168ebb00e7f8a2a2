"""Model objects created without `__init__` are like all others."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from headwater.fetch.fetcher import Fetcher
from headwater.fetch.net.http_response import Response
from headwater.model import Answer, Outcome, Source, Validators, changed, made
from headwater.rules.policy import Policy
from headwater.rules.urls import parse_url
from headwater.store.row_mapping import SOURCE_COLUMNS, read_source, row_of
from tests.factories import NOW, a_source, an_entry
from tests.rules.poll_outcomes import FAILING, succeed, unchanged

NAMES = {kind: {field.name for field in fields(kind)} for kind in (Source, Outcome)}


def test_a_changed_object_equals_a_replaced_one_and_leaves_the_first_unchanged():
    source = a_source(**FAILING)
    after = changed(source, {"last_polled": NOW, "consecutive_failures": 0})
    assert after == replace(source, last_polled=NOW, consecutive_failures=0)
    assert source == a_source(**FAILING)


def test_a_created_object_has_its_defaults_and_is_frozen():
    source = a_source()
    given = {name: getattr(source, name) for name in ("id", "podcast_id", "type", "url")}
    after = made(Source, {**given, "created_at": source.created_at})
    assert after == Source(**given, created_at=source.created_at)
    with pytest.raises(FrozenInstanceError):
        after.url = "https://elsewhere.test/"  # type: ignore[misc]


def test_a_source_read_from_the_store_has_exactly_the_fields_of_a_source():
    row = row_of(a_source())
    assert (
        vars(read_source.one(tuple(row[name] for name in SOURCE_COLUMNS))).keys() == NAMES[Source]
    )


@pytest.mark.parametrize("outcome", [succeed(a_source(), an_entry()), unchanged(a_source())])
def test_the_fields_of_a_success_are_all_fields_of_its_class(outcome):
    assert vars(outcome.source).keys() == NAMES[Source]
    assert vars(outcome).keys() <= NAMES[Outcome]
    assert replace(outcome) == outcome


async def test_p8_the_answer_to_not_modified_keeps_the_validators():
    nobody: Any = None
    fetcher = Fetcher(nobody, nobody, x_base_url="https://x.test", policy=Policy())
    source = a_source(validators=Validators('"1"', None))
    response = Response(
        304, {}, b"", parse_url(source.url), size=7, redirected_to="https://b.test/"
    )
    answer = await fetcher.answer(source, response)
    story: dict[str, Any] = {
        "validators": source.validators,
        "size": 7,
        "redirected_to": "https://b.test/",
    }
    assert answer == Answer(304, unchanged=True, **story)
    assert vars(answer).keys() <= {field.name for field in fields(Answer)}
