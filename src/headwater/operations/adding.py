"""Adding a source as a person does: from what was pasted to the first poll."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlsplit

from headwater.engine.service import Service
from headwater.errors import (
    BadRedirect,
    BadStatus,
    BadUrl,
    BrokenBody,
    NotAFeed,
    Stopping,
    TooExpensive,
    TooLarge,
)
from headwater.model import Podcast, SourceType
from headwater.operations.preview import Preview, Previewer, Previews
from headwater.operations.sources import SourceSettings, new_source
from headwater.rules.lines import is_one_line
from headwater.rules.urls import parse_url
from headwater.store import Store

_MOST_PLACES = 4  # visits to one host in a row, for one question
_COMMON_PLACES = ("/feed", "/rss.xml", "/atom.xml", "/index.xml")
_SLOW_DOWN = (429, 503)  # whoever answers so is not asked on
_ELSEWHERE = (NotAFeed, BadRedirect, BrokenBody, TooLarge, TooExpensive)  # of this place alone
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?![0-9])", re.IGNORECASE)  # but for a port
_FEED_SCHEME = re.compile(r"feed:(?://)?(?=https?://)|feed:(?=//)", re.IGNORECASE)
_BARE_WORD = re.compile(r"[A-Za-z0-9_]{1,15}")


@dataclass(frozen=True, slots=True)
class Addition:
    """What became of a source that somebody wanted."""

    source_id: str
    is_new: bool  # False: the podcast watches its URL already


def as_url(pasted: str) -> str:
    """A URL or an X name from what somebody pasted; a scheme that is missing is https."""
    text = _FEED_SCHEME.sub("", pasted.strip())
    if not text:
        raise BadUrl("paste the address of a feed or a page, or the name of an X user", field="url")
    if not is_one_line(text):
        raise BadUrl("an address is one line of text", field="url")
    if text.startswith("@") or ("://" in text and not text.startswith("//")):
        return text
    if _BARE_WORD.fullmatch(text) and text.lower() != "localhost":
        raise BadUrl(
            f"“{text}” alone is no address: a site has a name such as {text.lower()}.com, "
            f"an X timeline is written @{text}",
            field="url",
        )
    if _SCHEME.match(text):  # mailto:, javascript: and the like are refused where URLs are read
        return text
    return f"https://{text.removeprefix('//')}"


async def watched_as(store: Store, podcast: Podcast, url: str) -> str | None:
    """The id of the source with which a podcast watches a URL already, if it does."""
    return (await store.subscriptions.watched(podcast.id, [url])).get(url)


async def add_and_poll(
    store: Store,
    service: Service,
    podcast: Podcast,
    wanted: SourceSettings,
    now: datetime,
    *,
    most: int,
) -> Addition:
    """Store a new source and poll it right away, unless the podcast watches its URL already."""
    # requested as it is stored: not even a crash in between makes it wait for its interval (S9)
    source = replace(new_source(podcast.id, wanted, now), requested_at=now)
    there = await store.subscriptions.add_missing(podcast.id, [source], most=most)
    if source.url in there:
        return Addition(there[source.url], is_new=False)
    with suppress(Stopping):  # the request waits for the next start
        await service.poll_now(source.id, wait_seconds=0)
    return Addition(source.id, is_new=True)


async def find_feed(
    previews: Previews, previewer: Previewer, podcast: Podcast, url: str
) -> Preview | None:
    """The first feed where sites usually have theirs; None: there is none (only when asked, N15).

    One place after another, each in its host's turn; a host that asks for a pause gets it.
    """
    for place in common_places(url):
        wanted = SourceSettings(type=SourceType.RSS, url=place)
        try:
            return await previews.preview(previewer, wanted, podcast)
        except BadStatus as error:
            if error.status in _SLOW_DOWN:
                raise
        except _ELSEWHERE:
            continue
    return None


def common_places(url: str) -> Sequence[str]:
    """Where a site usually has its feed, beginning near the page."""
    parse_url(url)  # BadUrl where it is none
    parts = urlsplit(url)
    site = f"{parts.scheme}://{parts.netloc}"
    folder = parts.path.rstrip("/")
    near = [f"{site}{folder}/feed"] if folder else []
    places = dict.fromkeys([*near, *(site + place for place in _COMMON_PLACES)])
    return list(places)[:_MOST_PLACES]


def front_page(url: str) -> str | None:
    """The first page of a URL's site, if the URL is another one."""
    parts = urlsplit(url)
    site = f"{parts.scheme}://{parts.netloc}/"
    return site if url not in (site, site[:-1]) else None
