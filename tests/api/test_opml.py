"""OPML import and export over the API."""

import asyncio
import io
import threading
import time
from dataclasses import replace

import pytest
from pydantic.alias_generators import to_camel, to_snake

from headwater.formats.opml import read_opml
from headwater.model import SourceType
from headwater.source_settings import SETTINGS
from tests.api.conftest import DEFAULT, Answer, Served, serving, settings_in
from tests.api.stored_data import podcast_of, refusal, source_of

OPML = f"{DEFAULT}/opml"


def a_list(*urls: str) -> bytes:
    lines = "".join(f'<outline text="Feed {n}" xmlUrl="{u}"/>' for n, u in enumerate(urls))
    return f'<opml version="2.0"><body>{lines}</body></opml>'.encode()


async def urls_of(served: Served, path: str = OPML, **options: str) -> list[str]:
    answer = await served.get(path, **options)
    assert answer.status == 200
    return [outline.url for outline in read_opml(answer.body)]


async def test_an_import_reports_the_result_of_every_outline(served_by_each: Served):
    served = served_by_each
    there = await source_of(served, url="https://there.example/feed")
    lines = [
        "https://one.example/feed?token=secret&amp;x=1",
        "ftp://two.example/feed",
        "https://there.example/feed",
        "https://one.example/feed?token=secret&amp;x=1",
        "no url at all",
    ]
    answer = await served.post(OPML, data=a_list(*lines), headers={"Content-Type": "text/x-opml"})
    assert answer.status == 200
    assert set(answer.json) == {"items"}
    added, scheme, exists, twice, junk = answer.json["items"]
    url = "https://one.example/feed?token=secret&x=1"
    assert added == {
        "url": url,
        "outcome": "added",
        "sourceId": added["sourceId"],
        "error": None,
    }
    assert (await served.get(f"{DEFAULT}/sources/{added['sourceId']}")).json["label"] == "Feed 0"
    assert (scheme["outcome"], scheme["sourceId"]) == ("rejected", None)
    assert "ftp" in scheme["error"]
    assert (exists["outcome"], exists["sourceId"]) == ("exists", there.id)
    assert twice == added | {"outcome": "exists"}
    assert (junk["outcome"], junk["url"]) == ("rejected", "no url at all")
    assert await urls_of(served) == ["https://there.example/feed", url]


async def test_a_source_with_another_spelling_of_the_url_exists(served: Served):
    there = await source_of(served, url="http://there.example/o.xml?a=B")
    person = await source_of(served, url="@someone", type=SourceType.TWITTER)
    lines = [
        "HTTP://There.example:80/o.xml?a=B#top",
        "http://there.example/o.xml?a=b",
        "https://NEW.example:443",
        "https://new.example/#news",
        "https://x.com/someone",
        "https://twitter.com/Another",
        "@another",
    ]
    items = (await served.post(OPML, data=a_list(*lines))).json["items"]
    assert [line["outcome"] for line in items] == [
        "exists", "added", "added", "exists", "exists", "added", "exists",
    ]  # fmt: skip
    assert [items[0]["sourceId"], items[4]["sourceId"]] == [there.id, person.id]
    assert items[3]["sourceId"] == items[2]["sourceId"]
    assert items[6]["sourceId"] == items[5]["sourceId"]
    assert items[2]["url"] == "https://NEW.example:443"  # stored as given


async def test_x1_an_x_url_in_a_list_becomes_an_x_timeline(served: Served):
    urls = ["https://x.com/name", "https://twitter.com/other"]
    plain, said = (f'<outline type="rss" xmlUrl="{urls[0]}"/>', f'<outline xmlUrl="{urls[1]}"/>')
    file = f'<opml version="2.0"><body>{plain}{said}</body></opml>'.encode()
    items = (await served.post(OPML, data=file)).json["items"]
    for line, url in zip(items, urls, strict=True):
        imported = (await served.get(f"{DEFAULT}/sources/{line['sourceId']}")).json
        posted = (await served.post(f"{DEFAULT}/sources", {"url": url})).json
        assert imported["type"] == posted["type"] == "twitter"


