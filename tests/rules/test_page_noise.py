"""Noise detection: which lines make each version of a page differ (W6)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.ignored_lines import identity_text
from headwater.rules.page_noise import noisy_lines

LINES = ["River", "{}", "The river rose during the night.", "Milk 1.20", "14:00"]


def versions(*changing: str) -> list[str]:
    return ["\n".join(LINES).format(text) for text in changing]


@pytest.mark.parametrize(
    ("changing", "suggested"),
    [
        (("It is 12:00", "It is 12:30", "It is 13:00"), ("It is #:#",)),
        (("1234 visitors", "1235 visitors", "1240 visitors"), ("# visitors",)),
        (("Updated 3 min ago", "Updated 9 min ago", "Updated 2 hours ago"), ("Updated # * ago",)),
        (("Updated just now", "Updated 1 min ago", "Updated an hour ago"), ("Updated *",)),
        (("17", "18", "19"), ("#",)),
        (("Seen 999 times", "Seen 1,001 times", "Seen 1,205 times"), ("Seen * times",)),
        (("更新于3分钟前", "更新于4分钟前", "更新于12分钟前"), ("更新于#分钟前",)),
        (("ONLINE 4", "online 5", "Online 6"), ("ONLINE #",)),
        # a line that is not always another one: it may be content
        (("It is 12:00", "It is 12:00", "It is 12:30"), ()),
        (("It is 12:00", "It is 12:30", "It is 12:30"), ()),
        # nothing in common, or too little
        (("A flood", "Two storms", "Good news"), ()),
        (("999", "1,001", "1,205"), ()),
        # the pattern would match another line, which is content
        (("12:00", "12:30", "13:00"), ()),
        # much text is replaced: this is content
        ([f"Today: {word * 30}" for word in ("ab ", "cd ", "ef ")], ()),
        ([f"{n} " + "long line " * 30 for n in range(3)], ()),
        # an asterisk of the page is no wildcard for a digit
        (("3 # 4", "4 # 4", "5 # 4"), ()),
    ],
)
def test_w6_the_line_that_always_changes_is_generalised(changing, suggested):
    assert noisy_lines(versions(*changing), ()) == suggested


def test_w6_several_lines_are_noise_together():
    texts = [f"{n}:00\nText\n{n} visitors" for n in (1, 2, 3)]
    assert noisy_lines(texts, ()) == ("#:#", "# visitors")
    assert noisy_lines(texts, ["#:#"]) == ("# visitors",)
    assert noisy_lines(texts, ["#:#", "# visitors"]) == ()


@pytest.mark.parametrize(
    "texts",
    [
        ["Milk 1.20\nTea 2.00", "Milk 1.30\nTea 2.00", "Milk 1.30\nTea 2.10"],  # other lines
        ["It is 1:00\nA", "It is 2:00\nA", "It is 3:00\nB"],  # and another one once
        ["It is 1:00\nA", "It is 2:00\nA", "It is 3:00\nA\nB"],
        ["It is 1:00", "It is 2:00"],  # two versions only
        ["\n".join(f"{name} {n}" for name in "abcdef") for n in range(3)],  # six lines
        ["same", "same", "same"],
        ["", "", ""],
    ],
)
def test_w6_other_differences_are_no_noise(texts):
    assert noisy_lines(texts, ()) == ()


def test_w6_nothing_is_suggested_if_the_setting_has_no_room():
    ignore = [f"line {word}" for word in "abcdefghijklmnopqrst"]
    assert len(ignore) == 20
    assert noisy_lines(versions("It is 1:00", "It is 2:00", "It is 3:00"), ignore) == ()


words = st.lists(st.sampled_from(["Updated", "3", "14:05", "ago", "#", "*", "x9y"]), max_size=6)
line = words.map(" ".join)


@given(st.lists(st.lists(line, min_size=1, max_size=3), min_size=3, max_size=3))
def test_w6_with_the_suggested_lines_the_versions_are_the_same(texts):
    joined = ["\n".join(lines) for lines in texts]
    suggested = noisy_lines(joined, ())
    if suggested:
        assert len({identity_text(text, suggested) for text in joined}) == 1
        assert all(one != other for one, other in pairwise(joined))
