"""Every kind of failure has words of its own."""

import pytest

from headwater.rules.failure import KINDS
from headwater.web.failure_words import outage_for, tag_for, words_for


@pytest.mark.parametrize("on_x", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "permanent"])
def test_every_kind_is_told_in_sentences(kind: str, on_x: bool):
    words = words_for(kind, on_x=on_x)
    assert words.what[0].isupper()
    assert not words.what.endswith(".")
    assert words.todo.endswith(".")
    assert words.advice.endswith(".")
    assert len(words.tag) < 30
    assert (words == words_for("unheard of")) == (kind == "unexpected")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("404", "nothing there (404)"),
        ("503", "server trouble (503)"),
        ("429", "asked too often (429)"),
        ("418", "HTTP 418"),
        ("timeout", "no answer in time"),
        ("unexpected", "something unknown"),
    ],
)
def test_a_tag_names_the_status_too(kind: str, told: str):
    assert tag_for(kind) == told


def test_x_is_told_of_by_its_own_means():
    assert words_for("401", on_x=True).what == "X refuses your key"
    assert "login" in words_for("401").what
    assert words_for("500", on_x=True) == words_for("500")


def test_o2_o3_an_outage_says_how_it_shows():
    assert outage_for("DNS") == "no name can be looked up"
    assert outage_for("403").endswith("not let in (403)")
