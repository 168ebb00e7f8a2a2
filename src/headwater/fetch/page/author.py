"""Finds the author of a page without the meta tags of W2, by other machine-readable marks.

These are further meta tags, schema.org data, and elements with an author's class or attribute.
Prose is never searched for names.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from headwater.fetch.page.html_blocks import HtmlPage
from headwater.fetch.text.html_attributes import attributes_of
from headwater.fetch.text.html_to_text import html_to_text, one_line

_META_NAMES = (
    "og:article:author",
    "dc.creator",
    "dc:creator",
    "dcterms.creator",
    "byl",
    "parsely-author",
)
_DATA_SCRIPT = re.compile(r"<script\b(?=[^>]{0,500}?ld\+json)[^>]{0,500}+>", re.I)
_MAX_SCRIPTS = 10  # of data that are parsed
_MAX_SCRIPT_LENGTH = 200_000
_MAX_DEPTH = 6
_CDATA_WRAPPER = re.compile(r"\A(?://)?\s*+<!\[CDATA\[|(?://|(?<!\s))\s*+\]\]>\Z")
_NAMED_TAG = re.compile(
    r"<([a-zA-Z][a-zA-Z0-9]*+)(\s(?=[^<>]{0,2000}?(?:author|byline))[^<>]{1,2000}+)>", re.I
)
_MAX_TAGS = 300
_WINDOW = 600  # characters after a start tag in which its element ends
_LEAD = re.compile(r"(?i)(?:(?:written |posted |story |article )?by|von|vom|par|por|door)\b:?\s+")
_LINK = re.compile(r"(?is)<a\b[^>]*+>(.*?)</a")
_NAME_PROPERTY = re.compile(r"(?is)<\w+\b[^>]{0,300}itemprop=[\"']?name[\"']?[^>]*+>(.*?)</")
_WORD = re.compile(r"[a-z]+")
_OTHERS = {"comment", "comments", "commentlist", "avatar", "related", "share", "image", "photo"}
_MAX_NAME_LENGTH = 100
_EDGES = " \t,;:|·•–—-"
# Text for screen readers only, such as "Author", next to the name.
_SPOKEN = re.compile(
    r"(?is)<(\w+)\b[^>]{0,300}?"
    r"(?:screen-?reader|sr-only|visually-?hidden|assistive|a11y)[^>]{0,300}+>[^<]*+</\1\s*+>"
)
_LABEL = re.compile(
    r"(?:about |view |meet |all |more )?(?:the |this |an? )?"
    r"(?:author|autor(?:in)?|auteur|autore|byline|writer|verfasser(?:in)?|contributor|editor|by)s?"
    r"(?: name| profile| bio| info| page)?"
    r"|(?:written|posted|published|story|article|words)(?: by)?|von|por|par|door",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"(?:wordpress|site|web|super)?[ _-]?(?:admin(?:istrator)?|master|user)|root|guest|anonymous",
    re.IGNORECASE,
)


def marked_author(page: HtmlPage, html: str) -> str | None:
    """The author by the most reliable mark of a page."""
    for name in _META_NAMES:
        for author in page.meta.get(name, ()):
            if is_name(author):
                return author
    return next(_names_in_data(html), None) or _name_in_markup(html)


def is_name(text: str) -> bool:
    """Whether this can be a person's name: meta tags often hold an address, or a label."""
    if not 0 < len(text) <= _MAX_NAME_LENGTH or "://" in text or "@" in text[1:]:
        return False
    return not is_label(text) and _ACCOUNT.fullmatch(text) is None


def is_label(text: str) -> bool:
    """Whether this only announces a name, such as "Author:"."""
    return _LABEL.fullmatch(text.strip(_EDGES)) is not None


def _names_in_data(html: str) -> Iterator[str]:
    """Names of authors in schema.org data, in order."""
    for tag in islice(_DATA_SCRIPT.finditer(html), _MAX_SCRIPTS):
        end = html.find("</script", tag.end(), tag.end() + _MAX_SCRIPT_LENGTH)
        try:
            text = html[tag.end() : max(end, 0)].strip()
            data = json.loads(_CDATA_WRAPPER.sub("", text), strict=False)
        except (ValueError, RecursionError):
            continue
        for author in _authors(data, _MAX_DEPTH):
            name = one_line(html_to_text(author))
            if is_name(name):
                yield name


def _authors(data: Any, depth: int) -> Iterator[str]:
    """The names of authors, to a limited depth."""
    if depth == 0:
        return
    if isinstance(data, list):
        for item in data[:100]:
            yield from _authors(item, depth - 1)
    elif isinstance(data, dict):
        if "author" in data:
            yield from _person(data["author"])
        for key in ("@graph", "mainEntity", "mainEntityOfPage"):
            if key in data:
                yield from _authors(data[key], depth - 1)


def _person(author: Any) -> Iterator[str]:
    if isinstance(author, list):
        for one in author[:1]:
            yield from _person(one)
    elif isinstance(author, dict):
        yield from _person(author.get("name"))
    elif isinstance(author, str):
        yield author


def _name_in_markup(html: str) -> str | None:
    """The text of the element with the most reliable author mark."""
    best: tuple[int, str] | None = None
    for tag in islice(_NAMED_TAG.finditer(html), _MAX_TAGS):
        if tag[1].lower() == "h1":  # the name of the site, or a headline
            continue
        rank = _rank(attributes_of(tag[2]))
        if rank is None or (best is not None and rank >= best[0]):
            continue
        name = _inner_name(tag[1], html[tag.end() : tag.end() + _WINDOW])
        if name is not None:
            best = rank, name
    return None if best is None else best[1]


def _rank(attributes: dict[str, str]) -> int | None:
    """How reliably an element names the author, 0 is best; None: it does not."""
    words = set(_WORD.findall(f"{attributes.get('class', '')} {attributes.get('id', '')}".lower()))
    if words & _OTHERS:
        return None
    if attributes.get("itemprop", "").lower() == "author":
        return 0
    if "author" in attributes.get("rel", "").lower().split():
        return 1
    if "author" in words and "vcard" in words:
        return 2
    return 3 if "byline" in words else 4 if "author" in words else None


def _inner_name(tag: str, following: str) -> str | None:
    inner = re.split(rf"(?i)</{tag}\b", _SPOKEN.sub(" ", following), maxsplit=1)
    if len(inner) == 1:  # it is too long for a name
        return None
    markup = inner[0]
    within = _NAME_PROPERTY.search(markup) or _LINK.search(markup)
    for candidate in (within[1] if within else "", markup):
        name = _LEAD.sub("", one_line(html_to_text(candidate)), count=1).strip(_EDGES)
        if is_name(name) and any(c.isalpha() for c in name):
            return name
    return None
