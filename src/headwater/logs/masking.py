"""Masks secrets in log fields, in time linear in their length (U6)."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from headwater.rules.url_secrets import masked

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]

MAX_TEXT = 8_192
_MAX_READ = 65_536  # much longer than what is shown: truncation must not split a secret
_MAX_ITEMS = 50
_MAX_DEPTH = 4
_HIDDEN = "***"
MAX_INT = 2**63  # larger numbers are slow to print in decimal

# Each pattern starts with a literal and never backtracks over it: matching is linear.
_USER_INFO = re.compile(r"://[^\s/?#]*@")
_QUERY = re.compile(r"\?\S+")
_AUTHORIZATION = re.compile(
    r"(?i)(authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:basic|bearer|digest)\s{1,8})?)[^\s\"',;]+"
)
_BEARER = re.compile(r"(?i)(bearer\s{1,8})[\w.~+/%=-]{8,}")
_PAIR = re.compile(r"(?i)((?:passw(?:or)?d|secret|token|api[_-]?key)[\"']?=[\"']?)[^\s\"'&,;]+")
_SECRET_FIELD = re.compile(
    r"(?i)authorization|cookie|passw|secret|credential|(token|api_?key|master_?key|bearer)$"
)


def plain(name: str, value: object, depth: int = 0) -> Plain:
    """A field's value as text, number, list or mapping, without secrets."""
    if isinstance(value, str):
        return _text(name, str(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -MAX_INT <= value < MAX_INT else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        names = [(printed(key), key) for key in list(value)[:_MAX_ITEMS]]
        return {without_secrets(text): plain(text, value[key], depth + 1) for text, key in names}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        return [plain(name, item, depth + 1) for item in list(value)[:_MAX_ITEMS]]
    return _text(name, printed(value))


def without_secrets(text: str) -> str:
    """Text with user-info, secret-looking query values and credentials of headers masked."""
    text = text[:_MAX_READ]
    if "?" in text:
        text = _QUERY.sub(lambda query: masked(query[0]), text)
    return _without_credentials(text)


def printed(value: object) -> str:
    """Any object as text; one whose __str__ raises gets a placeholder."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - logging must never raise
        return f"<unprintable {type(value).__name__}>"


def _text(name: str, text: str) -> str:
    if _is_secret(name):
        return _HIDDEN
    if name != "url" and not name.endswith("_url"):
        return without_secrets(text)
    text = text[:_MAX_READ]
    if "?" in text or "@" in text:  # otherwise there is nothing to mask
        text = masked(text)
    return _without_credentials(text)


def _without_credentials(text: str) -> str:
    if "@" in text and "://" in text:
        text = _USER_INFO.sub("://", text)
    lowered = text.lower()
    if "authorization" in lowered:
        text = _AUTHORIZATION.sub(rf"\1{_HIDDEN}", text)
    if "bearer" in lowered:
        text = _BEARER.sub(rf"\1{_HIDDEN}", text)
    if "=" in text and any(word in lowered for word in ("passw", "secret", "token", "key")):
        text = _PAIR.sub(rf"\1{_HIDDEN}", text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_FIELD.search(name) is not None
