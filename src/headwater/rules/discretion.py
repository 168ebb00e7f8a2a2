"""Keeps what a URL entrusts to its host out of texts that the host had a say in (U6)."""

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from headwater.rules.urls import is_secret_name

_HIDDEN = "***"
_SHORTEST = 4  # shorter ones would be found in any sentence
_LONG_NAME = 16  # a user name of this length is a token, whatever stands behind it


def discreet(text: str, url: str) -> str:
    """The text without the credentials and secret query values of a source's URL.

    Errors name places and words of a host's making: one that echoes what it was sent would
    have it in every log and history otherwise.
    """
    if "@" not in url and "?" not in url:
        return text
    secrets = {form for secret in _secrets(url) for form in _forms(secret)}
    if not secrets:
        return text
    longest_first = sorted(secrets, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), _HIDDEN, text, flags=re.IGNORECASE)


def _secrets(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL at all: nobody was sent anything
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


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may turn up: plain, or quoted as in a URL."""
    if len(secret) >= _SHORTEST:
        yield secret
        yield quote(secret, safe="")
        yield quote(secret)
