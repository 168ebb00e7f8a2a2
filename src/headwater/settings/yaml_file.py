"""Reads a configuration file: safe YAML, no duplicate keys, everything under `app`."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from headwater.errors import ConfigError

MAX_FILE_BYTES = 1_048_576
_MERGE = "tag:yaml.org,2002:merge"
# raised by PyYAML where a tag does not fit its value: `!!float ""`, `!!bool maybe`
_TAG_ERRORS = (AttributeError, LookupError, TypeError)


def read_config_file(path: Path, name: str) -> object:
    """The tree under `app`, or None for an empty file; `name` is used in errors."""
    tree = _parsed(_text(path, name), name)
    if tree is None:
        return None
    if not isinstance(tree, dict) or "app" not in tree:
        raise ConfigError(f"{name}: all settings belong under the key app, which is missing")
    for key in tree:
        if key != "app":
            shown = json.dumps(str(key)[:60])
            raise ConfigError(f"{name}: unknown key {shown}; all settings belong under app")
    return tree["app"]


def _text(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text (byte {error.start})") from None


def _parsed(text: str, name: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a stricter SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: {_one_line(error.problem or 'not YAML')}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not YAML: {_one_line(str(error))}") from None
    except _TAG_ERRORS:
        raise ConfigError(f"{name}: not YAML: a value does not fit the tag before it") from None


def _one_line(text: str) -> str:
    return json.dumps(" ".join(text.split())[:200], ensure_ascii=True)[1:-1].replace('\\"', '"')


class _UniqueKeyLoader(yaml.SafeLoader):
    """A SafeLoader that rejects duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping after checking its keys."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key} is given twice", problem_mark=key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)
