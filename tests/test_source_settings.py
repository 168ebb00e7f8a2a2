"""The settings of a source: every kind works in every interface, and the documents match.

`python -m tests.test_source_settings` rewrites the table of docs/source-settings.md.
"""

import inspect
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from typer.testing import CliRunner

from headwater.api.schemas.inputs import RequestModel, with_settings
from headwater.cli.setting_options import option_parameter, setting_text
from headwater.rules.policy import Policy
from headwater.source_settings import SETTINGS, Setting, about, declared_settings
from headwater.store.row_mapping import encoded, setting_decoder
from headwater.web.source_form import form_field, form_text, form_value

PAGE = Path(__file__).resolve().parents[1] / "docs" / "source-settings.md"


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Watch:
    include: tuple[str, ...] = ()
    most: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.most, int):
            raise ValueError("most must be a whole number")


def with_example(example: Any, **more: Any) -> Any:
    return about(label="Label", description="Meaning.", when_null="none", example=example, **more)


@dataclass(frozen=True)
class EveryKind:
    """One setting of each kind."""

    count: int | None = field(
        default=None, metadata=with_example(2, minimum=1, maximum=9, unit="days")
    )
    switch: bool = field(default=False, metadata=with_example(True))
    automatic: bool | None = field(default=None, metadata=with_example(True))
    text: str | None = field(default=None, metadata=with_example("abc", max_length=5))
    color: Color = field(
        default=Color.RED, metadata=with_example("red", choices={"red": "Red", "blue": "Blue"})
    )
    maybe_color: Color | None = field(
        default=None, metadata=with_example("red", choices={"red": "R", "blue": "B"})
    )
    watch: Watch | None = field(default=None, metadata=with_example({"include": ["main"]}))


KINDS = declared_settings(EveryKind)
JSON_WATCH = {"include": ["main"], "most": 5}
# name, value, in JSON, in its column, in the form, in the options of a command
CASES = [
    ("count", 3, 3, 3, "3", ["--count", "3"]),
    ("switch", True, True, True, "yes", ["--switch"]),
    ("switch", False, False, False, "", ["--no-switch"]),
    ("automatic", True, True, True, "always", ["--automatic"]),
    ("automatic", None, None, None, "auto", []),
    ("text", "abc", "abc", "abc", "abc", ["--text", "abc"]),
    ("color", Color.BLUE, "blue", "blue", "blue", ["--color", "blue"]),
    ("maybe_color", None, None, None, "", []),
    ("watch", Watch(("main",)), JSON_WATCH, '{"include": ["main"], "most": 5}',
     '{"include": ["main"], "most": 5}', ["--watch", '{"include": ["main"]}']),
    ("watch", None, None, None, "", []),
]  # fmt: skip
cases = pytest.mark.parametrize(("name", "value", "sent", "column", "text", "args"), CASES)


@with_settings(*KINDS.values())
class Body(RequestModel):
    """A body with one setting of each kind."""


@cases
def test_every_kind_passes_through_every_interface(name, value, sent, column, text, args):
    setting = KINDS[name]
    assert getattr(Body.model_validate({to_camel(name): sent}), name) == value
    assert encoded(value) == column
    decode = setting_decoder(setting)
    assert (column if decode is None or column is None else decode(column)) == value
    assert form_text(setting, value) == text
    assert form_value(setting, text) == value
    assert form_field(setting, Policy()).label == ("Label (days)" if name == "count" else "Label")
    assert parsed(setting, args) == value
    assert setting_text(setting, value) is not None or value is None


def parsed(setting: Setting, args: list[str]) -> Any:
    """The value that a command gets from its arguments."""
    program, given = typer.Typer(), []

    def command(**settings: Any) -> None:
        given.append(settings[setting.name])

    signature = inspect.Signature([option_parameter(setting)])
    command.__signature__ = signature  # type: ignore[attr-defined]
    program.command()(command)
    CliRunner().invoke(program, args, catch_exceptions=False)
    return given[0]


@pytest.mark.parametrize(
    ("name", "sent", "written"),
    [
        ("count", 10, "10"),
        ("count", "3", "x"),
        ("switch", None, None),
        ("automatic", "yes", "perhaps"),
        ("text", "a\nb", "a\nb"),
        ("color", "green", "green"),
        ("color", None, ""),
        ("watch", {"unknown": 1}, '{"unknown": 1}'),
        ("watch", "main", "main"),
        ("watch", [], "[]"),
        ("watch", {"most": "5"}, '{"most": "5"}'),
    ],
)
def test_a_wrong_value_is_refused(name, sent, written):
    with pytest.raises(ValidationError):
        Body.model_validate({to_camel(name): sent})
    if written is not None:
        with pytest.raises(ValueError):
            form_value(KINDS[name], written)


def test_every_setting_has_what_its_kind_needs():
    for setting in SETTINGS.values():
        assert setting.description.endswith("."), setting.name
        assert bool(setting.when_null) == setting.nullable, setting.name
        assert (setting.max_length > 0) == (setting.kind is str), setting.name
        assert setting.minimum < setting.maximum, setting.name
    options = [setting.option for setting in SETTINGS.values()]
    assert len(set(options)) == len(options)


def test_the_page_has_the_declared_settings():
    hint = "run `python -m tests.test_source_settings`"
    assert with_table(PAGE.read_text(encoding="utf-8")) == PAGE.read_text(encoding="utf-8"), hint


def with_table(page: str) -> str:
    """The page with a table of the settings as they are declared."""
    head = "| name | option | value | default | meaning |\n|---|---|---|---|---|\n"
    table = head + "".join(map(row_of, SETTINGS.values()))
    return re.sub(r"^\| name .*?\n(?!\|)", lambda _: table, page, flags=re.DOTALL | re.MULTILINE)


def row_of(setting: Setting) -> str:
    option = f"`{setting.option}`" if setting.on_command_line else "–"
    default = "required" if setting.required else f"`{json.dumps(setting.default)}`"
    if setting.name == "type":
        default = "detected for a new source"
    meaning = setting.description
    if setting.nullable:
        default = f"null: {setting.when_null}"
    name = to_camel(setting.name)
    return f"| `{name}` | {option} | {value_of(setting)} | {default} | {meaning} |\n"


def value_of(setting: Setting) -> str:
    if setting.kind is int:
        return f"{setting.minimum:,} … {setting.maximum:,} {setting.unit}".strip()
    if setting.kind is bool:
        return "true, false"
    if setting.kind is str:
        return f"one line, at most {setting.max_length:,} characters"
    if setting.is_structured:
        return f"such as `{json.dumps(setting.example)}`"
    return ", ".join(f"`{member.value}`" for member in setting.kind)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
