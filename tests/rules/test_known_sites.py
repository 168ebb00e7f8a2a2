"""Pasted addresses of known sites, and what each resolves to (J1)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BadUrl
from headwater.model import SourceType
from headwater.rules.known_sites import known_source
from headwater.rules.pasted_addresses import Pasted, resolve
from headwater.rules.urls import parse_url

PAGE = Path(__file__).parents[2] / "docs" / "adding-sources.md"
CHANNEL = "UCabcdefghijklmnopqrstuv"
CHANNEL_FEED = f"https://www.youtube.com/feeds/videos.xml?channel_id={CHANNEL}"


def documented() -> list[list[str]]:
    """The cells of the table in the documentation."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in row] for row in rows]


@pytest.mark.parametrize(("pasted", "rule", "visit", "source"), documented())
def test_j1_the_documented_table_is_what_the_rules_return(
    pasted: str, rule: str, visit: str, source: str
):
    found = resolve(pasted)
    assert found.recognised_as == rule
    assert found.type is (SourceType.TWITTER if rule == "X" else SourceType.RSS)
    if visit:
        assert found.lookup is not None
        assert found.lookup.url == visit
    else:
        assert (found.url, found.lookup) == (source, None)


def test_j1_the_table_has_every_site():
    assert {rule for _, rule, _, _ in documented()} == set(
        "YouTube Reddit GitHub Mastodon Bluesky Substack Medium Nitter arXiv X".split()
    ) | {"Apple Podcasts", "Hacker News"}


@pytest.mark.parametrize(
    "feed",
    [
        CHANNEL_FEED,
        "https://www.reddit.com/r/rivers/.rss",
        "https://www.reddit.com/r/rivers.rss?limit=5",
        "https://github.com/example/weir/releases.atom",
        "https://github.com/example.atom",
        "https://mastodon.social/@example.rss",
        "https://bsky.app/profile/example.bsky.social/rss",
        "https://example.substack.com/feed",
        "https://medium.com/feed/@example",
        "https://news.ycombinator.com/rss",
        "https://rss.arxiv.org/rss/cs.CL",
        "https://nitter.net/example/rss",
    ],
)
def test_j1_the_address_of_a_feed_stays_as_it_is(feed: str):
    found = resolve(feed)
    assert (found.url, found.type, found.lookup) == (feed, SourceType.RSS, None)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://www.youtube.com/",
        "https://www.youtube.com/feed/history",
        "https://www.reddit.com/settings",
        "https://github.com/",
        "https://github.com/features",
        "https://bsky.app/search",
        "https://substack.com/inbox",
        "https://substack.com/@a%2Fb",
        "https://medium.com/",
        "https://podcasts.apple.com/us/charts",
        "https://news.ycombinator.com/item?id=1",
        "https://arxiv.org/abs/2401.00001",
        "https://nitter.net/",
        "https://www.tiktok.com/@example",
        "https://notgithub.com/example",
        "https://github.com.example.org/example/weir",
    ],
)
def test_j1_any_other_address_is_left_to_a_visit(url: str):
    assert resolve(url) == Pasted(url)


@pytest.mark.parametrize("pasted", ["ann@example.org", "ann.b@social.example.org"])
def test_j1_what_may_be_an_e_mail_address_is_refused_with_the_handle_to_write(pasted: str):
    with pytest.raises(BadUrl, match=f"written @{pasted}"):
        resolve(pasted)


@pytest.mark.parametrize(
    ("account", "host"),
    [("ann@mstdn.example.org", "mstdn.example.org"), ("Ann@Fosstodon.org", "fosstodon.org")],
)
def test_j1_an_account_without_its_first_at_sign_is_recognised_on_hosts_of_mastodon(
    account: str, host: str
):
    name = account.partition("@")[0]
    assert resolve(account) == Pasted(f"https://{host}/@{name}.rss", SourceType.RSS, "Mastodon")


