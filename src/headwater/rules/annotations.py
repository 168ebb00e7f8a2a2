"""Annotations: JSON objects that clients store with posts and articles (E4)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

MAX_BYTES = 16 * 1024  # as compact JSON in UTF-8
MAX_DEPTH = 20  # objects and lists within each other


def annotations_text(annotations: Mapping[str, Any]) -> str:
    """The annotations as compact JSON; ValueError if they cannot be stored."""
    if _is_deeper(annotations, MAX_DEPTH):
        raise ValueError(f"has more than {MAX_DEPTH} levels of objects and lists")
    try:
        text = json.dumps(annotations, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("has broken characters, which cannot be stored") from None
    except (TypeError, ValueError):
        raise ValueError("must be a JSON object; NaN and infinite numbers are not JSON") from None
    if size > MAX_BYTES:
        raise ValueError(f"must have at most {MAX_BYTES:,} bytes as compact JSON, has {size:,}")
    return text


def _is_deeper(value: Any, levels: int) -> bool:
    inner: Iterable[Any]
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return False
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)
