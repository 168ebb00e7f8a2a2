"""Secrets in URLs: masks them for display and in texts such as error messages (U6)."""

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, unquote_plus, urlsplit

_HIDDEN = "***"
_SHORTEST = 4  # shorter secrets would match ordinary words
_ROUNDS = 4  # masking one part can make another look like a secret; a usual URL takes two
_LONG_NAME = 16  # a user name this long is treated as a token
# also matches a URL inside a query, plain or percent-encoded, as bridges and proxies use
_USER_INFO = re.compile(r"((?:^|:)//)[^/?#]*@")
_ENCODED_USER_INFO = re.compile(r"(?i)(%3a%2f%2f)(?:(?!%2f|%3f|%23)[^/?#&])*%40")
_SECRET_NAME = re.compile(
    r"(?i)(key|token|secret|pass|pwd|auth|sig|session|credential|^sid$|^code$|^hash$|^p$)"
)
# `&`, `=` and `?` of a query, of a URL that is encoded in it, and of one encoded in that one
_SEPARATORS = [
    tuple(re.compile(f"({one})", re.IGNORECASE) for one in texts)
    for texts in (("&", "=", r"\?"), ("%26", "%3d", "%3f"), ("%2526", "%253d", "%253f"))
]


def masked(url: str) -> str:
    """The URL without user-info and secret-looking query values, for display (U6)."""
    for _ in range(_ROUNDS):
        without_users = _ENCODED_USER_INFO.sub(r"\1", _USER_INFO.sub(r"\1", url))
        head, mark, query = without_users.partition("?")
        shown = head + mark + _mask_query(query)
        if shown == url:
            return shown
        url = shown
    return f"{head}?{_HIDDEN}"


def is_secret_name(name: str) -> bool:
    """Whether the value of a query parameter of this name looks like a secret (U6)."""
    return _SECRET_NAME.search(name) is not None


def without_url_secrets(text: str, url: str) -> str:
    """Mask the credentials and secret query values of a URL wherever they occur in a text.

    Error messages can contain text from the host, and a host may echo what it was sent.
    """
    if "@" not in url and "?" not in url:
        return text
    secrets = {
        form
        for secret in _secrets(url)
        if len(secret) >= _SHORTEST
        for form in (secret, quote(secret, safe=""), quote(secret))
    }
    if not secrets:
        return text
    longest_first = sorted(secrets, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), _HIDDEN, text, flags=re.IGNORECASE)


def _secrets(url: str, depth: int = len(_SEPARATORS)) -> Iterator[str]:
    """The secrets of a URL, and of URLs in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL: nothing was sent
        return
    user_info = parts.netloc.rpartition("@")[0]
    name, _, password = (unquote(part) for part in user_info.partition(":"))
    if password:
        yield password
        yield base64.b64encode(f"{name}:{password}".encode()).decode()
    if name and (not password or len(name) >= _LONG_NAME):
        yield name
    for pair in parts.query.split("&"):
        key, _, value = pair.partition("=")
        if is_secret_name(key):
            yield unquote_plus(value)
        elif depth > 1 and value:
            yield from _secrets(unquote_plus(value), depth - 1)


def _mask_query(query: str, level: int = 0) -> str:
    """Mask the secret values of a query, and of the URLs in its values; `level`: how encoded."""
    ampersand, _, _ = _SEPARATORS[level]
    parts = ampersand.split(query)
    parts[::2] = [_mask_pair(pair, level) for pair in parts[::2]]
    return "".join(parts)


def _mask_pair(pair: str, level: int) -> str:
    """Mask the rest of a pair after the first secret name; a `?` in its value begins a name."""
    _, equals, mark = _SEPARATORS[level]
    start = 0
    for part in mark.split(pair):
        found = equals.search(part)
        if found is not None and _is_secret(part[: found.start()], level):
            end = start + found.end()
            return pair[:end] + (_HIDDEN if end < len(pair) else "")
        start += len(part)
    is_encoded = "%" in pair and level + 1 < len(_SEPARATORS)
    return _mask_query(pair, level + 1) if is_encoded else pair


def _is_secret(name: str, level: int) -> bool:
    """Whether an encoded name, which can follow an outer `=`, looks like that of a secret."""
    for _ in range(level + 1):
        name = unquote_plus(name) if "%" in name else name
    return is_secret_name(name.rpartition("=")[2] if level else name)
