"""Differences between versions of a text (W5)."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.text_diff import DiffOp, additions, text_diff

pieces = st.lists(
    st.sampled_from(["A. ", "B! ", "C c.", "x\n", "\n\n", " ", "日本。", "Dr. ", "q"])
)
texts = st.text() | pieces.map("".join)


def joined(parts, *ops):
    return "".join(part.text for part in parts if part.op in ops)


def shown(old, new):
    marks = {DiffOp.SAME: "=", DiffOp.ADDED: "+", DiffOp.REMOVED: "-"}
    return [marks[part.op] + part.text for part in text_diff(old, new)]


@given(texts, texts)
def test_w5_the_parts_make_up_both_versions(old, new):
    parts = text_diff(old, new)
    assert joined(parts, DiffOp.SAME, DiffOp.ADDED) == new
    assert joined(parts, DiffOp.SAME, DiffOp.REMOVED) == old
    assert all(part.text for part in parts)
    assert all(one.op is not other.op for one, other in pairwise(parts))


@given(texts)
def test_w5_a_text_does_not_differ_from_itself(text):
    assert all(part.op is DiffOp.SAME for part in text_diff(text, text))
    assert additions(text, text) == ""


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("One. Two.", "One. Three. Two.", ["=One. ", "+Three. ", "=Two."]),
        ("One. Two. Three.", "One. Three.", ["=One. ", "-Two. ", "=Three."]),
        ("One. Two.", "One. Zwei.", ["=One. ", "-Two.", "+Zwei."]),
        ("One.\nTwo.", "One. Two.", ["=One.", "-\n", "+ ", "=Two."]),
        ("Level\n3 m\nMill", "Level\n5 m\nMill", ["=Level\n", "-3 m", "+5 m", "=\nMill"]),
        ("Dr. No left. End.", "Dr. Who left. End.", ["-Dr. No left.", "+Dr. Who left.", "= End."]),
        ('I said "No!" A b.', 'I said "No!" A c.', ['=I said "No!" ', "-A b.", "+A c."]),
        ("水。橋は閉鎖。", "水。橋は開放。", ["=水。", "-橋は閉鎖。", "+橋は開放。"]),
        ("", "New.", ["+New."]),
        ("Old.", "", ["-Old."]),
        ("", "", []),
    ],
)  # fmt: skip
def test_w5_a_difference_consists_of_whole_sentences_and_lines(old, new, parts):
    assert shown(old, new) == parts


def test_w5_repeated_lines_with_few_changes_are_matched_exactly():
    old = ["0", "1"] * 5_000
    new = [*old[:4_000], "new", *old[4_000:9_000], *old[9_001:]]
    parts = text_diff("\n".join(old), "\n".join(new))
    assert joined(parts, DiffOp.ADDED).split() == ["new"]
    assert joined(parts, DiffOp.REMOVED).split() == ["0"]


def test_w5_what_needs_too_many_steps_counts_as_replaced():
    def drawn(seed):
        chosen = Random(seed)
        return "Start.\n" + "".join(chosen.choice(["a\n", "b\n"]) for _ in range(20_000)) + "End."

    parts = text_diff(drawn(1), drawn(2))
    assert joined(parts, DiffOp.SAME, DiffOp.ADDED) == drawn(2)
    assert joined(parts, DiffOp.SAME, DiffOp.REMOVED) == drawn(1)
    assert parts[0].text.startswith("Start.") and parts[-1].text.endswith("End.")
    assert len(parts) < 10


def test_w5_shuffled_sentences_keep_what_is_in_order():
    old = [f"Sentence {n}." for n in range(3_000)]
    new = old[:]
    Random(3).shuffle(new)
    parts = text_diff(" ".join(old), " ".join(new))
    assert joined(parts, DiffOp.SAME, DiffOp.ADDED) == " ".join(new)
    assert joined(parts, DiffOp.SAME).count("Sentence") > 50


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        ("One. Two.", "One. Three. Two.", "Three."),
        ("One.\nTwo.", "New. Story.\nOne.\nTwo.\nLast.", "New. Story.\nLast."),
        ("One. Two.", "Two. One.", ""),  # moved
        ("One.\nTwo.", "One.", ""),  # removed
        ("Mill\nopen\nBridge\nclosed", "Mill\nclosed\nBridge\nclosed", "closed"),
        ("One. Two.", "One.\n\nTwo.", ""),  # spaces
    ],
)
def test_w5_additions_are_the_sentences_that_only_the_new_version_has(old, new, added):
    assert additions(old, new) == added
