"""The hosts of `headwater demo`: each shows one case of the real web."""

from headwater.demo import documents
from headwater.demo import host_behaviours as sites
from headwater.demo.demo_web import DemoHost, DemoSource, Site
from headwater.demo.x_api import XApi
from headwater.model import SourceType

_BIRDS = ("heron", "dipper", "kingfisher", "osprey", "wagtail", "plover", "grebe", "bittern")
_FEED = "/feed.xml"


def demo_hosts() -> list[DemoHost]:
    """The simulated hosts, from healthy to gone, each with its sources."""
    return [*_healthy(), *_crowded(), *_troublesome(), *_failing()]


def _healthy() -> list[DemoHost]:
    steady: dict[str, Site] = {
        "/": sites.fixed(
            200, documents.home_page("Steady", _FEED, documents.RSS_TYPE), documents.HTML_TYPE
        ),
        _FEED: sites.GrowingFeed("steady", every_seconds=20),
    }
    return [
        DemoHost(
            "steady.demo",
            "an RSS feed that gains an entry every 20 seconds and answers 304 in between",
            sites.paths(steady),
            (DemoSource(_FEED, "Steady news", include_history=True),),
        ),
        DemoHost(
            "atom.demo",
            "an Atom feed with an entry every 45 seconds",
            sites.GrowingFeed("atom", every_seconds=45, kind="atom"),
            (DemoSource("/atom.xml", "Atom news", include_history=True),),
        ),
        DemoHost(
            "json.demo",
            "a JSON Feed that rarely changes, so most polls bring nothing",
            sites.GrowingFeed("json", every_seconds=600, kind="json"),
            (DemoSource("/feed.json", "JSON news"),),
        ),
        DemoHost(
            "gazette.demo",
            "a web page whose article is another one every 45 seconds",
            sites.changing_page("gazette", every_seconds=45),
            (DemoSource("/today", "The front page", SourceType.WEBSITE),),
        ),
        DemoHost(
            "moved.demo",
            "redirects to the feed of steady.demo",
            sites.redirect("steady.demo"),
            (DemoSource(_FEED, "Moved to Steady"),),
        ),
    ]


def _crowded() -> list[DemoHost]:
    birds = tuple(
        DemoSource(f"/{bird}/rss", f"@{bird}", poll_delay_seconds=3, include_history=True)
        for bird in _BIRDS
    )
    return [
        DemoHost(
            "birds.demo",
            "eight timelines on one host, polled one after another with 3 seconds in between",
            sites.many_feeds(_BIRDS),
            birds,
        ),
        DemoHost(
            "x.demo",
            "stands in for the X API; needs app.x.base-url and any key",
            XApi(("weirwatch", "lockkeeper"), every_seconds=30),
            (
                DemoSource("@weirwatch", "Weir watch", SourceType.TWITTER),
                DemoSource("@lockkeeper", "Lock keeper", SourceType.TWITTER),
            ),
        ),
        DemoHost(
            "huge.demo",
            "a feed of 4,000 entries and several megabytes, parsed in a process of its own",
            sites.GrowingFeed("huge", every_seconds=3600, entries=4000, sentences=12),
            (DemoSource(_FEED, "Huge news", poll_interval_minutes=5, include_history=True),),
        ),
    ]


def _troublesome() -> list[DemoHost]:
    return [
        DemoHost(
            "slow.demo",
            "takes 8 seconds to answer, and delays nobody else",
            sites.slow(sites.GrowingFeed("slow"), seconds=8),
            (DemoSource(_FEED, "Slow news"),),
        ),
        DemoHost(
            "stuck.demo",
            "accepts connections and never answers, until the timeout",
            sites.stuck,
            (DemoSource(_FEED, "Stuck news"),),
        ),
        DemoHost(
            "limited.demo",
            "answers one request in 3 minutes and 429 with Retry-After to the others",
            sites.RateLimited(sites.GrowingFeed("limited"), requests=1, window_seconds=180),
            (
                DemoSource(_FEED, "Limited news"),
                DemoSource("/more.xml", "More limited news"),
            ),
        ),
        DemoHost(
            "flapping.demo",
            "fails every other request, with 500 or by hanging up",
            sites.flapping(sites.GrowingFeed("flapping")),
            (DemoSource(_FEED, "Flapping news"),),
        ),
    ]


def _failing() -> list[DemoHost]:
    broken: dict[str, Site] = {
        _FEED: sites.ill_formed(sites.GrowingFeed("broken")),
        "/nothing.xml": sites.fixed(200, b"<<< this is not a feed >>>", "application/rss+xml"),
    }
    return [
        DemoHost(
            "broken.demo",
            "one feed of ill-formed XML that can be read, and one that cannot and backs off",
            sites.paths(broken),
            (
                DemoSource(_FEED, "Broken news", include_history=True),
                DemoSource("/nothing.xml", "No news"),
            ),
        ),
        DemoHost(
            "missing.demo",
            "answers 404 for everything; its source is disabled after the second time",
            sites.fixed(404),
            (DemoSource(_FEED, "Missing news", max_failures=2),),
        ),
        DemoHost(
            "gone.demo",
            "answers 410 for everything; its source is disabled at once",
            sites.fixed(410),
            (DemoSource(_FEED, "News that is gone", max_failures=1),),
        ),
    ]
