"""A podcast's articles as documents that feed readers know: Atom 1.0 and JSON Feed 1.1."""

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import quote, urlsplit

from headwater.errors import BadUrl
from headwater.model import Article, Podcast
from headwater.rules.admission import timestamp
from headwater.rules.urls import parse_url

ATOM = "application/atom+xml"
JSON_FEED = "application/feed+json"
# What XML cannot hold, and control characters that no reader can show (M6).
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def atom_feed(podcast: Podcast, articles: Sequence[Article], *, address: str) -> bytes:
    """An Atom document of these articles; `address` is where it is served."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"  <id>{_name('podcast', podcast.id)}</id>",
        f"  <title>{_markup(_line(podcast.name))}</title>",
        f"  <updated>{timestamp(_updated_at(podcast, articles))}</updated>",
        f'  <link rel="self" type="{ATOM}" href="{_markup(address)}"/>',
        f"  <author><name>{_markup(_line(podcast.name))}</name></author>",
        "  <generator>Headwater</generator>",
    ]
    for article in articles:
        lines += _entry_lines(article)
    return "\n".join([*lines, "</feed>", ""]).encode()


def json_feed(podcast: Podcast, articles: Sequence[Article], *, address: str) -> bytes:
    """A JSON Feed of these articles; `address` is where it is served."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": _line(podcast.name),
        "feed_url": address,
        "items": [_item(article) for article in articles],
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _updated_at(podcast: Podcast, articles: Sequence[Article]) -> datetime:
    return max((article.created_at for article in articles), default=podcast.created_at)


def _entry_lines(article: Article) -> Iterator[str]:
    yield "  <entry>"
    yield f"    <id>{_name('article', article.id)}</id>"
    yield f"    <title>{_markup(_line(article.title))}</title>"
    yield f"    <updated>{timestamp(article.created_at)}</updated>"
    if article.published_at is not None:
        yield f"    <published>{timestamp(article.published_at)}</published>"
    if article.author is not None:
        yield f"    <author><name>{_markup(_line(article.author))}</name></author>"
    link = _link(article.url)
    if link is not None:
        yield f'    <link rel="alternate" href="{_markup(link)}"/>'
    yield f'    <content type="text">{_markup(article.body)}</content>'
    yield "  </entry>"


def _item(article: Article) -> dict[str, Any]:
    published_at, author, link = article.published_at, article.author, _link(article.url)
    item = {
        "id": _name("article", article.id),
        "url": link,
        "title": _line(article.title),
        "content_text": _UNWANTED.sub("", article.body),
        "date_published": None if published_at is None else timestamp(published_at),
        "date_modified": timestamp(article.created_at),
        "authors": None if author is None else [{"name": _line(author)}],
    }
    return {name: value for name, value in item.items() if value is not None}


def _name(kind: str, id_: str) -> str:
    """An id that stays the same wherever the document is served; `default` is no UUID."""
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:headwater:{kind}:{quote(id_, safe='')}"


def _link(url: str) -> str | None:
    """The URL if a reader may follow it, without credentials: documents get around (U6)."""
    try:
        parse_url(url)
    except BadUrl:
        return None
    parts = urlsplit(url.strip())
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return _UNWANTED.sub("", bare).replace(" ", "%20")


def _line(text: str) -> str:
    return _UNWANTED.sub("", " ".join(text.split()))


def _markup(text: str) -> str:
    """Text as it stands inside XML: nothing of it is markup, nothing breaks the document (U7)."""
    return escape(_UNWANTED.sub("", text))
