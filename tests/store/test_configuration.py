"""Configuration files are applied in one transaction, and nothing changes twice (V3)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import NotFound, Outdated, TooMuch, UsageError, WouldDelete
from headwater.formats.configuration_file import (
    ConfiguredPodcast,
    ConfiguredSearch,
    ConfiguredSource,
    read_configuration,
    write_configuration,
)
from headwater.model import PODCAST_SETTINGS, FailureType, Podcast, Source
from headwater.operations.configuration import ConfigurationChange, export_configuration
from headwater.operations.configuration_plan import PlannedChange, Planner
from headwater.operations.sources import edit_source
from headwater.operations.users_and_podcasts import DeletionCheck
from headwater.rules.policy import Policy
from headwater.source_settings import SETTINGS, Setting, SourceType
from headwater.store import Store, open_database
from headwater.store.expiry import ExpiringCounts
from headwater.store.sources import SourceFilter
from headwater.watch_settings import WatchSettings
from tests.factories import a_source
from tests.store.store_data import DAY, NOW, StoreClock, a_post_of, stored, with_posts

FEED = "https://example.org/feed"


async def change_for(
    store: Store, text: str | bytes, *, prune: bool = False, most: int = 1000
) -> ConfigurationChange:
    data = text if isinstance(text, bytes) else text.encode()
    user = await store.accounts.user("default")
    planner = Planner(user, NOW, False, prune)
    configured = read_configuration(data, "f.yaml")
    return ConfigurationChange(store, StoreClock(), planner, configured, most)


async def applied(store: Store, text: str | bytes, **options: Any) -> list[PlannedChange]:
    """Apply a file and return what has changed."""
    change = await change_for(store, text, **options)
    plan = await change.plan()
    await change.apply(plan)
    return plan


async def exported(store: Store) -> str:
    return (await export_configuration(store, await store.accounts.user("default"))).decode()


async def sources_of(store: Store, podcast: str = "default") -> list[Source]:
    found = await store.accounts.podcast("default", podcast)
    return list(await store.sources.find(SourceFilter(podcast_id=found.id), limit=100))


def lines(plan: Sequence[PlannedChange]) -> list[str]:
    """A plan as text."""
    return [
        " ".join([one.action, one.kind, one.name, *(f"{c.name}={c.after}" for c in one.changes)])
        for one in plan
    ]


def a_file(*sources: str, podcast: str = "default", more: str = "") -> str:
    listed = "".join(f"\n      - {source}" for source in sources)
    return f"podcasts:\n  - name: {podcast}\n{more}    sources:{listed or ' []'}\n"


async def test_v3_a_file_adds_changes_and_keeps_what_it_does_not_name(store: Store):
    other = a_source(id="other", url="https://other.example/", poll_interval_minutes=99)
    there = a_source(id="there", url=FEED, label="Old", poll_interval_minutes=99)
    await store.sources.add_many([other, there])
    text = a_file(f"{{url: {FEED}, label: New}}", "{url: https://new.example/, type: website}")
    plan = await applied(store, text)
    assert lines(plan) == [
        f"changed source {FEED} label=New",
        "added source https://new.example/ type=website",
    ]
    found = {source.url: source for source in await sources_of(store)}
    assert found[FEED] == replace(there, label="New")
    assert found[other.url] == other
    assert found["https://new.example/"].type is SourceType.WEBSITE
    assert await applied(store, text) == []


async def test_v3_prune_removes_and_resets_what_the_file_does_not_name(store: Store):
    before = a_source(id="there", url=FEED, label="Old", poll_interval_minutes=99, enabled=False)
    await store.sources.add_many([before, a_source(id="other", url="https://other.example/")])
    await applied(store, a_file(podcast="second", more="    searches: [{name: a, query: b}]\n"))
    text = a_file(f"{{url: {FEED}, folder: News}}")
    plan = await applied(store, text, prune=True)
    assert lines(plan) == [
        f"changed source {FEED} label=None folder=News pollIntervalMinutes=30",
        "removed source https://other.example/",
        "removed podcast second",
    ]
    (source,) = await sources_of(store)
    # a source that Headwater has given up stays disabled
    assert source == replace(before, label=None, folder="News", poll_interval_minutes=30)
    with pytest.raises(NotFound):
        await store.accounts.podcast("default", "second")
    assert await applied(store, text, prune=True) == []
    empty = await applied(store, "podcasts: []", prune=True)  # every database has this podcast
    assert lines(empty) == [f"removed source {FEED}"]
    assert await sources_of(store) == []


async def test_f5_changes_have_the_same_consequences_as_an_edit(store: Store):
    failing = a_source(
        id="there", url=FEED, enabled=False, consecutive_failures=7, last_seen_id="x",
        last_failure_type=FailureType.PERMANENT, disabled_reason="Auto-disabled",
    )  # fmt: skip
    await store.sources.add_many([failing, replace(failing, id="twin")])
    await edit_source(store, "twin", {"enabled": True, "url": FEED + "2"}, NOW, allowed=False)
    await applied(store, a_file(f"{{id: there, url: {FEED}2, enabled: true}}"))
    there, twin = await sources_of(store)
    assert there == replace(twin, id="there")
    assert there.requested_at is not None
    assert (there.consecutive_failures, there.last_seen_id) == (0, None)


async def test_v3_sources_with_one_address_are_copies_in_the_order_they_were_added(store: Store):
    copies = [f"{{url: {FEED}, label: a}}", f"{{url: {FEED}, label: b, copy: 2}}"]
    await applied(store, a_file(*copies))
    await applied(store, a_file(copies[0], copies[1].replace("b,", "c,")))
    assert [source.label for source in await sources_of(store)] == ["a", "c"]
    plan = await applied(store, a_file(copies[0]), prune=True)
    assert [one.action for one in plan] == ["removed"]
    assert [source.label for source in await sources_of(store)] == ["a"]


async def test_v3_another_spelling_of_an_address_is_the_same_source(store: Store):
    await store.sources.add_many([a_source(id="there", url="https://Example.org:443/feed")])
    assert await applied(store, a_file(f"{{url: {FEED}}}"), prune=True) == []
    both = a_file(f"{{url: {FEED}}}", "{url: 'https://Example.org:443/feed'}")
    assert lines(await applied(store, both)) == [f"added source {FEED} type=rss"]
    assert await applied(store, both) == []


async def test_v3_a_missing_type_is_that_of_a_known_site_else_a_feed(store: Store):
    text = a_file('{url: "@nasa"}', "{url: 'https://github.com/a/b'}", "{url: example.org/x}")
    await applied(store, text)
    assert [(one.type, one.url) for one in await sources_of(store)] == [
        ("twitter", "@nasa"),
        ("rss", "https://github.com/a/b/releases.atom"),
        ("rss", "https://example.org/x"),
    ]
    assert await applied(store, text) == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{url: ftp://example.org/}", "line 6, column 10: "),
        ("{url: http://127.0.0.1/}", "line 6, column 10: "),
        (f"{{url: {FEED}/2, maxFailures: 0}}", "maxFailures must be between 1 and 1000000, not 0"),
        (f"{{url: {FEED}/2, keep: '('}}", "keep: at character 2: "),
        (f"{{url: {FEED}, block: 'a OR'}}", "line 6, column 41: block: at character"),
        ("{url: 'https://www.youtube.com/@someone'}", "use `headwater add`"),
        (f"{{url: {FEED}/2, label: {'x' * 501}}}", "label is longer than 500 characters"),
    ],
)
async def test_v3_nothing_is_applied_if_one_value_is_wrong(store: Store, source: str, reason: str):
    await store.sources.add_many([a_source(id="there", url=FEED)])
    before = await exported(store)
    text = a_file("{url: https://new.example/}", source, more="    stories: false\n")
    with pytest.raises(UsageError) as raised:
        await applied(store, text)
    assert str(raised.value).startswith("f.yaml, line 6, column ")
    assert reason in str(raised.value)
    assert await exported(store) == before


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("    maxArticleAgeDays: 0\n", "line 3, column 5: maxArticleAgeDays must be between"),
        ("    keep: '('\n", "line 3, column 5: keep: at character"),
        ("    searches: [{name: a/b, query: c}]\n", "line 3, column 17: "),
        ("    searches: [{name: a, query: 'c OR'}]\n", "line 3, column 26: query: at character"),
        (
            "    id: default\n  - name: default\n",
            "line 4, column 5: the podcast 'default' is given twice",
        ),
    ],
)
async def test_v3_wrong_values_of_podcasts_and_searches_are_located(store, more, reason):
    with pytest.raises(UsageError) as raised:
        await applied(store, a_file(more=more))
    assert reason in str(raised.value)


async def test_v3_an_error_in_the_transaction_applies_nothing(store: Store):
    before = await exported(store)
    text = a_file(f"{{url: {FEED}}}", f"{{url: {FEED}/2}}", podcast="new")
    with pytest.raises(TooMuch):
        await applied(store, text, most=1)
    assert await exported(store) == before


async def test_v3_processes_that_apply_a_file_at_once_do_not_add_its_sources_twice(
    store: Store, url: str, clock: StoreClock
):
    text = a_file(*(f"{{url: {FEED}/{n}}}" for n in range(50)))
    async with Store(open_database(url), clock) as other:
        changes = [await change_for(one, text) for one in (store, other)]
        plans = [await change.plan() for change in changes]
        results = await asyncio.gather(
            *(change.apply(plan) for change, plan in zip(changes, plans, strict=True)),
            return_exceptions=True,
        )
    assert sorted(map(type, results), key=str) == [type(None), Outdated]
    assert len(await sources_of(store)) == 50


async def test_v3_a_plan_that_is_outdated_is_not_applied(store: Store):
    change = await change_for(store, a_file(f"{{url: {FEED}, label: New}}"))
    plan = await change.plan()
    await store.sources.add_many([a_source(url=FEED)])
    with pytest.raises(Outdated):
        await change.apply(plan)
    assert [source.label for source in await sources_of(store)] == [a_source().label]


async def test_e5_a_lower_age_limit_that_deletes_something_is_confirmed(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, created_at=NOW - 10 * DAY))
    change = await change_for(store, a_file(more="    maxArticleAgeDays: 3\n    stories: false\n"))
    plan = await change.plan()
    policy = Policy(max_article_age_days=1000)
    check = DeletionCheck(NOW, policy)
    assert await change.would_delete(plan, check) == ExpiringCounts(articles=0, posts=1)
    with pytest.raises(WouldDelete):
        await change.apply(plan, check)
    assert (await store.accounts.podcast("default", "default")).stories
    await change.apply(plan)
    assert not (await store.accounts.podcast("default", "default")).stories


async def test_e5_what_the_age_limits_of_several_podcasts_delete_is_counted_together(store: Store):
    for id_ in ("default", "other"):
        if id_ != "default":
            await store.accounts.save_podcast(Podcast(id_, "default", id_, NOW))
        source = await stored(store, podcast_id=id_)
        await with_posts(store, source, a_post_of(source, created_at=NOW - 10 * DAY))
    text = "".join(f"  - {{name: {name}, maxArticleAgeDays: 3}}\n" for name in ("default", "other"))
    change = await change_for(store, f"podcasts:\n{text}")
    check = DeletionCheck(NOW, Policy(max_article_age_days=1000))
    with pytest.raises(WouldDelete) as raised:
        await change.apply(await change.plan(), check)
    assert (raised.value.articles, raised.value.posts) == (0, 2)


texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), max_size=12)
queries = st.none() | st.sampled_from(["a OR b", 'title:"x y" -z', "日本 lang:ja"])
special: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from([SourceType.RSS, SourceType.WEBSITE]),
    "url": st.sampled_from(
        [FEED, f"{FEED}?a=1&b=%20", "https://Example.org/feed", "http://é.example/"]
    ),
    "label": st.none() | texts,
    "folder": st.none() | texts,
    "keep": queries,
    "block": queries,
    "watch": st.none()
    | st.just(WatchSettings())
    | st.just(WatchSettings(("main",), (), ("# & *: no",))),
}


def value_of(name: str, setting: Setting) -> st.SearchStrategy[Any]:
    if name in special:
        return special[name]
    if setting.kind is int:
        return st.just(setting.default) | st.integers(setting.minimum, setting.maximum)
    if setting.kind is bool:
        return st.just(setting.default) | st.booleans()
    return st.sampled_from(setting.kind)


def given_settings(declared: Mapping[str, Setting]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: value_of(name, one) for name, one in declared.items()})


def watched_if_page(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without watched parts, unless they are those of a page (W4)."""
    is_page = settings["type"] is SourceType.WEBSITE
    return settings if is_page else settings | {"watch": None}


