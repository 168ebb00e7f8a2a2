"""A database in use by version 0.2.0 is upgraded: nothing is lost, and polling continues (K7)."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headwater.app import App, open_app
from headwater.clock import SystemClock
from headwater.demo.demo_web import DemoWeb, Reply, Request
from headwater.model import (
    FailureType,
    Health,
    Hold,
    HostState,
    OutcomeKind,
    SealedSecret,
    SkipReason,
    SourceType,
    Validators,
)
from headwater.rules.health import health_of
from headwater.settings import load_settings
from headwater.store import Session, Store, open_database
from headwater.store.database_copy import KEYS
from headwater.store.expired_rows import unnumbered_posts
from headwater.store.migrate import newest_version, statements
from headwater.store.row_mapping import to_ms
from headwater.store.sources import SourceFilter
from headwater.store.sqlite import SqliteDatabase
from tests.factories import a_post
from tests.postgres import PostgresServer
from tests.scripted_host import ScriptedHost
from tests.store.store_data import a_success, newest_articles, newest_posts, rows
from tests.system.conftest import rss

SCHEMA_OF_0_2_0 = 9
ROWS = Path(__file__).with_name("version_0_2_0.sql")
CLOCK = SystemClock()
NOW = CLOCK.now()
HOSTS = ("ok", "failing", "disabled", "held", "busy", "requested")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def feed(_: Request) -> Reply:
    """Four entries that version 0.2.0 has stored, one of them deleted since, and a new one."""
    names = {
        "linked": "Stored and linked",
        "processed": "Stored and processed",
        "only": "Stored only",
        "deleted": "Deleted by cleanup",
        "new": "Published after the upgrade",
    }
    entries = [(name, body, NOW + HOUR) for name, body in names.items()]
    return Reply(200, rss("ok", *entries), "application/rss+xml")


@pytest.fixture
async def web() -> AsyncIterator[DemoWeb]:
    async with DemoWeb([ScriptedHost(feed, name=name) for name in HOSTS], clock=CLOCK) as running:
        yield running


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.new_database()
    return f"sqlite:///{tmp_path}/old.db"


@pytest.fixture
async def old_counts(kind: str, empty_url: str, web: DemoWeb, tmp_path: Path) -> dict[str, int]:
    """Creates the database of version 0.2.0; returns the number of rows of each table."""
    folder = tmp_path / "migrations of 0.2.0"
    folder.mkdir()
    for path in (SqliteDatabase.migrations.parent / kind).glob("*.sql"):
        if int(path.name[:4]) <= SCHEMA_OF_0_2_0:
            shutil.copy(path, folder)
    database = open_database(empty_url)
    database.migrations = folder
    async with Store(database, CLOCK) as store:
        assert await store.prepare() == (0, SCHEMA_OF_0_2_0)
        await database.write(lambda session: insert_rows(session, web))
        return await count_rows(store)


def insert_rows(session: Session, web: DemoWeb) -> None:
    params: dict[str, Any] = {"now": to_ms(NOW)}
    for name in HOSTS:
        params[name] = web.url(name)
        params[f"{name}_host"] = urlsplit(web.url(name)).hostname
    script = ROWS.read_text(encoding="utf-8")
    if session.kind == "postgres":
        script = script.replace("AS BLOB", "AS BYTEA")
    for statement in statements(script):
        used = {name: value for name, value in params.items() if f":{name}" in statement}
        session.execute(statement, used)


async def count_rows(store: Store) -> dict[str, int]:
    names = [name for name in KEYS if f"INSERT INTO {name} " in ROWS.read_text()]
    found = {name: await rows(store, f"SELECT count(*) FROM {name}") for name in names}
    return {name: count for name, ((count,),) in found.items()}


@pytest.fixture
async def app(empty_url: str, old_counts: dict[str, int], tmp_path: Path) -> AsyncIterator[App]:
    """The current program on that database."""
    options = {"app.database-url": empty_url, "app.fetch.allow-private-networks": True}
    settings = load_settings(options=options, environ={}, cwd=tmp_path)
    async with open_app(settings, upgrades=True) as app:
        newest = newest_version(app.store.database.migrations)
        assert await app.store.schema() == (newest, newest)
        added = {"facts": old_counts["facts"] + 1}  # the numbers for the posts (R9)
        assert await count_rows(app.store) == old_counts | added
        assert all(old_counts.values()), "the fixture must fill every table"
        yield app


async def test_k7_users_keys_and_tokens_survive_an_upgrade(app: App):
    store = app.store
    assert [user.name for user in await store.accounts.users()] == ["default", "Ann Ängström"]
    daily, weekly = await store.accounts.podcasts("u-ann")
    assert (daily.id, daily.max_article_age_days, daily.dedupe_across_sources) == (
        "p-daily",
        3,
        True,
    )
    assert (weekly.name, weekly.max_article_age_days, weekly.dedupe_across_sources) == (
        "Weekly",
        None,
        False,
    )
    key = await store.api_keys.get("u-ann", "x")
    assert key == SealedSecret("master key 1", b"a nonce", b"ciphertext")
    assert [(t.id, t.user_id, t.scope) for t in await store.tokens.all()] == [
        ("t-admin", None, "admin"),
        ("t-ann", "u-ann", "user"),
    ]
    assert await store.tokens.with_hash("hash of the admin token") is not None
    token = await store.sessions.token_of("hash of a cookie", NOW)
    assert token is not None
    assert token.user_id == "u-ann"
    assert await store.key_values.get("a fact") == "of this database"


async def test_k7_sources_keep_their_settings_and_state(app: App, web: DemoWeb):
    sources = {one.id: one for one in await app.store.sources.find(SourceFilter(), limit=99)}

    assert {id_: health_of(source) for id_, source in sources.items()} == {
        "s-ok": Health.OK,
        "s-new": Health.NEW,
        "s-failing": Health.FAILING,
        "s-disabled": Health.DISABLED,
        "s-held": Health.NEW,
        "s-on-held-host": Health.NEW,
        "s-requested": Health.OK,
        "s-x": Health.OK,
    }
    ok = sources["s-ok"]
    assert (ok.url, ok.label, ok.late_entry_hours, ok.aggregate) == (
        web.url("ok"),
        "A label",
        24,
        False,
    )
    assert ok.validators == Validators('"an etag"', "Thu, 01 Jan 2026 00:00:00 GMT")
    assert (ok.last_polled, ok.body_hash, ok.seen_keys) == (
        NOW - HOUR,
        "hash of the last body",
        ("a key", "another key"),
    )
    assert (ok.late_keys_kept, ok.generation, ok.last_seen_id) == (
        True,
        7,
        "2026-01-01T00:00:00.000Z",
    )
    failing = sources["s-failing"]
    assert (failing.consecutive_failures, failing.last_failure_type, failing.max_failures) == (
        5,
        FailureType.TRANSIENT,
        10,
    )
    assert failing.last_error == "timed out after 10 s"
    disabled = sources["s-disabled"]
    assert (disabled.disabled_reason, disabled.permanent_failures, disabled.permanent_kind) == (
        "HTTP 404 Not Found",
        3,
        "404",
    )
    assert sources["s-held"].hold == Hold(NOW + HOUR, NOW - SECOND, "429")
    assert sources["s-requested"].requested_at == NOW - SECOND
    assert sources["s-new"].include_history
    timeline = sources["s-x"]
    assert (timeline.type, timeline.url, timeline.aggregate) == (
        SourceType.TWITTER,
        "@someone",
        True,
    )


async def test_k7_posts_articles_and_poll_history_survive_an_upgrade(app: App, web: DemoWeb):
    store = app.store
    posts = {post.id: post for post in await newest_posts(store, source_id="s-ok", limit=9)}
    assert sorted(posts) == ["post-1", "post-2", "post-3"]
    assert (posts["post-1"].author, posts["post-1"].published_at) == ("An author", NOW - 2 * HOUR)
    (daily,) = await newest_posts(store, podcast_id="p-daily", limit=9)
    assert daily.body == "Stored in Daily 👩‍🚀"
    (unread,) = await newest_articles(store, "default", processed=False, limit=9)
    (read,) = await newest_articles(store, "default", processed=True, limit=9)
    assert (unread.id, unread.post_ids) == ("article-1", ("post-1",))
    assert (read.id, read.post_ids) == ("article-2", ("post-2",))

    newest, first = await store.polls.newest("s-ok", limit=9)
    assert (newest.outcome, newest.status) == (OutcomeKind.UNCHANGED, 304)
    assert first.skipped == {SkipReason.ALREADY_SEEN: 2, SkipReason.TOO_OLD: 1}
    (failed,) = await store.polls.newest("s-failing", limit=9)
    assert (failed.failure_type, failed.failure_kind) == (FailureType.TRANSIENT, "timeout")

    ok, busy = (urlsplit(web.url(name)).hostname or "" for name in ("ok", "busy"))
    hosts = {host.lane: host for host in await store.hosts.all()}
    assert hosts[busy] == HostState(busy, hold=Hold(NOW + HOUR, NOW - SECOND, "503"))
    assert hosts[ok].last_success_at == NOW - HOUR


async def test_r9_posts_of_before_an_upgrade_have_lower_numbers_than_new_ones(app: App):
    before = await rows(app.store, "SELECT id FROM posts ORDER BY created_at, id")
    source = await app.store.sources.get("s-ok")
    outcome = a_success(source, [a_post("new", source_id=source.id)])
    (post,) = (await app.store.record(outcome)).posts  # before cleanup numbers the others
    while await app.store.clean(unnumbered_posts(), NOW, 2):
        pass
    found = await rows(app.store, "SELECT id, seq FROM posts ORDER BY seq")
    ids = [*(row[0] for row in before), post.id]
    assert found == [(id_, seq) for seq, id_ in enumerate(ids, 1)]


async def test_k7_polling_continues_after_an_upgrade(app: App, web: DemoWeb):
    due = ["s-failing", "s-ok", "s-requested"]
    last_poll = await app.store.polls.last_id()
    async with app.service() as service, asyncio.timeout(60):
        await service.tick()
        while len(polls := await app.store.polls.of_sources(due, since=last_poll)) < len(due):
            await asyncio.sleep(0.05)

    assert {poll.source_id: poll.outcome for poll in polls} == dict.fromkeys(
        due, OutcomeKind.STORED
    )
    visited = {visit.host for visit in web.visits}
    assert visited == {"ok", "failing", "requested"}  # the others are disabled or on hold

    bodies = {post.body for post in await newest_posts(app.store, source_id="s-ok", limit=99)}
    assert bodies == {
        "Stored and linked",
        "Stored and processed",
        "Stored only",
        "Published after the upgrade",  # and not the deleted one, which has a tombstone
    }
    recovered = await app.store.sources.get("s-failing")
    assert (recovered.consecutive_failures, recovered.last_error) == (0, None)
    assert (await app.store.sources.get("s-requested")).requested_at is None
    stranger = await app.store.sources.get("s-new")
    assert stranger.last_polled is not None  # its first poll is scheduled (P6)
