"""The texts of `texts.toml`: notices, error pages, skipped entries and failures."""

import tomllib
from importlib.resources import files
from typing import Any

TEXTS: dict[str, Any] = tomllib.loads(
    files("headwater.web").joinpath("texts.toml").read_text("utf-8")
)
