"""The feeds that a web page names in its head; they are told, never fetched (N15)."""

from dataclasses import dataclass

from headwater.errors import BadUrl
from headwater.fetch.page import start_tags
from headwater.fetch.storable import MAX_TITLE_LENGTH, storable_line
from headwater.fetch.website import decoded_page
from headwater.rules.urls import WebUrl, follow, parse_url

MAX_FEED_LINKS = 20
# plain XML and JSON are not among them: most such links lead to other things than feeds
_FEED_TYPES = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"}
)


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed as a page names it."""

    url: str
    title: str
    type: str  # as the page says: `application/rss+xml`


def feed_links(data: bytes, *, content_type: str | None = None, url: str) -> tuple[FeedLink, ...]:
    """The feeds that a page names, each once, in its order; linear in its length, never raises."""
    base = parse_url(url)
    found: dict[str, FeedLink] = {}
    for name, attributes in start_tags(decoded_page(data, content_type), {"base", "link"}):
        if name == "link" and not _is_feed(attributes):
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


def _is_feed(attributes: dict[str, str]) -> bool:
    relations = attributes.get("rel", "").lower().split()
    return "alternate" in relations and _type(attributes) in _FEED_TYPES


def _type(attributes: dict[str, str]) -> str:
    return attributes.get("type", "").partition(";")[0].strip().lower()


def _followed(base: WebUrl, href: str) -> WebUrl | None:
    """Where a link leads, if that is somewhere we could go (N2)."""
    try:
        return follow(base, href) if href.strip() else None
    except (BadUrl, ValueError):
        return None