async def test_j1_addresses_of_known_sites_in_a_list_are_resolved_without_a_visit(served: Served):
    urls = {
        "https://github.com/example/weir": "https://github.com/example/weir/releases.atom",
        "https://www.reddit.com/r/rivers/": "https://www.reddit.com/r/rivers/.rss",
        "@ann@social.invalid": "https://social.invalid/@ann.rss",
        "feeds.invalid/news": "https://feeds.invalid/news",
    }
    items = (await served.post(OPML, data=a_list(*urls))).json["items"]
    assert [item["outcome"] for item in items] == ["added"] * len(urls)
    assert [item["url"] for item in items] == list(urls.values())
    found = [(await served.get(f"{DEFAULT}/sources/{item['sourceId']}")).json for item in items]
    assert [source["url"] for source in found] == list(urls.values())
    assert {(source["type"], source["includeHistory"]) for source in found} == {("rss", False)}
    again = (await served.post(OPML, data=a_list(*urls))).json["items"]
    assert [item["outcome"] for item in again] == ["exists"] * len(urls)


async def test_a_thousand_sources_are_imported_in_one_call(served_by_each: Served):
    served = served_by_each
    good = [f"https://host{n}.example/feed" for n in range(1000)]
    file = a_list(*good, *good[:100], *(f"gopher://host{n}.example/" for n in range(50)))
    items = (await served.post(OPML, data=file)).json["items"]
    outcomes = [item["outcome"] for item in items]
    assert outcomes == ["added"] * 1000 + ["exists"] * 100 + ["rejected"] * 50
    assert [item["sourceId"] for item in items[1000:1100]] == [i["sourceId"] for i in items[:100]]
    assert await urls_of(served) == good  # in the order of the file

    again = (await served.post(OPML, data=file)).json["items"]
    assert [item["outcome"] for item in again] == ["exists"] * 1100 + ["rejected"] * 50


async def test_h2_other_requests_are_served_during_a_long_import(served: Served):
    file = a_list(*(f"https://host{n}.example/feed" for n in range(10_000)))
    importing = asyncio.create_task(served.post(OPML, data=file))
    answered = 0
    while not importing.done():
        assert (await served.get("/api/health")).status == 200
        answered += 1
    assert len((await importing).json["items"]) == 10_000
    assert answered > 20  # if the import blocked the loop, there would be one or two
    assert len(await urls_of(served)) == 10_000


async def sent(served: Served, file: bytes) -> Answer:
    """The response to a file that is too long to be sent in one piece."""
    async with served.session.post(served.url + OPML, data=io.BytesIO(file)) as answer:
        return Answer(answer.status, answer.headers, await answer.read())


async def test_h2_lists_that_are_slow_to_parse_delay_neither_polls_nor_ticks(tmp_path):
    # has no sources, so no limit on sources stops it; seven of them would occupy every thread
    file = b"<opml><body>" + b"<outline a='&amp;&lt;' text='x'/>" * 900_000 + b"</body></opml>"
    options = {"app.fetch.parse-timeout-seconds": 1, "app.limits.max-request-bytes": 2**25}
    async with serving(settings_in(tmp_path, **options)) as served:
        importing = [asyncio.create_task(sent(served, file)) for _ in range(7)]
        ticks = 0
        # three are refused; without a free thread no tick would end before the other four
        while sum(task.done() for task in importing) <= 3:
            await served.service.tick()
            await asyncio.to_thread(time.perf_counter)
            ticks += 1
            await asyncio.sleep(0.05)
        reported = sorted([refusal(await task) for task in importing])
    assert [status for status, _ in reported] == [413] * 4 + [429] * 3
    assert "took longer than 1 s" in reported[0][1]
    assert ticks > 2


async def test_h2_a_tick_needs_no_thread_that_requests_can_occupy(served: Served):
    over = threading.Event()
    taken = [asyncio.create_task(asyncio.to_thread(over.wait)) for _ in range(64)]
    try:
        async with asyncio.timeout(60):
            await served.service.tick()
    finally:
        over.set()
        await asyncio.gather(*taken)


async def test_the_same_list_imported_twice_at_once_is_stored_once(served_by_each: Served):
    served = served_by_each
    file = a_list(*(f"https://host{n}.example/feed" for n in range(200)))
    answers = await asyncio.gather(*(served.post(OPML, data=file) for _ in range(3)))
    ids = [[item["sourceId"] for item in answer.json["items"]] for answer in answers]
    assert ids[0] == ids[1] == ids[2]
    outcomes = [item["outcome"] for answer in answers for item in answer.json["items"]]
    assert outcomes.count("added") == 200
    assert len(await urls_of(served)) == 200


