"""Sites whose feeds can be derived from an address: one pure function per site, by host (J1)."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

from headwater.errors import BadUrl
from headwater.rules.urls import parse_url
from headwater.source_settings import SourceType

Find = Callable[[bytes], str | None]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A document that names the feed, where the address alone is not sufficient."""

    url: str
    find: Find  # the URL of the feed in the document, or None
    missing: str | None = None  # the error without one; None: the document itself is the source


@dataclass(frozen=True, slots=True)
class SiteSource:
    """The source that an address of a known site stands for."""

    recognised_as: str  # the name of the rule
    url: str
    type: SourceType = SourceType.RSS
    lookup: Lookup | None = None  # the source is the feed that it finds


@dataclass(frozen=True, slots=True)
class _Address:
    """The parts of a URL that the rules compare."""

    url: str
    scheme: str
    netloc: str
    site: str  # the normalised host, without `www.` and the like
    path: tuple[str, ...]  # decoded, without empty segments
    query: Mapping[str, Sequence[str]]

    def first(self) -> str:
        """The first segment of the path, or an empty text."""
        return self.path[0] if self.path else ""

    def value(self, name: str) -> str:
        """The first value of a parameter, or an empty text."""
        return self.query[name][0] if name in self.query else ""


_Rule = Callable[[_Address], str | Lookup | None]


@dataclass(frozen=True, slots=True)
class _Site:
    name: str
    rule: _Rule  # returns the URL of the source, where to find it, or None
    type: SourceType = SourceType.RSS


_MIRRORS = ("www.", "m.", "mobile.", "old.", "new.", "np.")  # of the same site
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_CHANNEL = re.compile(r"UC[\w-]{22}", re.ASCII)
_PLAYLIST = re.compile(r"(?:PL|UU|FL|OL|RD)[\w-]{10,}", re.ASCII)
_CHANNEL_IN_PAGE = tuple(  # the most reliable first: a page also names other channels
    re.compile(prefix + rb"(UC[\w-]{22})")
    for prefix in (
        rb"feeds/videos\.xml\?channel_id=",
        rb'itemprop="(?:identifier|channelId)" content="',
        rb'rel="canonical" href="https://www\.youtube\.com/channel/',
        rb'"externalId":"',
        rb'"channelId":"',
    )
)
_ARXIV = re.compile(r"[a-z-]+(?:\.[A-Za-z-]+)?(?:\+[a-z-]+(?:\.[A-Za-z-]+)?)*")
_APPLE_ID = re.compile(r"id([0-9]{1,20})")
_FEED_END = re.compile(r"\.(?:rss|atom|xml|json)$|/(?:rss|feed|atom)/?$")
_MASTODON_NAME = re.compile(r"@(\w[\w.-]*)(?:@([\w-]+(?:\.[\w-]+)+))?", re.ASCII)
_MASTODON_HOSTS = frozenset(
    "chaos.social fosstodon.org hachyderm.io infosec.exchange mas.to mathstodon.xyz mstdn.jp "
    "mstdn.social piaille.fr social.coop techhub.social toot.community troet.cafe".split()
)
_NITTER_HOSTS = frozenset({"xcancel.com"})
_GITHUB_PAGES = frozenset(
    "about apps blog codespaces collections contact customer-stories enterprise events explore "
    "features issues join login marketplace new notifications organizations pricing pulls readme "
    "search security sessions settings signup site sponsors stars team topics trending".split()
)
_MEDIUM_PAGES = frozenset(
    "about business creators jobs-at-medium m me membership new-story p plans policy search "
    "tags".split()
)
_NITTER_PAGES = frozenset("about explore i pic search settings".split())


def known_source(url: str) -> SiteSource | None:
    """The source that an http(s) URL of a known site stands for; None for any other URL (J1)."""
    address = _address(url)
    if address is None:
        return None
    site = _site_of(address.site)
    found = site.rule(address)
    if isinstance(found, Lookup):
        return SiteSource(site.name, url, site.type, found)
    return None if found is None else SiteSource(site.name, found, site.type)


def known_handle(text: str) -> SiteSource | None:
    """The source of a handle: `@name` on X, `@name@host` on Mastodon, `@name.host` on Bluesky."""
    if not text.startswith("@"):
        return None
    name, _, host = text[1:].partition("@")
    if host:
        is_valid = _MASTODON_NAME.fullmatch(text)
        return SiteSource("Mastodon", _mastodon_feed(host, name)) if is_valid else None
    if "." in name and _NAME.fullmatch(name):
        return SiteSource("Bluesky", f"https://bsky.app/profile/{name}/rss")
    return SiteSource("X", text, SourceType.TWITTER)


