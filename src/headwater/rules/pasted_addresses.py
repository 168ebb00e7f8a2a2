"""Resolves pasted text to the address and the type of a source (J1)."""

import re
from dataclasses import dataclass
from typing import Any

from headwater.errors import BadUrl
from headwater.rules.known_sites import Lookup, is_mastodon_account, known_handle, known_source
from headwater.rules.text_checks import is_one_line
from headwater.source_settings import SourceType

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?![0-9])", re.IGNORECASE)  # but for a port
_FEED_SCHEME = re.compile(r"feed:(?://)?(?=https?://)|feed:(?=//)", re.IGNORECASE)
_ACCOUNT = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")  # or an e-mail address
_BARE_WORD = re.compile(r"[A-Za-z0-9_]{1,15}")


@dataclass(frozen=True, slots=True)
class Pasted:
    """What pasted text stands for."""

    url: str
    type: SourceType | None = None  # None: only a visit shows it
    recognised_as: str | None = None  # the rule of a known site
    lookup: Lookup | None = None  # of the address of the feed, which replaces `url`

    def settings(self) -> dict[str, Any]:
        """The settings of the source that follow from the text."""
        return {"url": self.url, "type": self.type}


def resolve(pasted: str, type_: SourceType | None = None) -> Pasted:
    """The source that pasted text stands for; a known site counts only without a type (J1)."""
    if type_ is SourceType.TWITTER:
        return Pasted(pasted.strip(), type_)
    url = as_url(pasted)
    if type_ is not None:
        return Pasted(url, type_)
    known = known_handle(url) or known_source(url)
    if known is None:
        return Pasted(url)
    return Pasted(known.url, known.type, known.recognised_as, known.lookup)


def as_url(pasted: str) -> str:
    """The URL or handle in a pasted text; a missing scheme is https."""
    text = _FEED_SCHEME.sub("", pasted.strip())
    if not text:
        raise BadUrl("paste the address of a feed or a page, or the name of an X user", field="url")
    if not is_one_line(text):
        raise BadUrl("an address is one line of text", field="url")
    if text.startswith("@") or ("://" in text and not text.startswith("//")):
        return text
    if _ACCOUNT.fullmatch(text):
        if is_mastodon_account(text):
            return f"@{text}"
        raise BadUrl(
            f"“{text}” may be an e-mail address; an account on Mastodon is written @{text}",
            field="url",
        )
    if _BARE_WORD.fullmatch(text) and text.lower() != "localhost":
        raise BadUrl(
            f"“{text}” alone is not an address: a site has a name such as {text.lower()}.com, "
            f"an X timeline is written @{text}",
            field="url",
        )
    if _SCHEME.match(text):  # mailto:, javascript: and others are refused by parse_url
        return text
    return f"https://{text.removeprefix('//')}"
