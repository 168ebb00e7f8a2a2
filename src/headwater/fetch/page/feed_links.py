"""Finds links to feeds in the head of a web page; they are reported, never fetched (N15)."""

from dataclasses import dataclass

from headwater.errors import BadUrl
from headwater.fetch.page.html_blocks import start_tags
from headwater.fetch.page.page_document import decoded_page
from headwater.fetch.text.sanitize import MAX_TITLE_LENGTH, storable_line
from headwater.rules.urls import WebUrl, follow, parse_url

MAX_FEED_LINKS = 20
# not plain XML and JSON: most such links are not feeds
_FEED_TYPES = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"}
)


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A link to a feed."""

    url: str
    title: str
    type: str  # as the page states it: `application/rss+xml`


def feed_links(data: bytes, *, content_type: str | None = None, url: str) -> tuple[FeedLink, ...]:
    """The feeds that a page links to, each once, in order; linear in time, never raises."""
    base = parse_url(url)
    found: dict[str, FeedLink] = {}
    for name, attributes in start_tags(decoded_page(data, content_type), {"base", "link"}):
        is_alternate = "alternate" in attributes.get("rel", "").lower().split()
        if name == "link" and not (is_alternate and _type(attributes) in _FEED_TYPES):
            continue
        target = _followed(base, attributes.get("href", ""))
        if target is None:
            continue
        if name == "base":
            base = target
        else:
            title = storable_line(attributes.get("title", ""), MAX_TITLE_LENGTH)
            link = FeedLink(str(target), title, _type(attributes))
            found.setdefault(link.url, link)
        if len(found) == MAX_FEED_LINKS:
            break
    return tuple(found.values())


def _type(attributes: dict[str, str]) -> str:
    return attributes.get("type", "").partition(";")[0].strip().lower()


def _followed(base: WebUrl, href: str) -> WebUrl | None:
    """The target of a link, if it is a permitted URL (N2)."""
    try:
        return follow(base, href) if href.strip() else None
    except (BadUrl, ValueError):
        return None