names = st.from_regex(r"[a-zé水&*!%@#'\"][a-z0-9:# ]{0,8}[a-z0-9?]", fullmatch=True)
configurations = st.lists(
    st.builds(
        ConfiguredPodcast,
        name=names,
        settings=given_settings(PODCAST_SETTINGS),
        sources=st.lists(
            st.builds(ConfiguredSource, given_settings(SETTINGS).map(watched_if_page)), max_size=5
        ),
        searches=st.lists(
            st.builds(ConfiguredSearch, names, st.just("a -b")),
            unique_by=lambda search: search.name,
            max_size=2,
        ),
    ),
    unique_by=lambda podcast: podcast.name,
    min_size=1,
    max_size=3,
)


def canonical(podcasts: Sequence[ConfiguredPodcast]) -> bytes:
    """The file as an export has it: by name, copies numbered; the first podcast is `default`."""
    first = replace(podcasts[0], id=None if podcasts[0].name == "default" else "default")
    found = list[ConfiguredPodcast]()
    for podcast in [first, *podcasts[1:]]:
        urls = [source.settings["url"] for source in podcast.sources]
        sources = [
            replace(source, copy=urls[: n + 1].count(urls[n]))
            for n, source in enumerate(podcast.sources)
        ]
        searches = sorted(podcast.searches, key=lambda search: search.name)
        found.append(replace(podcast, sources=sources, searches=searches))
    return write_configuration(sorted(found, key=lambda podcast: podcast.name))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(podcasts=configurations)
async def test_v3_an_export_applied_to_an_empty_database_is_exported_again_as_it_was(
    store: Store, podcasts: Sequence[ConfiguredPodcast]
):
    empty = "podcasts: [{name: default, id: default}]"
    await applied(store, empty, prune=True)
    assert await exported(store) == write_configuration([default_podcast()]).decode()
    data = canonical(podcasts)
    await applied(store, data)
    assert await exported(store) == data.decode()
    for prune in (False, True):
        assert await applied(store, data, prune=prune) == []


def default_podcast() -> ConfiguredPodcast:
    podcast = Podcast("default", "default", "default", NOW)
    return ConfiguredPodcast("default", {name: getattr(podcast, name) for name in PODCAST_SETTINGS})
