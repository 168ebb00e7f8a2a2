"""The feeds that are polled: twenty entries each, new ones in every generation."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

ENTRIES = 20
_PARAGRAPH = (
    "&lt;p&gt;The river &lt;b&gt;rose&lt;/b&gt; by {0} cm over night, says "
    '&lt;a href="http://{1}/levels/{0}"&gt;the gauge&lt;/a&gt;.&lt;/p&gt;'
)
_PARAGRAPHS = 9
_SENTENCE = "Report of 127.90: the river rose by {0} cm over night, says the gauge. "
PAGE = "page.html"
_BEGINNING = timedelta(days=2)  # generations begin this long ago, so that all are in the past
_STEP = timedelta(minutes=30)


def address(index: int) -> str:
    """The loopback address of a host; there are 65,536."""
    return f"127.90.{index >> 8 & 255}.{index & 255}"


def url(index: int, kind: str, port: int, scheme: str = "http", hosts: int | None = None) -> str:
    """The URL of a feed of a kind: every one on a separate host, unless there are fewer."""
    host = address(index if hosts is None else index % hosts)
    return f"{scheme}://{host}:{port}/{kind}/{index}.xml"


def document(
    index: int, generation: int, now: datetime, entries: int = ENTRIES, *, paged: bool = False
) -> bytes:
    """The feed of a host; later generations have later entries only.

    `paged`: its entries link to pages that the same server has.
    """
    host = address(index)
    newest = now - _BEGINNING + generation * _STEP
    link = f"/{PAGE}?" if paged else f"http://{host}/"
    items = "".join(_item(host, link, generation, n, newest) for n in range(entries))
    return (
        f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>{host}</title>'
        f"<link>http://{host}/</link>{items}</channel></rss>"
    ).encode()


def page() -> bytes:
    """The page of every entry, with more text than a feed has of it."""
    paragraphs = "".join(f"<p>{_SENTENCE.format(number) * 3}</p>" for number in range(30))
    article = f"<article><h1>Levels</h1>{paragraphs}</article>"
    return f"<!doctype html><title>Levels</title><body>{article}</body>".encode()


def _item(host: str, link: str, generation: int, number: int, newest: datetime) -> str:
    name = f"{generation}-{number}"
    published = format_datetime((newest - timedelta(seconds=number)).astimezone(UTC), usegmt=True)
    body = f"Report {name} of {host}. {_PARAGRAPH.format(number, host) * _PARAGRAPHS}"
    return (
        f"<item><title>Level {name}</title><link>{link}{name}</link>"
        f"<guid>{host}-{name}</guid><pubDate>{published}</pubDate>"
        f"<author>gauge@{host}</author><description>{body}</description></item>"
    )
