"""Sources over the API: adding, listing, finding, showing, deleting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headwater.api.schemas.pagination import cursor_for
from headwater.errors import NotFound
from headwater.model import Health, SourceType
from headwater.operations.sources import add_source
from headwater.rules.health import health_of
from headwater.store.sources import SourceFilter
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.store.store_data import NOW, a_polled_source, a_post_of, a_success

SOURCES = f"{DEFAULT}/sources"
FEED = "https://feeds.example.org/news.xml"


async def listed(served: Served, query: str = "") -> list[str]:
    """The URLs that a list shows."""
    answer = await served.get(f"{SOURCES}{query}")
    assert answer.status == 200, answer.json
    return [source["url"] for source in answer.json["items"]]


async def test_a_source_has_settings_state_and_computed_fields(served_by_each: Served):
    made = await served_by_each.post(SOURCES, {"type": "rss", "url": FEED, "label": "News"})
    assert made.status == 201
    source = made.json
    assert made.headers["Location"] == f"{SOURCES}/{source['id']}"
    reported: dict[str, Any] = {"recognisedAs": None, "duplicateOf": None, "feeds": []}
    assert {name: source.pop(name) for name in reported} == reported
    assert source == {
        "id": source["id"],
        "podcastId": "default",
        "type": "rss",
        "url": FEED,
        "label": "News",
        "title": None,
        "folder": None,
        "enabled": True,
        "pollIntervalMinutes": 30,
        "pollDelaySeconds": None,
        "maxFailures": None,
        "maxBackoffHours": None,
        "lateEntryHours": None,
        "aggregate": None,
        "includeHistory": False,
        "aggregateBy": "source",
        "fullText": "off",
        "keep": None,
        "block": None,
        "watch": None,
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
        "suggestions": [],
        "movedTo": None,
        "movedFrom": None,
        "filterStats": {"keep": None, "block": None},
    }
    assert (await served_by_each.get(f"{SOURCES}/{source['id']}")).json == source
    assert (await served_by_each.get(SOURCES)).json == {"items": [source], "nextCursor": None}


async def test_every_setting_is_accepted(served_by_each: Served):
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
    ],
)
async def test_an_x_timeline_is_recognised_by_its_url(
    served: Served, url: str, type_: str, host: str
):
    made = (await served.post(SOURCES, {"url": url})).json
    assert (made["type"], made["host"], made["url"]) == (type_, host, url.strip())


async def test_an_invalid_source_is_422_and_names_the_field(served: Served):
    cases: list[tuple[dict[str, Any], str]] = [
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://"}, "url"),
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
        assert (await served.post(SOURCES, {"type": "rss", "url": FEED})).status == 201
    assert await listed(served) == [FEED, FEED]


async def test_deleting_a_source_deletes_its_posts(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    source = a_polled_source()
    await store.sources.add_many([source])
    await store.record(a_success(source, [a_post_of(source, "one"), a_post_of(source, "two")]))
    assert (await served.get(f"{SOURCES}/{source.id}")).json["postCount"] == 2
    assert (await served.delete(f"{SOURCES}/{source.id}")).status == 204
    assert (await served.delete(f"{SOURCES}/{source.id}")).status == 404
    assert (await served.get(f"{SOURCES}/{source.id}")).status == 404
    assert await store.posts.count() == 0


async def test_the_list_can_be_filtered_by_every_field(served_by_each: Served):
    served = served_by_each
    feed = a_polled_source(label="100% Über_news", last_success_at=NOW)
    page = a_polled_source(
        type=SourceType.WEBSITE, enabled=False, url="https://www.example.org/Page"
    )
    failing = a_polled_source(consecutive_failures=2, last_success_at=NOW)
    fresh = a_polled_source(last_polled=None, host="xn--mnchen-3ya.example", label="fresh")
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


async def test_the_sql_filter_by_health_agrees_with_the_rule(served_by_each: Served):
    store = served_by_each.app.store
    sources = [
        a_polled_source(
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


async def test_filtered_pages_are_full_and_show_every_source_once(served_by_each: Served):
    served = served_by_each
    sources = [a_polled_source(enabled=n % 3 == 0, label=f"{n}") for n in range(40)]
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


async def test_pages_stay_correct_while_sources_are_added_and_deleted(served_by_each: Served):
    served, store = served_by_each, served_by_each.app.store
    sources = [a_polled_source() for _ in range(6)]
    await store.sources.add_many(sources)
    first = (await served.get(f"{SOURCES}?limit=3")).json
    assert (
        await served.delete(f"{SOURCES}/{sources[2].id}")
    ).status == 204  # the one the cursor points to
    assert (await served.delete(f"{SOURCES}/{sources[4].id}")).status == 204
    later = (await served.post(SOURCES, {"type": "rss", "url": FEED})).json
    second = (await served.get(f"{SOURCES}?cursor={first['nextCursor']}")).json
    ids = [source["id"] for source in second["items"]]
    assert ids == [sources[3].id, sources[5].id, later["id"]]


async def test_an_unknown_or_invalid_parameter_is_an_error_that_names_it(
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


async def test_an_id_outside_the_database_range_is_not_found(served_by_each: Served):
    for path in ("/api/users/%00", f"{DEFAULT}%00", f"{SOURCES}/%00", f"{SOURCES}/a%0Ab"):
        assert (await served_by_each.get(path)).status == 404, path
    assert (await served_by_each.get(f"{SOURCES}/%ff%ed%a0%80")).status == 404


async def test_u2_sources_of_others_are_not_found(served_by_each: Served):
    served = served_by_each
    ada, bob = await served.person("ada"), await served.person("bob")
    hers = "/api/users/ada/podcasts/ada/sources"
    his = "/api/users/bob/podcasts/bob/sources"
    added = (await served.post(hers, {"type": "rss", "url": FEED}, token=ada)).json
    source = (await served.get(f"{hers}/{added['id']}", token=ada)).json
    await served.post(his, {"type": "rss", "url": FEED}, token=bob)
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
    source = (await served.post(SOURCES, {"type": "rss", "url": FEED})).json
    other = "/api/users/default/podcasts/other/sources"
    assert (await served.get(f"{other}/{source['id']}")).status == 404
    assert (await served.delete(f"{other}/{source['id']}")).status == 404


async def test_u8_the_number_of_sources_per_user_is_limited_over_all_podcasts(tmp_path: Path):
    settings = settings_in(tmp_path, **{"app.limits.max-sources-per-user": 3})
    async with serving(settings) as served:
        await served.post("/api/users/default/podcasts", {"name": "other"})
        other = "/api/users/default/podcasts/other/sources"
        answers = await asyncio.gather(
            *(
                served.post((SOURCES, other)[n % 2], {"type": "rss", "url": f"{FEED}?{n}"})
                for n in range(8)
            )
        )
        assert sorted(answer.status for answer in answers) == [201] * 3 + [413] * 5
        refused = next(answer for answer in answers if answer.status == 413)
        assert refused.json["detail"] == (
            "a user may have at most 3 sources (app.limits.max-sources-per-user); "
            "there are 3, and this would add 1"
        )
        token = await served.person("ada")  # another user has a separate limit
        made = await served.post(
            "/api/users/ada/podcasts/ada/sources", {"type": "rss", "url": FEED}, token=token
        )
        assert made.status == 201


async def test_a_source_for_a_podcast_deleted_at_the_same_time_is_not_found(
    served_by_each: Served,
):
    store, now = served_by_each.app.store, served_by_each.app.clock.now()
    with pytest.raises(NotFound, match="there is no podcast 'gone'"):
        await add_source(store, "gone", {"type": "rss", "url": FEED}, now, most=10, allowed=True)


async def test_h4_an_unreadable_source_is_a_problem_of_its_own(served: Served):
    odd = (await served.post(SOURCES, {"type": "rss", "url": FEED})).json["id"]
    await served.post(SOURCES, {"type": "rss", "url": f"{FEED}?2"})
    sql = "UPDATE sources SET poll_interval_minutes = 'abc' WHERE id = :id"
    await served.app.store.database.execute(sql, {"id": odd})
    assert await listed(served) == [f"{FEED}?2"]
    answer = await served.get(f"{SOURCES}/{odd}")
    assert answer.status == 503
    assert f"row {odd} of the table sources" in answer.json["detail"]
    assert "poll_interval_minutes" in answer.json["detail"]


NEVER_VISITED = (
    "http://127.0.0.1/feed",
    "http://0x7f.1/feed",
    "https://[::1]/feed",
    "http://10.0.0.1:8080/feed",
    "http://169.254.169.254/latest/meta-data",
    "http://localhost/feed",
    "http://app.localhost./feed",
    "ftp://example.org/feed",
)


@pytest.mark.parametrize("url", NEVER_VISITED)
async def test_j2_a_url_that_can_never_be_visited_is_refused_when_it_is_added(
    guarded: Served, url: str
):
    kept = await guarded.post(SOURCES, {"type": "rss", "url": FEED})
    path = f"{SOURCES}/{kept.json['id']}"
    opml = f'<opml version="2.0"><body><outline xmlUrl="{url}"/></body></opml>'
    for answer in (
        await guarded.post(SOURCES, {"url": url}),  # without a visit
        await guarded.post(SOURCES, {"url": url, "type": "website"}),
        await guarded.patch(path, {"url": url}),
        await guarded.put(path, {"url": url, "type": "rss"}),
    ):
        assert (answer.status, answer.json["errors"][0]["field"]) == (422, "url")
    imported = await guarded.call("POST", f"{DEFAULT}/opml", data=opml.encode())
    (line,) = imported.json["items"]
    assert (line["url"], line["outcome"], line["sourceId"]) == (url, "rejected", None)
    assert line["error"] == answer.json["detail"]
    assert await listed(guarded) == [FEED]


async def test_j2_an_allowed_network_can_be_added(tmp_path: Path):
    options = {"app.fetch.allow-private-networks": ["10.0.0.0/24"]}
    async with serving(settings_in(tmp_path, **options)) as served:
        for url, status in (("http://10.0.0.9/feed", 201), ("http://10.0.1.9/feed", 422)):
            wanted = {"type": "rss", "url": url}
            assert (await served.post(SOURCES, wanted)).status == status


async def test_j2_a_source_with_such_a_url_from_elsewhere_can_be_changed(guarded: Served):
    source = a_polled_source(url="http://10.0.0.1/feed")
    await guarded.app.store.sources.add_many([source])
    answer = await guarded.patch(f"{SOURCES}/{source.id}", {"label": "x", "enabled": False})
    assert (answer.status, answer.json["label"]) == (200, "x")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    """An API that visits no private networks."""
    settings = settings_in(tmp_path, **{"app.fetch.allow-private-networks": False})
    async with serving(settings) as served:
        yield served


async def test_k5_after_the_file_was_deleted_nothing_is_added(served: Served):
    database = served.app.store.database
    Path(database.address.removeprefix("sqlite:///")).unlink()
    refused = await served.post(SOURCES, {"type": "rss", "url": FEED})
    assert refused.status == 503
    assert refused.json["detail"].startswith("the database is not available")