async def test_u7_an_export_is_escaped_and_survives_a_round_trip(served_by_each: Served):
    served = served_by_each
    label = "Fish & <Chips> \"quoted\" 'n' =1+1"
    url = 'https://user:pa%22ss@feed.example/x?a="1"&b=<2>'
    await source_of(served, url=url, label=label)
    answer = await served.get(OPML)
    assert answer.headers["Content-Type"] == "text/x-opml; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert label.encode() not in answer.body
    (outline,) = read_opml(answer.body)
    assert (outline.url, outline.title) == (url, label)

    other = replace(await podcast_of(served), id="two", name='Two "2"; x\u00fc/')
    await served.app.store.accounts.save_podcast(other)  # older ones may have such names
    path = "/api/users/default/podcasts/two/opml"
    (item,) = (await served.post(path, data=answer.body)).json["items"]
    assert (item["outcome"], item["url"]) == ("added", url)
    named = (await served.get(path)).headers["Content-Disposition"]
    assert named == "attachment; filename*=UTF-8''Two%20%222%22%3B%20x%C3%BC%2F.opml"


@pytest.mark.parametrize("file", [b"", b"this is no list", b"\x00\xff", b"<html></html>"])
async def test_a_body_that_is_no_opml_is_refused(served: Served, file: bytes):
    status, detail = refusal(await served.post(OPML, data=file))
    assert status == 422
    assert "OPML" in detail


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"<opml><body><outline text='a folder'/></body></opml>", "the file has no feeds"),
        (b"<opml><body><outline xmlUrl='https://a.example/'/>", "the file is cut off"),
    ],
)
async def test_a_list_without_feeds_or_cut_off_is_refused(served: Served, file: bytes, reason: str):
    status, detail = refusal(await served.post(OPML, data=file))
    assert (status, reason in detail) == (422, True)
    assert (await served.get(f"{DEFAULT}/sources")).json["items"] == []


async def test_u8_a_list_beyond_the_limit_is_refused_completely(tmp_path):
    options = {"app.limits.max-sources-per-user": 3, "app.limits.max-request-bytes": 2000}
    async with serving(settings_in(tmp_path, **options)) as served:
        await source_of(served, url="https://a.example/")
        urls = [f"https://{name}.example/" for name in "abcd"]
        for too_many in (urls, urls[1:]):
            status, detail = refusal(await served.post(OPML, data=a_list(*too_many)))
            assert status == 413
            assert "app.limits.max-sources-per-user" in detail
        assert await urls_of(served) == urls[:1]
        assert (await served.post(OPML, data=a_list(*urls[:3]))).status == 200
        assert await urls_of(served) == urls[:3]
        too_long = a_list("https://a.example/" + "x" * 2000)
        assert refusal(await served.post(OPML, data=too_long))[0] == 413


async def test_u2_lists_of_others_are_neither_read_nor_written(served_by_each: Served):
    served = served_by_each
    ann = await served.person("ann")
    bob = await served.person("bob")
    await source_of(served, "bob", url="https://bob.example/")
    theirs = "/api/users/bob/podcasts/bob/opml"
    assert (await served.get(theirs, token=ann)).status == 404
    file = a_list("https://a.example/", "https://bob.example/")
    assert (await served.post(theirs, data=file, token=ann)).status == 404
    own = "/api/users/ann/podcasts/ann/opml"
    items = (await served.post(own, data=file, token=ann)).json["items"]
    assert [item["outcome"] for item in items] == ["added", "added"]
    assert await urls_of(served, theirs, token=bob) == ["https://bob.example/"]


EVERY_SETTING: list[dict[str, object]] = [
    {"type": "website", "url": "https://page.example/", "label": "Page", "folder": "News/Europe"},
    {"label": " two  blanks ", "folder": "/a//b/", "enabled": False, "pollIntervalMinutes": 77},
    {"label": "", "folder": "", "pollDelaySeconds": 0, "maxFailures": 9, "maxBackoffHours": 3},
    {"lateEntryHours": 0, "aggregate": False, "includeHistory": True, "fullText": "on"},
    {"aggregateBy": "thread"},
    {"keep": '"a <b>" OR title:"x"', "block": "-é 水", "aggregate": True},
    {
        "type": "website",
        "watch": {"include": ["main > p"], "exclude": ['[a="1"]'], "ignore": ["# & *"]},
    },
]


