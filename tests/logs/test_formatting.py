"""One event is one line."""

import json
import re
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.logs import get_logger
from headwater.logs.formatting import json_line, text_line
from tests.logs.recorded_log import NOW, STAMP, written

EVIL = "a\nb\r\x1b[31mc\x00\x7f\x85\x9b\u2028\u2029\u202e\u2066\ud800\ufeffz"


def test_l1_a_text_line_is_time_level_event_and_fields(lines):
    written(lines).info("[Polling] stored", url="https://example.org/feed", new_posts=3, ms=412)
    assert lines.getvalue() == (
        f"{STAMP} info [Polling] stored url=https://example.org/feed new_posts=3 ms=412\n"
    )


def test_l1_a_json_line_is_an_object_with_the_same_fields(lines):
    written(lines, "json").warning("[Polling] failed", url="https://example.org/", status=404)
    assert json.loads(lines.getvalue()) == {
        "time": STAMP,
        "level": "warning",
        "event": "[Polling] failed",
        "url": "https://example.org/",
        "status": 404,
    }


class Colour(StrEnum):
    RED = "red"


class Unprintable:
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        (None, "null", None),
        (True, "true", True),
        (0, "0", 0),
        (1.5, "1.5", 1.5),
        (float("inf"), "inf", "inf"),
        ("", '""', ""),
        ("two words", '"two words"', "two words"),
        ('say "x"', r'"say \"x\""', 'say "x"'),
        (r"C:\new", r'"C:\\new"', r"C:\new"),
        ("grün", "grün", "grün"),
        (Colour.RED, "red", "red"),
        (ValueError("odd"), "odd", "odd"),
        (Unprintable(), '"<unprintable Unprintable>"', "<unprintable Unprintable>"),
        ({"a": [1, "b"]}, r'"{\"a\":[1,\"b\"]}"', {"a": [1, "b"]}),
    ],
)
def test_l1_every_kind_of_value_can_be_logged(value, text, plain):
    line = text_line(NOW, "info", "e", {"v": value})
    found = json.loads(json_line(NOW, "info", "e", {"v": value}))["v"]
    assert line == f"{STAMP} info e v={text}\n"
    assert found == plain


def test_l1_a_number_too_long_to_print_is_logged(lines):
    written(lines).info("e", value=10**5000)
    assert "value=0x" in lines.getvalue()


def test_l1_an_endless_structure_is_cut(lines):
    endless: dict[str, object] = {}
    endless["self"] = endless
    written(lines, "json").info("e", value=endless, many=list(range(10_000)))
    assert len(json.loads(lines.getvalue())["many"]) == 50


def test_l1_fields_cannot_replace_time_level_or_event(lines):
    written(lines, "json").info("e", level="fake", time="fake")
    line = json.loads(lines.getvalue())
    assert (line["level"], line["time"], line["level_"]) == ("info", STAMP, "fake")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_l1_events_below_the_level_are_not_written(lines, level, expected):
    log = written(lines, level=level)
    log.debug("e")
    log.info("e")
    log.warning("e")
    log.error("e")
    assert [line.split()[1] for line in lines.getvalue().splitlines()] == expected


def test_l1_an_existing_logger_follows_a_later_configuration(lines):
    log = get_logger(lane="example.org").bind(worker=1)
    written(lines, level="error")
    log.info("unseen")
    written(lines, "json", level="info")
    log.info("seen")
    assert json.loads(lines.getvalue())["lane"] == "example.org"


@pytest.mark.parametrize("form", ["text", "json"])
def test_u7_one_event_is_one_line_of_printable_characters(lines, form):
    log = written(lines, form)
    log.info(f"event {EVIL}", value=EVIL, error=ValueError(EVIL), nested={EVIL: [EVIL]})
    line = lines.getvalue()
    assert line.endswith("\n")
    assert not re.search(
        "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]", line[:-1]
    )


def test_u7_escaped_text_stays_readable(lines):
    written(lines).info("e", value="a\nb\x1b[31m\u202e\\n")
    assert lines.getvalue().endswith(r'value="a\nb\e[31m\u202e\\n"' + "\n")
    written(lines, "json").info("e", value=EVIL)
    assert json.loads(lines.getvalue().splitlines()[1])["value"] == EVIL


@given(st.text(), st.text())
def test_u7_no_text_breaks_a_line(event, value):
    for render in (text_line, json_line):
        line = render(NOW, "info", event, {"value": value, "url": value, value: 1})
        assert line[:-1].splitlines() == [line[:-1]]
        line.encode()


def test_u7_colour_codes_in_text_are_escaped(lines):
    written(lines, colours=True).info("e", value="\x1b[5mblink")
    assert re.sub(r"\x1b\[\d*m", "", lines.getvalue()) == f'{STAMP} info e value="\\e[5mblink"\n'
