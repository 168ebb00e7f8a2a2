"""Who wrote a page, where its two meta tags of W2 do not say: other marks made for machines.

Only what a page marks as its author counts: further meta tags, schema.org data, and elements that
are named as the author's. Prose is never searched for names.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from headwater.fetch.page import Page, attributes_of
from headwater.fetch.text import html_to_text, one_line

_META_NAMES = ("dc.creator", "dc:creator", "dcterms.creator", "byl", "parsely-author")
_DATA = re.compile(r"<script\b(?=[^>]{0,500}?ld\+json)[^>]{0,500}+>", re.I)
_MOST_DATA = 10  # scripts of data that are looked at
_LONGEST_DATA = 200_000
_DEEPEST = 6
_WRAPPING = re.compile(r"\A(?://)?\s*+<!\[CDATA\[|(?://|(?<!\s))\s*+\]\]>\Z")
_NAMED_TAG = re.compile(
    r"<([a-zA-Z][a-zA-Z0-9]*+)(\s(?=[^<>]{0,2000}?(?:author|byline))[^<>]{1,2000}+)>", re.I
)
_MOST_TAGS = 300
_WINDOW = 600  # characters behind a start tag in which its element ends
_LEAD = re.compile(r"(?i)(?:(?:written |posted |story |article )?by|von|vom|par|por|door)\b:?\s+")
_LINK = re.compile(r"(?is)<a\b[^>]*+>(.*?)</a")
_NAME_PROPERTY = re.compile(r"(?is)<\w+\b[^>]{0,300}itemprop=[\"']?name[\"']?[^>]*+>(.*?)</")
_WORD = re.compile(r"[a-z]+")
_OTHERS = {"comment", "comments", "commentlist", "avatar", "related", "share", "image", "photo"}
_LONGEST = 100
_EDGES = " \t,;:|·•–—-"


def marked_author(page: Page, html: str) -> str | None:
    """The author that a page marks as such, by the clearest mark it has."""
    for name in _META_NAMES:
        for author in page.meta.get(name, ()):
            if is_name(author):
                return author
    return next(_names_in_data(html), None) or _name_in_markup(html)


def is_name(text: str) -> bool:
    """Whether this can be a person's name: one of the meta tags often holds an address."""
    return bool(text) and len(text) <= _LONGEST and "://" not in text and "@" not in text[1:]


def _names_in_data(html: str) -> Iterator[str]:
    """Names of authors in schema.org data, in the order of the page."""
    for tag in islice(_DATA.finditer(html), _MOST_DATA):
        end = html.find("</script", tag.end(), tag.end() + _LONGEST_DATA)
        try:
            text = html[tag.end() : max(end, 0)].strip()
            data = json.loads(_WRAPPING.sub("", text), strict=False)
        except (ValueError, RecursionError):
            continue
        for author in _authors(data, _DEEPEST):
            name = one_line(html_to_text(author))
            if is_name(name):
                yield name


def _authors(data: Any, depth: int) -> Iterator[str]:
    """The names of whatever is called an author, a bounded number of levels down."""
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
    """The text of the element that is most clearly the author's."""
    best: tuple[int, str] | None = None
    for tag in islice(_NAMED_TAG.finditer(html), _MOST_TAGS):
        rank = _rank(attributes_of(tag[2]))
        if rank is None or (best is not None and rank >= best[0]):
            continue
        name = _inner_name(tag[1], html[tag.end() : tag.end() + _WINDOW])
        if name is not None:
            best = rank, name
    return None if best is None else best[1]


def _rank(attributes: dict[str, str]) -> int | None:
    """How clearly an element is the author's, the clearest first; None: it is not."""
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


def _inner_name(tag: str, behind: str) -> str | None:
    inner = re.split(rf"(?i)</{tag}\b", behind, maxsplit=1)
    if len(inner) == 1:  # it ends too far away to hold just a name
        return None
    markup = inner[0]
    within = _NAME_PROPERTY.search(markup) or _LINK.search(markup)
    for candidate in (within[1] if within else "", markup):
        name = _LEAD.sub("", one_line(html_to_text(candidate)), count=1).strip(_EDGES)
        if is_name(name) and any(c.isalpha() for c in name):
            return name
    return None
