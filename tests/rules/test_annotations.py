"""Annotations are JSON objects of at most 16 KB (E4)."""

import json
from typing import Any

import pytest

from headwater.rules.annotations import MAX_BYTES, MAX_DEPTH, annotations_text


def of_size(size: int, letter: str = "x") -> dict[str, Any]:
    """Annotations that take so many bytes."""
    left = size - len('{"a":""}')
    return {"a": letter * (left // len(letter.encode()))}


def test_e4_annotations_may_have_16_kib_and_not_a_byte_more():
    assert len(annotations_text(of_size(MAX_BYTES))) == MAX_BYTES == 16_384
    assert len(annotations_text(of_size(MAX_BYTES, "é")).encode()) == MAX_BYTES
    with pytest.raises(ValueError, match="at most 16,384 bytes as compact JSON, has 16,385"):
        annotations_text(of_size(MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"a": float("nan")}, "NaN"),
        ({"a": [float("inf")]}, "infinite"),
        ({"a": "\ud800"}, "broken characters"),
        ({"a": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}, "more than 20 levels"),
    ],
)
def test_e4_what_cannot_be_stored_or_served_is_refused(annotations: Any, message: str):
    with pytest.raises(ValueError, match=message):
        annotations_text(annotations)


def test_e4_any_other_json_object_comes_back_as_it_is():
    depth = MAX_DEPTH - 1
    kept = {
        "": None,
        "a": [1, 2.5, True, "\0 \n é \U0001f980"],
        "b": json.loads("[" * depth + "]" * depth),
    }
    assert json.loads(annotations_text(kept)) == kept
