"""The settings form of a source: fields, current values, submitted values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.model import Source
from headwater.rules.policy import Policy
from headwater.rules.text_checks import is_one_line
from headwater.source_settings import SETTINGS, Setting
from headwater.web.forms import one

_FORM_SETTINGS = tuple(setting for setting in SETTINGS.values() if setting.form != "none")
_AUTOMATIC: Mapping[str, bool | None] = {"auto": None, "always": True, "never": False}
_AUTOMATIC_TEXTS = {"auto": "Automatic", "always": "Always", "never": "Never"}
_MAX_DIGITS = 12  # digits


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """The settings as submitted text, with errors by field."""

    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_wrong_below(self) -> bool:
        """Whether a field of the folded part of the form is wrong."""
        return any(name in SETTINGS and SETTINGS[name].form == "more" for name in self.errors)


@dataclass(frozen=True, slots=True)
class FormField:
    """How the page shows one setting."""

    setting: Setting
    label: str
    hint: str
    control: str  # text, number, json, select or checkbox
    options: Mapping[str, str] = field(default_factory=dict)  # of a select: value to text


def form_fields(part: str, policy: Policy) -> list[FormField]:
    """The fields of the `main` part of the form, or of the folded part, `more`."""
    return [form_field(setting, policy) for setting in _FORM_SETTINGS if setting.form == part]


def form_field(setting: Setting, policy: Policy) -> FormField:
    """How the page shows a setting; the hint names the value that `policy` has for null."""
    label = f"{setting.label} ({setting.unit})" if setting.unit else setting.label
    hint = setting.description.replace("`", "")
    if setting.nullable:
        configured = getattr(policy, setting.name, None)
        otherwise = setting.when_null.replace("`", "") if configured is None else f"{configured:,}"
        hint += f" {'Automatic' if setting.kind is bool else 'Empty'}: {otherwise}."
    if setting.kind is bool and not setting.nullable:
        return FormField(setting, label, hint, "checkbox")
    if setting.kind is bool:
        return FormField(setting, label, hint, "select", _AUTOMATIC_TEXTS)
    if issubclass(setting.kind, Enum):
        options = {"": "Default"} if setting.nullable else {}
        texts = {member.value: setting.choices[member.value] for member in setting.kind}
        return FormField(setting, label, hint, "select", options | texts)
    control = "json" if setting.is_structured else "number" if setting.kind is int else "text"
    return FormField(setting, label, hint, control)


def form_of(source: Source) -> SettingsForm:
    """The form with the current settings of a source."""
    return SettingsForm({s.name: form_text(s, getattr(source, s.name)) for s in _FORM_SETTINGS})


def read_form(fields: Mapping[str, list[str]]) -> tuple[SettingsForm, dict[str, Any]]:
    """The form as it was sent, and the settings in it that could be read."""
    values = {setting.name: _submitted(fields, setting) for setting in _FORM_SETTINGS}
    settings: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for setting in _FORM_SETTINGS:
        try:
            settings[setting.name] = form_value(setting, values[setting.name])
        except ValueError as error:
            errors[setting.name] = str(error)
    return SettingsForm(values, errors), settings


def _submitted(fields: Mapping[str, list[str]], setting: Setting) -> str:
    """The text of a field; that of the default for a choice that was not sent."""
    is_choice = issubclass(setting.kind, Enum) and not setting.required
    if is_choice and setting.name not in fields:
        return form_text(setting, setting.default)
    return one(fields, setting.name)


def form_text(setting: Setting, value: Any) -> str:
    """A value as its form field has it."""
    if setting.kind is bool and setting.nullable:
        return next(text for text, meaning in _AUTOMATIC.items() if meaning is value)
    if setting.kind is bool:
        return "yes" if value else ""
    if value is None:
        return ""
    return json.dumps(setting.to_json(value)) if setting.is_structured else str(value)


def form_value(setting: Setting, text: str) -> Any:
    """The value of a form field, or raise ValueError with a message for the user."""
    if setting.kind is bool and not setting.nullable:
        return bool(text)
    if not text and setting.nullable and setting.kind is not bool:
        return None
    if setting.kind is int:
        return _number(setting, text)
    if setting.kind is str:
        if not text:
            raise ValueError(f"{setting.label} must not be empty.")
        if not is_one_line(text):
            raise ValueError(f"The {setting.label.lower()} is not one line of text.")
        return text
    if setting.is_structured:
        try:
            return setting.from_json_text(text)
        except ValueError as error:
            raise ValueError(f"It {error}.") from error
    is_flag = setting.kind is bool
    options: Mapping[str, Any] = _AUTOMATIC if is_flag else {m.value: m for m in setting.kind}
    if text not in options:
        raise ValueError("Choose one of the options.")
    return options[text]


def _number(setting: Setting, text: str) -> int:
    least, most = setting.minimum, setting.maximum
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"Write a whole number from {least:,} to {most:,}.")
    if not least <= int(text) <= most:
        raise ValueError(f"It must be between {least:,} and {most:,}.")
    return int(text)
