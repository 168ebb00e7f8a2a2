"""An operation as a command for a shell."""

import json
import shlex
from typing import Any
from urllib.parse import quote

Operation = dict[str, Any]


def curl(method: str, path: str, operation: Operation, address: str) -> str:
    """A request that can be pasted into a shell, with example values in all places."""
    command = "curl" if method == "get" else f"curl -X {method.upper()}"
    parts = [f"{command} {shlex.quote(address + _filled(path, operation))}"]
    if operation.get("security") != []:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"-H {shlex.quote(f'Content-Type: {media_type}')}")
        parts.append(_sent(content.get("example")))
        break
    return " \\\n  ".join(parts)


def _filled(path: str, operation: Operation) -> str:
    for one in operation.get("parameters", []):
        if one["in"] == "path":
            value = quote(str(one.get("example", one["name"])), safe="")
            path = path.replace("{" + one["name"] + "}", value)
    return path


def _sent(example: Any) -> str:
    if isinstance(example, str):
        return "--data-binary @file"  # a document, which is not for the command line
    return f"-d {shlex.quote(json.dumps(example))}"
