"""Nouns that are made past `__init__` are like all others."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from headwater.fetch.fetcher import Fetcher
from headwater.fetch.response import Response
from headwater.model import Answer, Outcome, Source, Validators, changed, made
from headwater.rules.policy import Policy
from headwater.rules.urls import parse_url
from headwater.store.rows import SOURCE_COLUMNS, settings_of, source_from, state_of
from tests.factories import NOW, a_source, an_entry
from tests.rules.polling import FAILING, succeed, unchanged

NAMES = {kind: {field.name for field in fields(kind)} for kind in (Source, Outcome)}


def test_a_changed_noun_equals_a_replaced_one_and_leaves_the_first_alone():
    source = a_source(**FAILING)
    after = changed(source, {"last_polled": NOW, "consecutive_failures": 0})
    assert after == replace(source, last_polled=NOW, consecutive_failures=0)
    assert source == a_source(**FAILING)


def test_a_made_noun_has_its_defaults_and_cannot_be_changed():
    source = a_source()
    given = {name: getattr(source, name) for name in ("id", "podcast_id", "type", "url")}
    after = made(Source, {**given, "created_at": source.created_at})
    assert after == Source(**given, created_at=source.created_at)
    with pytest.raises(FrozenInstanceError):
        after.url = "https://elsewhere.test/"  # type: ignore[misc]


def test_a_source_that_was_read_has_exactly_the_fields_of_a_source():
    row = settings_of(a_source()) | state_of(a_source())
    assert vars(source_from(tuple(row[name] for name in SOURCE_COLUMNS))).keys() == NAMES[Source]


@pytest.mark.parametrize("outcome", [succeed(a_source(), an_entry()), unchanged(a_source())])
def test_what_a_success_decides_has_no_field_that_its_noun_has_not(outcome):
    assert vars(outcome.source).keys() == NAMES[Source]
    assert vars(outcome).keys() <= NAMES[Outcome]
    assert replace(outcome) == outcome


async def test_p8_the_answer_to_not_modified_equals_one_made_in_the_usual_way():
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