def is_mastodon_account(text: str) -> bool:
    """Whether `name@host` is an account on Mastodon; on most hosts it is an e-mail address."""
    return bool(_MASTODON_NAME.fullmatch(f"@{text}")) and _runs_mastodon(
        text.partition("@")[2].lower()
    )


def _address(url: str) -> _Address | None:
    try:
        parsed = parse_url(url)
    except BadUrl:
        return None
    site = parsed.host
    for prefix in _MIRRORS:
        site = site.removeprefix(prefix)
    parts = urlsplit(str(parsed))
    path = tuple(unquote(segment) for segment in parts.path.split("/") if segment)
    return _Address(url, parsed.scheme, parsed.netloc, site, path, parse_qs(parts.query))


def _site_of(host: str) -> _Site:
    if host in _SITES:
        return _SITES[host]
    for suffix, site in _SUFFIXES.items():
        if host.endswith(suffix):
            return site
    if host in _NITTER_HOSTS or "nitter" in host.split("."):
        return _NITTER
    return _MASTODON  # any host may run it


def _x(address: _Address) -> str:
    """The profile; the address of a post by the user leads to it too."""
    is_post = len(address.path) > 2 and address.path[1] == "status"
    return f"https://x.com/{address.path[0]}" if is_post else address.url


def _youtube(address: _Address) -> str | Lookup | None:
    first, second = (*address.path, "", "")[:2]
    playlist = address.value("list")
    if first == "feeds":
        return address.url
    if _PLAYLIST.fullmatch(playlist) and not playlist.startswith("RD"):  # a mix has no feed
        return f"https://www.youtube.com/feeds/videos.xml?playlist_id={playlist}"
    if first == "channel" and _CHANNEL.fullmatch(second):
        return _channel_feed(second)
    video = second if first in ("shorts", "live", "embed") else address.value("v")
    if address.site == "youtu.be":
        video = first
    if first.startswith("@"):
        page = _joined([first])
    elif first in ("c", "user") and second:
        page = _joined([first, second])
    elif video:
        page = f"/watch?v={quote(video, safe='')}"
    else:
        return None
    missing = "the page at YouTube does not name a channel; give the address youtube.com/channel/…"
    return Lookup(f"https://www.youtube.com{page}", _channel_in_page, missing)


def _channel_in_page(page: bytes) -> str | None:
    found = next((match for one in _CHANNEL_IN_PAGE if (match := one.search(page))), None)
    return None if found is None else _channel_feed(found[1].decode())


def _channel_feed(channel: str) -> str:
    return f"https://www.youtube.com/feeds/videos.xml?channel_id={channel}"


def _reddit(address: _Address) -> str | None:
    path = address.path
    if path and path[-1].endswith(".rss"):
        return address.url
    if address.first() == "u":
        path = ("user", *path[1:])
    if path[:1] not in ((), ("r",), ("user",)) or len(path) == 1:
        return None
    if "comments" in path[:3]:
        path = path[: path.index("comments") + 2]  # without the title
    period = f"?t={quote(address.value('t'))}" if address.value("t") else ""
    return f"https://www.reddit.com{_joined(path)}/.rss{period}"


def _github(address: _Address) -> str | None:
    path = address.path
    if path[:1] == ("orgs",):
        path = path[1:2]
    if not path or path[0] in _GITHUB_PAGES:
        return None
    if _FEED_END.search(address.url):
        return address.url
    if len(path) == 1:
        return f"https://github.com{_joined(path)}.atom"
    owner, repository, *rest = path
    base = f"https://github.com{_joined((owner, repository.removesuffix('.git')))}"
    if rest[:1] == ["commits"]:
        return f"{base}{_joined(rest)}.atom"
    return f"{base}/{rest[0] if rest[:1] in (['tags'], ['discussions']) else 'releases'}.atom"


def _mastodon(address: _Address) -> str | Lookup | None:
    """A profile: on a known instance by its address, elsewhere if the page has this feed."""
    found = _MASTODON_NAME.fullmatch(address.first())
    if found is None:
        return None
    name, home = found[1], found[2]
    if home is None and name.endswith(".rss") and len(address.path) == 1:
        return address.url
    feed = f"{address.scheme}://{address.netloc}/@{name}.rss"
    if home is not None:
        feed = _mastodon_feed(home, name)
    if _runs_mastodon(address.site):
        return feed
    if home is not None or len(address.path) > 1:
        return None

    def feed_in_page(page: bytes) -> str | None:
        return feed if feed.partition("://")[2].encode() in page else None

    return Lookup(address.url, feed_in_page)


def _runs_mastodon(host: str) -> bool:
    """Whether a host runs Mastodon for certain: other hosts may."""
    return host in _MASTODON_HOSTS or not {"mastodon", "mstdn"}.isdisjoint(host.split("."))


def _mastodon_feed(host: str, name: str) -> str:
    return f"https://{host.lower()}/@{name}.rss"


