"""Command-line options for the settings of a source, made from their declarations."""

import inspect
import json
from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

import typer

from headwater.errors import UsageError
from headwater.model import Source
from headwater.source_settings import SETTINGS, Setting, SettingValues

Command = TypeVar("Command", bound=Callable[..., None])
_OPTIONS = tuple(setting for setting in SETTINGS.values() if setting.on_command_line)
_CLEARABLE = {s.option.removeprefix("--"): s.name for s in _OPTIONS if s.nullable}


def _clearable(text: str) -> str:
    if text not in _CLEARABLE:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, _CLEARABLE))}.")
    return text


Clear = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        parser=_clearable,
        autocompletion=lambda: list(_CLEARABLE),
        help=f"Reset to the default: {', '.join(_CLEARABLE)}.",
    ),
]


def setting_options(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Decorator: the command's `**settings` become an option for each setting.

    A setting that is not given is None.
    """
    options = [option_parameter(setting) for setting in _OPTIONS if setting.name not in without]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        first = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        last = [p for p in own if p.kind is p.KEYWORD_ONLY]
        complete = signature.replace(parameters=[*first, *options, *last])
        command.__signature__ = complete  # type: ignore[attr-defined]
        return command

    return decorate


def changes_from(settings: SettingValues, clear: Collection[str]) -> dict[str, Any]:
    """The settings that were given, with None for each that shall be cleared."""
    changes = {name: value for name, value in settings.items() if value is not None}
    for option in clear:
        name = _CLEARABLE[option]
        if name in changes:
            raise UsageError(f"--{option} and --clear {option} contradict each other")
        changes[name] = None
    return changes


def setting_rows(source: Source, *, without: Collection[str]) -> dict[str, str | None]:
    """The settings of a source for people, by label."""
    shown = (setting for setting in SETTINGS.values() if setting.name not in without)
    rows: dict[str, str | None] = {}
    for setting in shown:
        text = setting_text(setting, getattr(source, setting.name))
        rows[setting.label] = text and f"{text} {setting.unit}".strip()
    return rows


def setting_text(setting: Setting, value: Any) -> str | None:
    """A value for people; None: the default applies."""
    if setting.kind is bool:
        return {None: "automatic", True: "yes", False: "no"}[value]
    if value is None:
        return None
    return json.dumps(setting.to_json(value)) if setting.is_structured else str(value)


def option_parameter(setting: Setting) -> inspect.Parameter:
    """The option for a setting, as a parameter of a command; None if it is not given."""
    value_type: Any = setting.kind
    annotation = Annotated[value_type | None, _option(setting)]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(setting.name, kind, default=None, annotation=annotation)


def _option(setting: Setting) -> Any:
    name, metavar, parser = setting.option, None, None
    if setting.kind is bool:
        name = f"{name}/--no-{name[2:]}"
    elif setting.kind is int:
        metavar = setting.unit.upper() or "N"
    elif setting.is_structured:
        metavar, parser = "JSON", _parser(setting)
    return typer.Option(name, metavar=metavar, parser=parser, help=setting.description)


def _parser(setting: Setting) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return setting.from_json_text(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parse
