"""The `watch` setting: which selectors and lines are accepted (W4)."""

import pytest

from headwater.css_selectors import Compound, parse_selectors
from headwater.source_settings import SETTINGS
from headwater.watch_settings import Delivery, WatchSettings


@pytest.mark.parametrize(
    ("text", "selectors"),
    [
        ("Main", [(Compound("main"),)]),
        ("*", [(Compound(),)]),
        ("#top.a.b", [(Compound(ids=("top",), classes=("a", "b")),)]),
        ("p[lang]", [(Compound("p", attributes=(("lang", None),)),)]),
        ("[ data-X = 'a b' ]", [(Compound(attributes=(("data-x", "a b"),)),)]),
        ('[a=b][c="d"]', [(Compound(attributes=(("a", "b"), ("c", "d"))),)]),
        ("ul  li", [(Compound("ul"), Compound("li"))]),
        ("ul>li", [(Compound("ul"), Compound("li", is_child=True))]),
        ("a , b > c", [(Compound("a"),), (Compound("b"), Compound("c", is_child=True))]),
        (r".md\:flex", [(Compound(classes=("md:flex",)),)]),
        (r"#\31 23", [(Compound(ids=("123",)),)]),
        ("#überschrift", [(Compound(ids=("überschrift",)),)]),
    ],
)
def test_w4_selectors_of_the_subset_are_read(text, selectors):
    assert list(parse_selectors(text)) == selectors


@pytest.mark.parametrize(
    "text",
    ["", " ", "a,", ",a", "a >", "> a", "a > > b", "a:hover", "p ~ p", "a + b", "a:has(b)", "[a",
     "[a^=b]", ".", "#", "a.b*", ".b a.", "{", "a" * 301, "a\0b", "\ud800", "[a='b]", "..", "\\"],
)  # fmt: skip
def test_w4_other_selectors_are_refused_and_named(text):
    with pytest.raises(ValueError, match=r"include: the selector .* is invalid: "):
        WatchSettings(include=(text,))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"include": "main"}, "include must be a list of texts"),
        ({"exclude": [1]}, "exclude must be a list of texts"),
        ({"ignore": ["a"] * 21}, "ignore has at most 20 items"),
        ({"ignore": ["* *"]}, "would ignore every line"),
        ({"ignore": [""]}, "would ignore every line, or none"),
        ({"ignore": ["a\nb"]}, "is not one line"),
        ({"ignore": ["a" * 301]}, "at most 300 characters"),
        ({"deliver": "all"}, "deliver must be page or additions"),
        ({"deliver": []}, "deliver must be page or additions"),
        ({"selectors": []}, "there is no field 'selectors'"),
    ],
)
def test_w4_other_wrong_values_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        SETTINGS["watch"].from_json(value)


def test_w4_a_value_survives_json():
    value = {"include": ["main"], "exclude": [], "ignore": ["# visitors"], "deliver": "additions"}
    watch = SETTINGS["watch"].from_json(value)
    assert watch == WatchSettings(("main",), (), ("# visitors",), Delivery.ADDITIONS)
    assert SETTINGS["watch"].from_json(SETTINGS["watch"].to_json(watch)) == watch