@pytest.mark.parametrize(
    ("document", "feed"),
    [
        (b'{"primaryPublication": {"subdomain": "river"}}', "https://river.substack.com/feed"),
        (b'{"primaryPublication": null}', None),
        (b'{"primaryPublication": {"subdomain": "a/b"}}', None),
        (b"<html>", None),
    ],
)
def test_j1_the_profile_of_a_substack_account_names_its_publication(document: bytes, feed: str):
    lookup = resolve("https://substack.com/@example").lookup
    assert lookup is not None
    assert lookup.find(document) == feed
    assert "Substack" in (lookup.missing or "")


@pytest.mark.parametrize("type_", [SourceType.RSS, SourceType.WEBSITE])
def test_j1_a_type_switches_recognition_off(type_: SourceType):
    url = "https://github.com/example/weir"
    assert resolve(url, type_) == Pasted(url, type_)
    assert resolve("example.org", type_) == Pasted("https://example.org", type_)


def test_x1_a_bare_name_is_accepted_as_an_x_timeline_with_its_type():
    assert resolve(" jack ", SourceType.TWITTER) == Pasted("jack", SourceType.TWITTER)
    with pytest.raises(BadUrl):
        resolve("jack")


@pytest.mark.parametrize(
    "page",
    [
        f'<link rel="alternate" href="https://www.youtube.com/feeds/videos.xml?channel_id={CHANNEL}">',
        f'<meta itemprop="identifier" content="{CHANNEL}">',
        f'<meta itemprop="channelId" content="{CHANNEL}">',
        f'<link rel="canonical" href="https://www.youtube.com/channel/{CHANNEL}">',
        f'{{"metadata":{{"externalId":"{CHANNEL}"}}}}',
        # the channel of the page comes before others that it mentions
        f'{{"channelId":"UC{"x" * 22}"}}<meta itemprop="identifier" content="{CHANNEL}">',
    ],
)
def test_j1_a_page_of_youtube_names_its_channel(page: str):
    lookup = resolve("https://www.youtube.com/@example").lookup
    assert lookup is not None
    assert lookup.find(page.encode()) == CHANNEL_FEED
    assert lookup.find(b"<title>Before you continue</title>") is None
    assert lookup.missing is not None


@pytest.mark.parametrize(
    ("document", "feed"),
    [
        ('{"results": [{"feedUrl": "https://example.org/f"}]}', "https://example.org/f"),
        ('{"results": [{}, {"feedUrl": "http://a.org/"}]}', "http://a.org/"),
        ('{"results": [{"feedUrl": "javascript:alert(1)"}]}', None),
        ('{"results": []}', None),
        ('{"results": [1]}', None),
        ("[]", None),
        ("[" * 100_000, None),
        ("<html>", None),
    ],
)
def test_j1_the_response_of_apple_names_the_feed(document: str, feed: str | None):
    lookup = resolve("https://podcasts.apple.com/us/podcast/example/id1").lookup
    assert lookup is not None
    assert lookup.find(document.encode()) == feed


def test_j1_a_profile_elsewhere_is_mastodon_if_its_page_names_the_feed():
    lookup = resolve("https://social.example.org:8443/@example").lookup
    assert lookup is not None
    feed = "https://social.example.org:8443/@example.rss"
    assert lookup.find(f'<link href="{feed}">'.encode()) == feed
    assert lookup.find(b"<title>A blog</title>") is None
    assert lookup.missing is None  # then the page itself is the source


@given(
    st.sampled_from(sorted({pasted.partition("//")[2].partition("/")[0] or "a.org"
                            for pasted, *_ in documented()})),
    st.text(max_size=60),
)  # fmt: skip
def test_j1_any_path_of_a_known_site_gives_a_valid_url_or_none(host: str, path: str):
    found = known_source(f"https://{host}/{path}")
    if found is not None and found.type is SourceType.RSS:
        url = found.url if found.lookup is None else found.lookup.url
        assert str(parse_url(url)).startswith(("https://", "http://"))
