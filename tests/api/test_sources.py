"""Sources over the API: adding, listing, finding, showing, deleting."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headwater.api.pages import cursor_for
from headwater.errors import NotFound
from headwater.model import Health, SourceType
from headwater.operations.sources import SourceSettings, add_source
from headwater.rules.health import health_of
from headwater.store.sources import SourceFilter
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.store.pieces import NOW, a_post, a_source, a_success

SOURCES = f"{DEFAULT}/sources"
FEED = "https://feeds.example.org/news.xml"


async def listed(served: Served, query: str = "") -> list[str]:
    """The URLs that a list shows."""
    answer = await served.get(f"{SOURCES}{query}")
    assert answer.status == 200, answer.json
    return [source["url"] for source in answer.json["items"]]


async def test_a_source_has_its_settings_its_state_and_what_follows(served_by_each: Served):
    made = await served_by_each.post(SOURCES, {"type": "rss", "url": FEED, "label": "News"})
    assert made.status == 201
    source = made.json
    assert made.headers["Location"] == f"{SOURCES}/{source['id']}"
    assert source == {
        "id": source["id"],
        "podcastId": "default",
        "type": "rss",
        "url": FEED,
        "label": "News",
        "enabled": True,
        "pollIntervalMinutes": 30,
        "pollDelaySeconds": None,
        "maxFailures": None,
        "maxBackoffHours": None,
        "lateEntryHours": None,
        "aggregate": None,
        "includeHistory": False,
        "createdAt": source["createdAt"],
        "lastPolled": None,
        "lastSuccessAt": None,
        "lastSeenId": None,
        "consecutiveFailures": 0,
        "lastFailureType": None,
        "failingSince": None,
        "lastError": None,
        "disabledReason": None,
        "health": "new",
        "host": "feeds.example.org",
        "nextPollAt": None,
        "effectiveDelaySeconds": 0,
        "effectiveIntervalMinutes": 30,
        "postCount": 0,
        "articleCount": 0,
    }
    assert (await served_by_each.get(f"{SOURCES}/{source['id']}")).json == source
    assert (await served_by_each.get(SOURCES)).json == {"items": [source], "nextCursor": None}


async def test_everything_that_can_be_set_is_taken(served_by_each: Served):
    wanted = {
        "type": "website",
        "url": "https://example.org/page",
        "label": "Grüße 👩‍🚀",
        "enabled": False,
        "pollIntervalMinutes": 525_600,
        "pollDelaySeconds": 0,
        "maxFailures": 1,
        "maxBackoffHours": 1,
        "lateEntryHours": 0,
        "aggregate": False,
        "includeHistory": True,
    }
    made = (await served_by_each.post(SOURCES, wanted)).json
    assert {name: made[name] for name in wanted} == wanted
    assert made["health"] == "disabled"
    shown = (await served_by_each.get(f"{SOURCES}/{made['id']}")).json
    assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("url", "type_", "host"),
    [
        ("@nasa", "twitter", "x.com"),
        ("https://twitter.com/nasa", "twitter", "x.com"),
        ("https://example.org/feed", "rss", "example.org"),
        ("  https://Example.ORG:8443/feed  ", "rss", "example.org"),
    ],
)
async def test_a_type_that_is_not_given_follows_from_the_url(
    served: Served, url: str, type_: str, host: str
):
    made = (await served.post(SOURCES, {"url": url})).json
    assert (made["type"], made["host"], made["url"]) == (type_, host, url.strip())


async def test_what_a_source_cannot_be_is_422_and_names_the_field(served: Served):
    cases: list[tuple[dict[str, Any], str]] = [
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "example.org"}, "url"),
        ({"url": "https://example.org/\0"}, "url"),
        ({"url": "https://example.org/?a=\0"}, "url"),
        ({"url": "https://example.org/\ud800"}, "url"),
        ({"url": f"https://example.org/{'a' * 8192}"}, "url"),
        ({"url": "not a name", "type": "twitter"}, "url"),
        ({"url": None}, "url"),
        ({"url": 1}, "url"),
        ({"type": "podcast"}, "type"),
        ({"type": ["rss"]}, "type"),
        ({"label": "a\nb"}, "label"),
        ({"label": "\0"}, "label"),
        ({"label": "\ud800"}, "label"),
        ({"label": "a" * 501}, "label"),
        ({"enabled": None}, "enabled"),
        ({"enabled": "true"}, "enabled"),
        ({"pollIntervalMinutes": 0}, "pollIntervalMinutes"),
        ({"pollIntervalMinutes": 525_601}, "pollIntervalMinutes"),
        ({"pollIntervalMinutes": None}, "pollIntervalMinutes"),
        ({"pollIntervalMinutes": True}, "pollIntervalMinutes"),
        ({"pollIntervalMinutes": 1.5}, "pollIntervalMinutes"),
        ({"pollDelaySeconds": -1}, "pollDelaySeconds"),
        ({"pollDelaySeconds": 86_401}, "pollDelaySeconds"),
        ({"maxFailures": 0}, "maxFailures"),
        ({"maxBackoffHours": 0}, "maxBackoffHours"),
        ({"lateEntryHours": -1}, "lateEntryHours"),
        ({"lateEntryHours": 10**30}, "lateEntryHours"),
        ({"includeHistory": None}, "includeHistory"),
        ({"poll_interval_minutes": 30}, "poll_interval_minutes"),
        ({"interval": 30}, "interval"),
    ]
    for changes, field in cases:
        answer = await served.post(SOURCES, {"type": "rss", "url": FEED} | changes)
        assert answer.status == 422, changes
        assert answer.json["errors"][0]["field"] == field, changes
    assert await listed(served) == []


async def test_the_same_url_twice_is_allowed(served: Served):
    for _ in range(2):
        assert (await served.post(SOURCES, {"url": FEED})).status == 201
    assert await listed(served) == [FEED, FEED]


async def test_a_deleted_source_is_gone_with_its_posts(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    source = a_source()
    await store.sources.add_many([source])
    await store.record(a_success(source, [a_post(source, "one"), a_post(source, "two")]))
    assert (await served.get(f"{SOURCES}/{source.id}")).json["postCount"] == 2
    assert (await served.delete(f"{SOURCES}/{source.id}")).status == 204
    assert (await served.delete(f"{SOURCES}/{source.id}")).status == 404
    assert (await served.get(f"{SOURCES}/{source.id}")).status == 404
    assert await store.posts.count() == 0


async def test_the_list_is_filtered_by_all_that_it_says(served_by_each: Served):
    served = served_by_each
    feed = a_source(label="100% Über_news", last_success_at=NOW)
    page = a_source(type=SourceType.WEBSITE, enabled=False, url="https://www.example.org/Page")
    failing = a_source(consecutive_failures=2, last_success_at=NOW)
    fresh = a_source(last_polled=None, host="xn--mnchen-3ya.example", label="fresh")
    await served.app.store.sources.add_many([feed, page, failing, fresh])
    cases = [
        ("", [feed, page, failing, fresh]),
        ("?enabled=true", [feed, failing, fresh]),
        ("?enabled=false", [page]),
        ("?type=website", [page]),
        ("?type=twitter", []),
        ("?health=ok", [feed]),
        ("?health=failing", [failing]),
        ("?health=new", [fresh]),
        ("?health=disabled", [page]),
        (f"?host={feed.host}", [feed]),
        (f"?host={(feed.host or '').upper()}.", [feed]),
        (f"?host={quote('München.example')}", [fresh]),
        ("?q=WWW.example.ORG/page", [page]),
        (f"?q={quote('100% über_NEWS')}", [feed]),
        (f"?q={quote('ÜBER')}", [feed]),
        (f"?q={quote('uber')}", []),
        ("?q=%25", [feed]),
        ("?q=_", [feed]),
        ("?q=fresh&health=new&enabled=true&type=rss", [fresh]),
        ("?q=fresh&enabled=false", []),
    ]
    for query, found in cases:
        assert await listed(served, query) == [source.url for source in found], query


async def test_the_filter_by_health_is_the_rule_in_sql(served_by_each: Served):
    store = served_by_each.app.store
    sources = [
        a_source(
            enabled=enabled,
            consecutive_failures=failures,
            last_success_at=success,
            last_polled=polled,
            first_poll_done=success is not None,
        )
        for enabled in (True, False)
        for failures in (0, 1, 10**6)
        for success in (None, NOW)
        for polled in (None, NOW)
    ]
    await store.sources.add_many(sources)
    for health in Health:
        found = await store.sources.find(SourceFilter(health=health), limit=100)
        fitting = [source for source in sources if health_of(source) is health]
        assert fitting
        assert found == fitting, health


async def test_pages_are_full_with_filters_and_show_every_source_once(served_by_each: Served):
    served = served_by_each
    sources = [a_source(enabled=n % 3 == 0, label=f"{n}") for n in range(40)]
    await served.app.store.sources.add_many(sources)
    wanted = [source.id for source in sources if source.enabled]
    seen, sizes, cursor = [], [], ""
    while True:
        page = (await served.get(f"{SOURCES}?enabled=true&limit=5{cursor}")).json
        seen += [source["id"] for source in page["items"]]
        sizes.append(len(page["items"]))
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == wanted
    assert sizes == [5, 5, 4]


async def test_pages_stay_right_while_sources_come_and_go(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    sources = [a_source() for _ in range(6)]
    await store.sources.add_many(sources)
    first = (await served.get(f"{SOURCES}?limit=3")).json
    assert (await served.delete(f"{SOURCES}/{sources[2].id}")).status == 204  # the cursor's own
    assert (await served.delete(f"{SOURCES}/{sources[4].id}")).status == 204
    later = (await served.post(SOURCES, {"url": FEED})).json
    second = (await served.get(f"{SOURCES}?cursor={first['nextCursor']}")).json
    ids = [source["id"] for source in second["items"]]
    assert ids == [sources[3].id, sources[5].id, later["id"]]


async def test_a_parameter_nobody_knows_or_that_is_wrong_is_an_error_that_names_it(
    served_by_each: Served,
):
    served = served_by_each
    cases = [
        (f"{SOURCES}?colour=red", "colour"),
        (f"{SOURCES}?Enabled=true", "Enabled"),
        (f"{SOURCES}?limit=0", "limit"),
        (f"{SOURCES}?limit=501", "limit"),
        (f"{SOURCES}?limit=many", "limit"),
        (f"{SOURCES}?enabled=perhaps", "enabled"),
        (f"{SOURCES}?type=podcast", "type"),
        (f"{SOURCES}?health=ill", "health"),
        (f"{SOURCES}?host=", "host"),
        (f"{SOURCES}?host=a%20b", "host"),
        (f"{SOURCES}?q=%00", "q"),
        (f"{SOURCES}?q=a%0Ab", "q"),
        (f"{SOURCES}?cursor=%00", "cursor"),
        (f"{SOURCES}?cursor=abc", "cursor"),
        (f"{SOURCES}?cursor={cursor_for((1, 2))}", "cursor"),
        (f"{SOURCES}?cursor={cursor_for((2**70, 'a'))}", "cursor"),
        (f"{SOURCES}/some-id?fields=url", "fields"),
        (f"{DEFAULT}?x=1", "x"),
        ("/api/users?x=1", "x"),
        ("/api/health?x=1", "x"),
    ]
    for path, field in cases:
        answer = await served.get(path)
        assert answer.status == 422, path
        assert answer.json["errors"][0]["field"] == field, path
    assert (await served.delete(f"{SOURCES}/some-id?force=true")).status == 422


async def test_an_id_that_no_database_could_keep_is_not_found(served_by_each: Served):
    for path in ("/api/users/%00", f"{DEFAULT}%00", f"{SOURCES}/%00", f"{SOURCES}/a%0Ab"):
        assert (await served_by_each.get(path)).status == 404, path
    assert (await served_by_each.get(f"{SOURCES}/%ff%ed%a0%80")).status == 404


async def test_u2_sources_of_others_are_not_there(served_by_each: Served):
    served = served_by_each
    ada, bob = await served.person("ada"), await served.person("bob")
    hers = "/api/users/ada/podcasts/ada/sources"
    his = "/api/users/bob/podcasts/bob/sources"
    source = (await served.post(hers, {"url": FEED}, token=ada)).json
    await served.post(his, {"url": FEED}, token=bob)
    body = {"type": "rss", "url": FEED}
    for base in (hers, his):
        for method, given in (
            ("GET", None),
            ("PUT", body),
            ("PATCH", {"label": "mine"}),
            ("DELETE", None),
        ):
            answer = await served.call(method, f"{base}/{source['id']}", given, token=bob)
            assert answer.status == 404, (method, base)
    assert (await served.get(hers, token=bob)).status == 404
    assert (await served.post(hers, body, token=bob)).status == 404
    cursor = cursor_for((0, ""))
    found = (await served.get(f"{his}?cursor={cursor}", token=bob)).json["items"]
    assert [one["id"] for one in found] != [source["id"]]
    assert len(found) == 1
    assert (await served.get(f"{hers}/{source['id']}", token=ada)).json == source


async def test_a_source_belongs_to_the_podcast_in_its_path(served: Served):
    await served.post("/api/users/default/podcasts", {"name": "other"})
    source = (await served.post(SOURCES, {"url": FEED})).json
    other = "/api/users/default/podcasts/other/sources"
    assert (await served.get(f"{other}/{source['id']}")).status == 404
    assert (await served.delete(f"{other}/{source['id']}")).status == 404


async def test_u8_a_user_has_at_most_so_many_sources_in_all_podcasts(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-sources-per-user": 3})
    async with serving(settings) as served:
        await served.post("/api/users/default/podcasts", {"name": "other"})
        other = "/api/users/default/podcasts/other/sources"
        answers = await asyncio.gather(
            *(served.post((SOURCES, other)[n % 2], {"url": f"{FEED}?{n}"}) for n in range(8))
        )
        assert sorted(answer.status for answer in answers) == [201] * 3 + [413] * 5
        refused = next(answer for answer in answers if answer.status == 413)
        assert refused.json["detail"] == (
            "a user may have at most 3 sources (app.limits.max-sources-per-user); "
            "there are 3, and this would add 1"
        )
        token = await served.person("ada")  # another user has room of their own
        made = await served.post("/api/users/ada/podcasts/ada/sources", {"url": FEED}, token=token)
        assert made.status == 201


async def test_a_source_for_a_podcast_that_was_removed_meanwhile_is_not_found(
    served_by_each: Served,
):
    store, now = served_by_each.app.store, served_by_each.app.clock.now()
    with pytest.raises(NotFound, match="there is no podcast 'gone'"):
        await add_source(store, "gone", SourceSettings(url=FEED), now, most=10)