def _bluesky(address: _Address) -> str | None:
    if address.first() != "profile" or len(address.path) < 2:
        return None
    return f"https://bsky.app/profile/{quote(address.path[1], safe=':')}/rss"


def _substack(address: _Address) -> str | Lookup | None:
    first, name = (*address.path, "", "")[:2]
    if address.site == "substack.com":
        if not (first.startswith("@") and _NAME.fullmatch(first[1:])):
            return None
        url = f"https://substack.com/api/v1/user/{first[1:]}/public_profile"
        missing = "Substack names no publication of this account; give its address, ….substack.com"
        return Lookup(url, _publication_of_account, missing)
    if address.site != "open.substack.com":
        return f"https://{address.site}/feed"
    is_post = first == "pub" and _NAME.fullmatch(name)
    return f"https://{name}.substack.com/feed" if is_post else None


def _publication_of_account(document: bytes) -> str | None:
    try:
        name = json.loads(document)["primaryPublication"]["subdomain"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_name = isinstance(name, str) and _NAME.fullmatch(name)
    return f"https://{name}.substack.com/feed" if is_name else None


def _medium(address: _Address) -> str | None:
    if address.site != "medium.com":
        return f"https://{address.site}/feed"
    first = address.first()
    if first == "feed":
        return address.url
    if not first or first in _MEDIUM_PAGES:
        return None
    kept = address.path[:2] if first == "tag" else address.path[:1]
    return f"https://medium.com/feed{_joined(kept)}"


def _apple_podcasts(address: _Address) -> Lookup | None:
    found = [_APPLE_ID.fullmatch(segment) for segment in address.path]
    ids = [match[1] for match in found if match is not None]
    if not ids:
        return None
    url = f"https://itunes.apple.com/lookup?id={ids[-1]}&entity=podcast"
    return Lookup(url, _feed_of_apple, "Apple Podcasts does not name a feed for this podcast")


def _feed_of_apple(document: bytes) -> str | None:
    try:
        results = json.loads(document)["results"]
        urls = [one.get("feedUrl") for one in results]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return next((url for url in urls if isinstance(url, str) and _address(url)), None)


def _hacker_news(address: _Address) -> str | None:
    feeds = {"": "rss", "news": "rss", "front": "rss", "show": "showrss", "shownew": "showrss"}
    if address.first() in ("rss", "showrss"):
        return address.url
    feed = feeds.get(address.first())
    return None if feed is None else f"https://news.ycombinator.com/{feed}"


def _arxiv(address: _Address) -> str | None:
    first, category = (*address.path, "", "")[:2]
    if first in ("rss", "atom"):
        return address.url
    if first not in ("list", "archive") or not _ARXIV.fullmatch(category):
        return None
    return f"https://rss.arxiv.org/rss/{category}"


def _nitter(address: _Address) -> str | None:
    user = address.first()
    if not _NAME.fullmatch(user) or user in _NITTER_PAGES:
        return None
    return f"{address.scheme}://{address.netloc}/{user}/rss"


def _joined(path: Sequence[str]) -> str:
    return "".join(f"/{quote(segment, safe='@+')}" for segment in path)


def _no_feed(_: _Address) -> None:
    return None


_SITES = {
    "youtube.com": _Site("YouTube", _youtube),
    "music.youtube.com": _Site("YouTube", _youtube),
    "youtu.be": _Site("YouTube", _youtube),
    "reddit.com": _Site("Reddit", _reddit),
    "github.com": _Site("GitHub", _github),
    "bsky.app": _Site("Bluesky", _bluesky),
    "substack.com": _Site("Substack", _substack),
    "medium.com": _Site("Medium", _medium),
    "podcasts.apple.com": _Site("Apple Podcasts", _apple_podcasts),
    "itunes.apple.com": _Site("Apple Podcasts", _apple_podcasts),
    "news.ycombinator.com": _Site("Hacker News", _hacker_news),
    "arxiv.org": _Site("arXiv", _arxiv),
    "export.arxiv.org": _Site("arXiv", _arxiv),
    "rss.arxiv.org": _Site("arXiv", _arxiv),
    "x.com": _Site("X", _x, SourceType.TWITTER),
    "twitter.com": _Site("X", _x, SourceType.TWITTER),
    # profiles look like those of Mastodon, but have no feed
    "tiktok.com": _Site("TikTok", _no_feed),
    "threads.net": _Site("Threads", _no_feed),
    "threads.com": _Site("Threads", _no_feed),
}
_SUFFIXES = {
    ".substack.com": _Site("Substack", _substack),
    ".medium.com": _Site("Medium", _medium),
}
_NITTER = _Site("Nitter", _nitter)
_MASTODON = _Site("Mastodon", _mastodon)
