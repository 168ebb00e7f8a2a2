"""Names of X users in the URLs of sources (X1)."""

import re
from urllib.parse import unquote

from headwater.errors import BadUrl
from headwater.rules.urls import parse_url

_NAME = re.compile(r"[A-Za-z0-9_]{1,15}")
_SITE = re.compile(r"(?:(?:www|mobile|m)\.)?(?:x|twitter)\.com")
_SITE_PAGES = frozenset(
    "compose explore hashtag home i intent login messages notifications search settings share "
    "signup".split()
)


def user_name(url: str) -> str:
    """The user's name in any form of a source's URL (X1)."""
    name = url.strip()
    if "/" in name or "." in name:
        name = _name_in_address(name)
    name = name.removeprefix("@")
    if not _NAME.fullmatch(name):
        raise BadUrl(
            f"{url.strip()[:100]!r} is no X user: give @name or https://x.com/name", field="url"
        )
    return name


def _name_in_address(address: str) -> str:
    """The name in the URL of a profile; empty for another page or site."""
    parsed = parse_url(address if "://" in address else f"https://{address}")
    path = unquote(parsed.target.partition("?")[0]).strip("/")
    is_profile = _SITE.fullmatch(parsed.host) and path.lower() not in _SITE_PAGES
    return path if is_profile else ""
