"""Documents of the simulated web: feeds in three formats, and pages."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape

from headwater.demo import invented_news
from headwater.demo.demo_web import http_date
from headwater.model import EPOCH, Entry

RSS_TYPE = "application/rss+xml; charset=utf-8"
HTML_TYPE = "text/html; charset=utf-8"


def newest_number(now: datetime, every_seconds: float) -> int:
    """The number of the newest entry of a feed with one every few seconds."""
    return int((now - EPOCH) / timedelta(seconds=every_seconds))


def moment_of(number: int, every_seconds: float) -> datetime:
    """The publication time of the entry with this number."""
    return EPOCH + timedelta(seconds=number * every_seconds)


def entries(
    seed: str, *, newest: int, count: int, every_seconds: float, base_url: str, sentences: int = 4
) -> list[Entry]:
    """The newest entries of an invented feed, newest first."""
    return [
        Entry(
            id=f"{seed}-{number}",
            title=invented_news.title(seed, number),
            url=f"{base_url}/{seed}/{number}",
            published_at=moment_of(number, every_seconds),
            author=invented_news.author(seed, number),
            body="\n".join(invented_news.sentences(seed, number, sentences)),
        )
        for number in range(newest, newest - count, -1)
    ]


def rss(title: str, url: str, entries: Sequence[Entry]) -> bytes:
    """An RSS 2.0 document."""
    items = "".join(_rss_item(entry) for entry in entries)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>\n'
        f"<title>{escape(title)}</title><link>{escape(url)}</link>"
        f"<description>{escape(title)}</description>\n{items}</channel></rss>\n"
    ).encode()


def atom(title: str, url: str, entries: Sequence[Entry]) -> bytes:
    """An Atom 1.0 document."""
    updated = _iso(entries[0].published_at) if entries else _iso(EPOCH)
    items = "".join(_atom_entry(entry) for entry in entries)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f'<title>{escape(title)}</title><id>{escape(url)}</id><link href="{escape(url)}"/>'
        f"<updated>{updated}</updated>\n{items}</feed>\n"
    ).encode()


def json_feed(title: str, url: str, entries: Sequence[Entry]) -> bytes:
    """A JSON Feed 1.1 document."""
    items = [
        {
            "id": entry.id,
            "url": entry.url,
            "title": entry.title,
            "content_html": _html(entry.body),
            "date_published": _iso(entry.published_at),
            "authors": [{"name": entry.author}],
        }
        for entry in entries
    ]
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": title,
        "home_page_url": url,
        "items": items,
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def article_page(entry: Entry) -> bytes:
    """A page with one article and the usual surroundings."""
    return _page(
        entry.title,
        "<header><nav><a href='/'>Home</a> <a href='/about'>About us</a></nav></header>\n"
        f"<main><article><h1>{escape(entry.title)}</h1>{_html(entry.body)}</article></main>\n"
        "<aside>Most read: nothing of importance</aside>\n"
        "<div class='cookie-banner'>We would like to use cookies.</div>\n"
        "<footer>Printed on loopback</footer>",
        meta=f'<meta name="author" content="{escape(entry.author or "")}">',
    )


def home_page(title: str, feed_path: str, feed_type: str) -> bytes:
    """A page that links to its feed."""
    kind = feed_type.partition(";")[0]
    return _page(
        title,
        f"<main><h1>{escape(title)}</h1><p>There is a feed.</p></main>",
        meta=f'<link rel="alternate" type="{kind}" href="{escape(feed_path)}">',
    )


def _page(title: str, body: str, *, meta: str) -> bytes:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>{meta}</head>\n<body>{body}</body></html>\n"
    ).encode()


def _rss_item(entry: Entry) -> str:
    return (
        f"<item><title>{escape(entry.title)}</title><link>{escape(entry.url or '')}</link>"
        f'<guid isPermaLink="false">{escape(entry.id or "")}</guid>'
        f"<pubDate>{http_date(entry.published_at or EPOCH)}</pubDate>"
        f"<dc:creator>{escape(entry.author or '')}</dc:creator>"
        f"<description>{escape(_html(entry.body))}</description></item>\n"
    )


def _atom_entry(entry: Entry) -> str:
    return (
        f"<entry><title>{escape(entry.title)}</title><id>{escape(entry.id or '')}</id>"
        f'<link href="{escape(entry.url or "")}"/>'
        f"<published>{_iso(entry.published_at)}</published>"
        f"<updated>{_iso(entry.published_at)}</updated>"
        f"<author><name>{escape(entry.author or '')}</name></author>"
        f'<content type="html">{escape(_html(entry.body))}</content></entry>\n'
    )


def _html(body: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in body.split("\n"))


def _iso(moment: datetime | None) -> str:
    return (moment or EPOCH).astimezone(UTC).isoformat(timespec="milliseconds")
