"""Configuration: YAML file, environment and options to validated Settings (G1)."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from headwater.rules.policy import HostOverride, Policy
from headwater.rules.url_secrets import masked
from headwater.settings.configuration_keys import SECRET_KEYS, KeyPath, dotted
from headwater.settings.configuration_keys import Settings as Settings
from headwater.settings.layers import Layers, from_validation

CONFIG_FILE = "headwater.yaml"
CONFIG_VARIABLE = "HEADWATER_CONFIG"
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"  # set by systemd
TOKEN_VARIABLE = "HEADWATER_TOKEN"  # noqa: S105 - the name of the variable
DEFAULT = "default"
_ENVIRONMENT = os.environ  # noqa: TID251 - the only place that reads it


class EffectiveValue(NamedTuple):
    """A setting for display: a plain value, with secrets masked."""

    key: str
    value: object
    origin: str


def service_token() -> str | None:
    """The access token for another service: never an argument, which other processes can see."""
    return _ENVIRONMENT.get(TOKEN_VARIABLE)


def load_settings(
    *,
    config_file: Path | None = None,
    options: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Read all layers; later ones override earlier ones key by key. ConfigError names the key."""
    environ = _ENVIRONMENT if environ is None else environ
    layers = Layers(cwd or Path())
    named = config_file or environ.get(CONFIG_VARIABLE)
    path = (cwd or Path()) / (named or CONFIG_FILE)
    if named or path.exists():  # only the default file may be missing
        from headwater.settings.yaml_file import read_config_file  # yaml is slow to import

        name = str(named or CONFIG_FILE)  # for messages
        layers.add_file(read_config_file(path, name), name)
    if credentials := environ.get(CREDENTIALS_VARIABLE):
        layers.add_credentials(Path(credentials))
    layers.add_environment(environ)
    layers.add_options(options or {})
    try:
        settings = Settings.model_validate(layers.tree())
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False), layers.found) from None
    settings._origins = {
        dotted(path): layers.found[path][1] if path in layers.found else DEFAULT
        for path, _ in _shown(settings)
    }
    return settings


def effective(settings: Settings) -> list[EffectiveValue]:
    """Every setting with its origin, secrets masked (U6)."""
    return [
        EffectiveValue(dotted(path), value, settings.origins.get(dotted(path), DEFAULT))
        for path, value in _shown(settings)
    ]


def policy_from(settings: Settings) -> Policy:
    """The settings that rules need."""
    configured = dict(settings.source)
    names = [one.name for one in fields(Policy) if one.name in configured]
    delays, overrides = settings.source.poll_delay_seconds, settings.source.host_overrides
    changed: dict[str, Any] = {
        "failing_hours": settings.incidents.failing_hours,
        "type_delay_seconds": {kind: delay for kind, delay in delays.items() if delay is not None},
        "host_overrides": {
            host: HostOverride(override.poll_delay_seconds, override.hold_scope)
            for host, override in overrides.items()
        },
    }
    return Policy(**{name: configured[name] for name in names} | changed)


def _shown(settings: Settings) -> Iterator[tuple[KeyPath, object]]:
    """Every key with a value that YAML and JSON can represent; an empty map is a value."""
    left: list[tuple[KeyPath, object]] = [((), settings.model_dump(mode="json", by_alias=True))]
    while left:
        path, value = left.pop()
        if isinstance(value, dict) and value:
            left += [((*path, name), below) for name, below in reversed(value.items())]
        elif isinstance(value, str) and path in SECRET_KEYS:
            yield path, masked(value)
        elif isinstance(value, float) and value.is_integer():
            yield path, int(value)
        elif value is not None or path[:2] != ("source", "host-overrides"):  # None: not set
            yield path, value
