"""Writes articles and found posts as Atom 1.0 and JSON Feed 1.1, and incidents as Atom 1.0."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import quote, urlsplit

from headwater.content import SavedSearch
from headwater.errors import BadUrl
from headwater.formats.markdown import content_html
from headwater.model import Article, Podcast, Post
from headwater.rules.admission import timestamp
from headwater.rules.incidents import Incident
from headwater.rules.notice_messages import incident_link
from headwater.rules.urls import parse_url

ATOM = "application/atom+xml"
JSON_FEED = "application/feed+json"
_THREADING = "http://purl.org/syndication/thread/1.0"  # RFC 4685
# Characters that XML does not allow, and control characters (M6).
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def atom_feed(
    podcast: Podcast,
    articles: Sequence[Article | Post],
    *,
    address: str,
    search: SavedSearch | None = None,
) -> bytes:
    """An Atom document of articles, or of the posts that a search finds; `address` is its URL."""
    created_at = podcast.created_at if search is None else search.created_at
    updated_at = max((article.created_at for article in articles), default=created_at)
    entries = (line for article in articles for line in _entry_lines(article))
    name, title = _feed_id(podcast, search), _title(podcast, search)
    return _atom(name, title, updated_at, address, entries)


def incident_feed(
    incidents: Sequence[Incident],
    user_id: str | None,
    now: datetime,
    *,
    address: str,
    dashboard: str,
) -> bytes:
    """An Atom document of these incidents of a user, or of all users, with links (Y3)."""
    updated_at = max((one.closed_at or one.opened_at for one in incidents), default=now)
    entries = (line for incident in incidents for line in _incident_lines(incident, dashboard))
    name = f"urn:headwater:incidents:{quote(user_id or '', safe='')}"
    return _atom(name, "Headwater incidents", updated_at, address, entries)


def _atom(
    name: str, title: str, updated_at: datetime, address: str, entries: Iterable[str]
) -> bytes:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"  <id>{name}</id>",
        f"  <title>{_markup(_line(title))}</title>",
        f"  <updated>{timestamp(updated_at)}</updated>",
        f'  <link rel="self" type="{ATOM}" href="{_markup(address)}"/>',
        f"  <author><name>{_markup(_line(title))}</name></author>",
        "  <generator>Headwater</generator>",
    ]
    return "\n".join([*lines, *entries, "</feed>", ""]).encode()


def _incident_lines(incident: Incident, dashboard: str) -> Iterator[str]:
    closed_at = incident.closed_at
    title = incident.title if closed_at is None else f"Over: {incident.title}"
    yield "  <entry>"
    yield f"    <id>{_name('incident', incident.id)}</id>"
    yield f"    <title>{_markup(_line(title))}</title>"
    yield f"    <updated>{timestamp(closed_at or incident.opened_at)}</updated>"
    yield f"    <published>{timestamp(incident.opened_at)}</published>"
    yield f'    <link href="{_markup(incident_link(dashboard, incident.id))}"/>'
    yield f'    <content type="text">{_markup(incident.advice)}</content>'
    yield "  </entry>"


def json_feed(
    podcast: Podcast,
    articles: Sequence[Article | Post],
    *,
    address: str,
    search: SavedSearch | None = None,
) -> bytes:
    """The same as a JSON Feed."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": _title(podcast, search),
        "feed_url": address,
        "items": [_item(article) for article in articles],
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _title(podcast: Podcast, search: SavedSearch | None) -> str:
    return _line(podcast.name if search is None else f"{search.name} · {podcast.name}")


def _feed_id(podcast: Podcast, search: SavedSearch | None) -> str:
    if search is None:
        return _name("podcast", podcast.id)
    return f"urn:headwater:search:{quote(podcast.id, safe='')}:{quote(search.name, safe='')}"


def _entry_lines(article: Article | Post) -> Iterator[str]:
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
    followed = _followed(article)
    if followed is not None:
        yield f'    <in-reply-to xmlns="{_THREADING}" ref="{followed}"/>'
    yield f'    <content type="html">{_markup(_content(article))}</content>'
    yield "  </entry>"


def _item(article: Article | Post) -> dict[str, Any]:
    published_at, author, link = article.published_at, article.author, _link(article.url)
    followed = _followed(article)
    item = {
        "id": _name("article", article.id),
        "url": link,
        "title": _line(article.title),
        "content_html": _content(article),
        "content_text": _UNWANTED.sub("", article.body),
        "date_published": None if published_at is None else timestamp(published_at),
        "date_modified": timestamp(article.created_at),
        "authors": None if author is None else [{"name": _line(author)}],
        "_headwater": None if followed is None else {"follow_up_of": followed},
    }
    return {name: value for name, value in item.items() if value is not None}


def _followed(article: Article | Post) -> str | None:
    """The id, in feeds, of the article that this one follows up on (E3)."""
    id_ = article.follow_up_of if isinstance(article, Article) else None
    return None if id_ is None else _name("article", id_)


def _content(article: Article | Post) -> str:
    """The text as HTML (T1)."""
    markdown = article.markdown and _UNWANTED.sub("", article.markdown)
    return content_html(markdown, _UNWANTED.sub("", article.body))


def _name(kind: str, id_: str) -> str:
    """An id that does not depend on the document's URL; `default` is no UUID."""
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:headwater:{kind}:{quote(id_, safe='')}"


def _link(url: str) -> str | None:
    """The URL without credentials, if it is valid: documents are passed on (U6)."""
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
    """Escape text for XML (U7)."""
    return escape(_UNWANTED.sub("", text))
