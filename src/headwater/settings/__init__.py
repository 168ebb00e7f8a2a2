"""YAML + environment + options -> Settings, checked once at start (G1)."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretBytes, ValidationError

from headwater.rules.policy import HostOverride, Policy
from headwater.rules.urls import masked
from headwater.settings.layers import Layers
from headwater.settings.model import (
    EncryptionSettings,
    FetchSettings,
    HostOverrideSettings,
    LimitSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    ServerSettings,
    Settings,
    SourceSettings,
    XSettings,
)
from headwater.settings.problems import SECRET_KEYS, from_validation
from headwater.settings.shape import SETTINGS_SHAPE, FreeMap, Group, Shape, dotted
from headwater.settings.shape import Path as KeyPath
from headwater.settings.yaml_file import read_config_file

__all__ = [
    "EffectiveValue",
    "EncryptionSettings",
    "FetchSettings",
    "HostOverrideSettings",
    "LimitSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "ServerSettings",
    "Settings",
    "SourceSettings",
    "XSettings",
    "effective",
    "load_settings",
    "policy_from",
]

CONFIG_FILE = "headwater.yaml"
CONFIG_VARIABLE = "HEADWATER_CONFIG"
DEFAULT = "default"


class EffectiveValue(NamedTuple):
    """A setting as it may be shown: plain values, secrets masked."""

    key: str
    value: object
    origin: str


def load_settings(
    *,
    config_file: Path | None = None,
    options: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Read all layers, later ones winning key by key, or say in one line what is wrong."""
    environ = os.environ if environ is None else environ  # noqa: TID251 - its one reader
    layers = Layers()
    found = _config_file(config_file, environ, cwd or Path())
    if found is not None:
        path, name = found
        layers.add_file(read_config_file(path, name), name)
    layers.add_environment(environ)
    layers.add_options(options or {})
    try:
        settings = Settings.model_validate(layers.tree())
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False), layers.found) from None
    settings._origins = {
        dotted(path): layers.found[path][1] if path in layers.found else DEFAULT
        for path, _ in _shown(SETTINGS_SHAPE, settings, ())
    }
    return settings


def effective(settings: Settings) -> list[EffectiveValue]:
    """Every setting with its origin, secrets masked (U6)."""
    return [
        EffectiveValue(dotted(path), value, settings.origins.get(dotted(path), DEFAULT))
        for path, value in _shown(SETTINGS_SHAPE, settings, ())
    ]


def policy_from(settings: Settings) -> Policy:
    """The part of the settings that rules decide by."""
    source = settings.source
    return Policy(
        max_article_age_days=source.max_article_age_days,
        max_failures=source.max_failures,
        max_backoff_hours=source.max_backoff_hours,
        late_entry_hours=source.late_entry_hours,
        processed_retention_days=source.processed_retention_days,
        poll_history_days=source.poll_history_days,
        type_delay_seconds={
            kind: delay for kind, delay in source.poll_delay_seconds.items() if delay is not None
        },
        host_overrides={
            host: HostOverride(override.poll_delay_seconds, override.hold_scope)
            for host, override in source.host_overrides.items()
        },
        aggregate_hosts=source.aggregate_hosts,
    )


def _config_file(
    given: Path | None, environ: Mapping[str, str], cwd: Path
) -> tuple[Path, str] | None:
    """The file to read and its name for people; only the usual one may be missing."""
    named = given or environ.get(CONFIG_VARIABLE)
    if named:
        return cwd / named, str(named)
    usual = cwd / CONFIG_FILE
    return (usual, CONFIG_FILE) if usual.exists() else None


def _shown(shape: Shape, value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    """Every key that has a value, as plain values; an empty map is a value too."""
    match shape:
        case Group(keys):
            for name, below in keys.items():
                inner = getattr(value, name.replace("-", "_"))
                if inner is not None or not _is_override(path):
                    yield from _shown(below, inner, (*path, name))
        case FreeMap() if not value:
            yield path, {}
        case FreeMap(_, _, below):
            for name, inner in value.items():
                yield from _shown(below, inner, (*path, str(name)))
        case _:
            yield path, _masked(path, value)


def _is_override(path: KeyPath) -> bool:
    return path[:2] == ("source", "host-overrides")


def _masked(path: KeyPath, value: object) -> object:
    if path in SECRET_KEYS and isinstance(value, str):
        return masked(value)
    return _plain(value)


def _plain(value: object) -> object:
    """Values that YAML and JSON can write."""
    if isinstance(value, SecretBytes):
        return "***"
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)
