"""Links of documents: resolved, storable, and of the schemes that may be served (T2)."""

import re
from functools import lru_cache
from urllib.parse import urljoin, urlsplit, urlunsplit

from headwater.fetch.text.sanitize import storable_line
from headwater.rules.urls import MAX_URL_LENGTH

MAX_BASE_LENGTH = 512  # resolving a link costs time proportional to its base (H2)

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WEB_STARTS = ("https://", "http://")
_WEB = re.compile(r"(?i)https?://[^\s/]")
_USUAL = re.compile(r"https?://[!-.0-~][!-~]*+")  # needs no change
_IN_TEXT = re.compile(r"(?i)https?://[^\s/]|mailto:[^\s]")
_BREAKS = re.compile(r"[\t\n\r]\s*")


def is_web_url(text: str | None) -> bool:
    """Whether a text is an http(s) URL."""
    return text is not None and _WEB.match(text) is not None


def web_link(text: str | None, base: str) -> str | None:
    """The link if it leads to http(s), so that no `javascript:` or `data:` is served (T2)."""
    link = absolute_link(text, base)
    return link if link is not None and _WEB.match(link) else None


def text_link(text: str | None, base: str) -> str | None:
    """The target of a link inside a text: http(s), or an e-mail address (T1)."""
    if text and len(text) <= MAX_URL_LENGTH and _USUAL.fullmatch(text):
        return text
    link = absolute_link(text, base)
    return link if link is not None and _IN_TEXT.match(link) else None


def absolute_link(text: str | None, base: str) -> str | None:
    """The link resolved against its base and storable; None if it is missing or too long."""
    link = text.strip() if text else ""
    if not link:
        return None
    if not link.isprintable():
        link = _BREAKS.sub("", link)
    if not link.startswith(_WEB_STARTS) and not _ABSOLUTE.match(link):
        try:
            link = urljoin(short_base(base), link)
        except ValueError:  # such as a broken IPv6 host
            return None
    if " " in link or not link.isprintable():
        link = storable_line(link).replace(" ", "%20")
    return link if link and len(link) <= MAX_URL_LENGTH else None


@lru_cache(maxsize=64)
def short_base(base: str) -> str:
    """A base that is quick to resolve against: a very long one without its query or path."""
    if len(base) <= MAX_BASE_LENGTH:
        return base
    parts = urlsplit(base)
    path = parts.path if len(parts.path) <= MAX_BASE_LENGTH else "/"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
