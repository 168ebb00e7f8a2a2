"""Every kind of failure has its own text."""

import pytest

from headwater.rules.failure_kinds import KINDS
from headwater.web.failure_texts import outage_for, tag_for, text_for


@pytest.mark.parametrize("on_x", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "permanent"])
def test_every_kind_is_reported_in_sentences(kind: str, on_x: bool):
    words = text_for(kind, on_x=on_x)
    assert words.what[0].isupper()
    assert not words.what.endswith(".")
    assert words.todo.endswith(".")
    assert words.advice.endswith(".")
    assert len(words.tag) < 30
    assert (words == text_for("unheard of")) == (kind == "unexpected")


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        ("404", "nothing there (404)"),
        ("503", "server error (503)"),
        ("429", "too many requests (429)"),
        ("418", "HTTP 418"),
        ("timeout", "no answer in time"),
        ("unexpected", "unknown error"),
    ],
)
def test_a_tag_names_the_status_too(kind: str, reported: str):
    assert tag_for(kind) == reported


def test_x_failures_have_their_own_texts():
    assert text_for("401", on_x=True).what == "X refuses your key"
    assert "login" in text_for("401").what
    assert text_for("500", on_x=True) == text_for("500")


def test_o2_o3_an_outage_describes_its_symptoms():
    assert outage_for("DNS") == "no name can be looked up"
    assert outage_for("403").endswith("access denied (403)")