@pytest.mark.parametrize("others", [0, 3000])  # with 3000 a parser process reads the file
async def test_v3_an_import_of_an_export_restores_every_setting(served: Served, others: int):
    given = [
        {"type": "rss", "url": f"https://{n}.example/"} | s for n, s in enumerate(EVERY_SETTING)
    ]
    assert SETTINGS.keys() - {to_snake(name) for one in given for name in one} == set()
    for settings in given:
        assert (await served.post(f"{DEFAULT}/sources", settings)).status == 201
    more = a_list(*(f"https://{n}.other.example/" for n in range(others)))
    assert not others or (await served.post(OPML, data=more)).status == 200
    exported = await served.get(OPML)
    await served.post("/api/users/default/podcasts", {"name": "other"})
    other = "/api/users/default/podcasts/other"
    items = (await served.post(f"{other}/opml", data=exported.body)).json["items"]
    assert {item["outcome"] for item in items} == {"added"}
    before, after = [
        [
            {to_camel(name): source[to_camel(name)] for name in SETTINGS}
            for source in reversed(
                (await served.get(f"{podcast}/sources?q=example/")).json["items"]
            )
        ]
        for podcast in (DEFAULT, other)
    ]
    assert after == before
    again = await served.get(f"{other}/opml")
    assert read_opml(again.body) == read_opml(exported.body)


@pytest.mark.parametrize("value", ["thread", "&quot;thread&quot;"])
async def test_v3_a_choice_is_read_with_or_without_quotes_and_written_without(
    served: Served, value: str
):
    feed = f'<outline xmlUrl="https://a.example/feed" headwater:aggregateBy="{value}"/>'
    file = f'<opml version="2.0"><body>{feed}</body></opml>'.encode()
    (item,) = (await served.post(OPML, data=file)).json["items"]
    assert item["outcome"] == "added", item["error"]
    source = (await served.get(f"{DEFAULT}/sources/{item['sourceId']}")).json
    assert source["aggregateBy"] == "thread"
    assert b'headwater:aggregateBy="thread"' in (await served.get(OPML)).body


async def test_v3_folders_of_other_readers_become_folders(served: Served):
    feed = '<outline text="F" xmlUrl="https://a.example/feed"/>'
    tree = f'<outline text="News"><outline text="Europe">{feed}</outline></outline>'
    file = f'<opml version="2.0"><body>{tree}</body></opml>'.encode()
    (item,) = (await served.post(OPML, data=file)).json["items"]
    source = (await served.get(f"{DEFAULT}/sources/{item['sourceId']}")).json
    assert source["folder"] == "News/Europe"
    assert len((await served.get(f"{DEFAULT}/sources?q=europe")).json["items"]) == 1


@pytest.mark.parametrize(
    ("attribute", "error"),
    [
        ('pollIntervalMinutes="often"', "headwater:pollIntervalMinutes is not JSON"),
        ('pollIntervalMinutes="0"', "pollIntervalMinutes must be between 1 and 525600"),
        ('pollIntervalMinutes="1.5"', "must be a whole number, not 1.5"),
        ('fullText="&quot;perhaps&quot;"', "must be one of off, on"),
        ('fullText="perhaps"', "headwater:fullText must be one of off, on"),
        ('keep="("', "at character"),
        ('watch="[]"', "headwater:watch must be a JSON object"),
    ],
)
async def test_v3_an_outline_with_a_wrong_setting_is_rejected(served: Served, attribute, error):
    feeds = f"""<outline xmlUrl="https://a.example/feed" headwater:{attribute}/>
        <outline xmlUrl="https://b.example/feed" headwater:enabled="false"/>"""
    file = f'<opml version="2.0"><body>{feeds}</body></opml>'.encode()
    rejected, added = (await served.post(OPML, data=file)).json["items"]
    assert (rejected["outcome"], added["outcome"]) == ("rejected", "added")
    assert error in rejected["error"]
    assert not (await served.get(f"{DEFAULT}/sources/{added['sourceId']}")).json["enabled"]
