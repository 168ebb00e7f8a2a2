"""Two users with one object of each kind, an administrator and a revoked token."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from headwater.api.middleware.authentication import FOR_PROGRAMS
from headwater.app import App, open_app
from headwater.engine.local_service import LocalService
from headwater.model import (
    Podcast,
    SealedSecret,
    Source,
    Suggestion,
    SuggestionKind,
    TokenScope,
    User,
)
from headwater.operations.articles import aggregate, mark_processed
from headwater.operations.search import save_search
from headwater.operations.tokens import add_token, revoke_token
from headwater.operations.users_and_podcasts import add_podcast, add_user, set_key
from headwater.rules.channels import ChannelChoice, ChannelKind
from headwater.rules.incidents import Incident, IncidentChanges, IncidentKind, Severity
from headwater.rules.webhook_messages import TEST_EVENT, WebhookEvent
from headwater.store import Session
from headwater.store.webhooks import Webhook
from tests.api.conftest import Answer, Served, serving, settings_in
from tests.store.store_data import NOW, a_polled_source, a_post_of, a_success, with_posts

UNKNOWN = "ffffffff-0000-4000-8000-00000000dead"  # an id, host or name that does not exist
TABLES = """users podcasts api_keys sources posts tombstones late_keys articles post_articles
    polls hosts facts tokens sessions suggestions incidents incident_sources
    incident_podcasts webhooks channels deliveries saved_searches""".split()
# a use of a token is stored in the background
COLUMNS = {"tokens": "id, user_id, name, hash, created_at, scope, expires_at"}
SCOPES = {
    "reader": TokenScope.READ,
    "reader of all": TokenScope.READ,
    "metrics": TokenScope.METRICS,
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class OwnedObjects:
    """The objects of one user, by the names of the path parameters."""

    u: str
    p: str
    s: str
    a: str
    host: str
    url: str
    t: str
    i: str  # a post
    n: str  # a suggestion for the source
    w: str  # a webhook
    d: str  # and a message of it
    name: str  # a saved search
    names: Mapping[str, str]  # user and podcast can also be given by these names
    ids: tuple[str, ...]
    provider: str = "x"

    @classmethod
    def made_up(cls) -> "OwnedObjects":
        """Objects that do not exist."""
        known = {field.name for field in fields(cls)} - {"names", "ids", "provider"}
        return cls(**dict.fromkeys(known, UNKNOWN), names={}, ids=())

    def path(self, template: str, **others: str) -> str:
        values = {name: getattr(self, name) for name in parameters_in(template)} | others
        return template.format(**values)


@dataclass
class ApiWithUsers:
    """A running API with these users."""

    served: Served
    anna: OwnedObjects
    bert: OwnedObjects
    tokens: dict[str, str | None] = field(default_factory=dict)

    async def send_as(
        self,
        caller: str,
        method: str,
        path: str,
        body: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request as one user and check the headers that every response must have (U4)."""
        given = dict(headers or {})
        if token := self.tokens[caller]:
            given["Authorization"] = f"Bearer {token}"
        if body is not None:
            given["Content-Type"] = "application/json"
        async with self.served.session.request(
            method, self.served.url + path, json=body, data=data, headers=given
        ) as found:
            is_stream = found.content_type == "text/event-stream"
            read = found.content.readany() if is_stream else found.read()
            answer = Answer(found.status, found.headers, await read)
        assert_security_headers(answer, path)
        return answer

    async def dump(self) -> dict[str, list[str]]:
        """Every row of every table."""

        def read(session: Session) -> dict[str, list[str]]:
            return {
                t: sorted(map(repr, session.fetch(f"SELECT {COLUMNS.get(t, '*')} FROM {t}")))
                for t in TABLES
            }

        return await self.served.app.store.database.read(read)

    async def audit_actions(self) -> list[tuple[str, str]]:
        """Who did what, oldest first."""
        entries = await self.served.app.store.audit.newest(limit=10_000)
        return [(entry.who, entry.action) for entry in reversed(entries)]

    async def rows_of(self, things: OwnedObjects) -> dict[str, list[str]]:
        """The rows that mention an object of a user."""
        dump = await self.dump()
        return {t: [r for r in rows if any(i in r for i in things.ids)] for t, rows in dump.items()}


def assert_security_headers(answer: Answer, path: str) -> None:
    """Check the headers against scripts, framing and sniffing, and the content type (U4)."""
    for name, value in HEADERS.items():
        assert answer.headers.getall(name) == [value], (path, name)  # type: ignore[attr-defined]
    policy = answer.headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "object-src 'none'", "base-uri 'none'"):
        assert part in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    kind = answer.headers.get("Content-Type", "")
    is_page = path.startswith(("/api/docs", "/api/problems/")) or not path.startswith(FOR_PROGRAMS)
    assert not kind.startswith("text/html") or is_page, path
    if answer.body[:1] in (b"{", b"["):
        assert re.match(r"application/([\w.-]+\+)?json\b", kind), (path, kind)


def parameters_in(template: str) -> list[str]:
    """The path parameters that hold ids."""
    return re.findall(r"{(\w+)}", template)


def routes_in(routes: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path of an application; path parameters have no names."""
    for route in routes:
        if hasattr(route, "original_router"):
            within = prefix + route.include_context.prefix
            yield from routes_in(route.original_router.routes, within)
        else:
            yield from ((m, bare(prefix + route.path)) for m in route.methods if m != "HEAD")


def bare(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"{[^}]+}", "{}", path)


async def make_template(folder: Path) -> dict[str, Any]:
    """Build the data once, in a database to copy; return its objects."""
    async with open_app(settings_in(folder)) as app:
        anna, bert = await _person(app, "anna", 1), await _person(app, "bert", 2)
        tokens: dict[str, str | None] = {"anonymous": None}
        owners = {"anna": anna, "bert": bert, "admin": None, "revoked": anna, "expired": anna}
        owners |= {"reader": anna, "reader of all": None, "metrics": None}
        for name, things in owners.items():
            user = None if things is None else await app.store.accounts.user(things.u)
            expires_at = NOW + timedelta(seconds=1) if name == "expired" else None
            scope = SCOPES.get(name)
            made = await add_token(app.store, user, name, NOW, scope=scope, expires_at=expires_at)
            tokens[name] = made.secret
        await revoke_token(app.store, "revoked")
        return {"anna": anna, "bert": bert, "tokens": tokens}


async def _person(app: App, name: str, number: int) -> OwnedObjects:
    store, now = app.store, app.clock.now()
    user = await add_user(store, name, now)
    podcast = await add_podcast(store, user, f"{name}-cast", now)
    await add_podcast(store, user, f"{name}-second", now)
    await set_key(store, app.vault, user, "x", f"{name}-key", now)
    sealed = app.vault.seal(f"{name}-old-key", user_id=user.id, provider="a")
    await store.api_keys.set(user.id, "a", sealed, now)  # of an API that no longer exists
    host = f"127.66.{number}.1"
    sources = [
        a_polled_source(
            podcast_id=podcast.id,
            url=f"http://{host}:1/{name}/{n}",  # no server listens there
            host=host,
            label=f"{name}-label-{n}",
            last_polled=now,
        )
        for n in (1, 2)
    ]
    other = a_polled_source(
        podcast_id=podcast.id, url=f"http://127.67.{number}.1:1/", host=f"127.67.{number}.1"
    )
    await store.sources.add_many([*sources, other])
    for source in sources:
        await with_posts(store, source, *(_new_posts(app, source, name)))
        await with_posts(store, source)
    moved_to = {"url": f"http://{host}:1/{name}/moved"}
    suggestion = Suggestion(f"{name}-suggestion", SuggestionKind.MOVE, moved_to, now)
    polled = a_success(await store.sources.get(sources[0].id))
    await store.record(replace(polled, suggestions={suggestion.kind: suggestion}))
    made = await aggregate(store, podcast, now, app.policy)
    await with_posts(store, sources[0], a_post_of(sources[0], f"{name} late", created_at=now))
    hook = Webhook(
        f"{name}-hook", podcast.id, f"http://{host}:1/hook", (WebhookEvent.POST_CREATED,), None,
        True, None, now,
    )  # fmt: skip
    await store.webhooks.add(hook, SealedSecret("k", b"n", b"c"))
    delivery = await store.webhooks.add_test(hook, TEST_EVENT, name, now)
    topic = ChannelChoice(ChannelKind.NTFY, f"http://{host}:1/t")
    await store.channels.replace(user.id, [topic], now)
    search = await save_search(store, podcast, f"{name}-search", f"{name} news", now)
    spare = (await add_token(store, user, f"{name}-spare", now)).token
    incident = await _incident(app, user, sources[0])
    ids = [*await _ids(app, user, podcast), incident]
    articles = [a async for a in store.articles.each(podcast.id, made.created)]
    article = next(a for a in articles if a.source_id == sources[0].id)
    others = [a.id for a in articles if a.source_id == sources[1].id]
    await mark_processed(store, podcast, others, now, batch=f"{name}-batch")
    return OwnedObjects(
        u=user.id,
        p=podcast.id,
        s=sources[0].id,
        a=article.id,
        host=host,
        url=sources[0].url,
        t=spare.id,
        i=article.post_ids[0],
        n=f"{name}-suggestion",
        w=hook.id,
        d=delivery,
        name=search.name,
        names={"u": user.name, "p": podcast.name},
        ids=(*ids, host, other.host or "", f"{name}-"),
    )


async def _incident(app: App, user: User, source: Source) -> str:
    """Open two incidents, and return the id of that of a source."""
    now = app.clock.now()
    ids = [(source.id,), ()]
    opened = [
        Incident(
            id=f"{user.name}-incident-{n}",
            kind=IncidentKind.FAILING,
            severity=Severity.ERROR,
            user_id=user.id,
            host=f"{user.name}-host-{n}",
            title="It fails",
            advice="Look at it",
            opened_at=now,
            source_ids=ids[n],
        )
        for n in (0, 1)
    ]
    await app.store.incidents.apply(IncidentChanges(opened=opened))
    return opened[0].id


def _new_posts(app: App, source: Any, name: str) -> list[Any]:
    now = app.clock.now()
    return [a_post_of(source, f"{name} news {n}", created_at=now, published_at=now) for n in (1, 2)]


async def _ids(app: App, user: User, podcast: Podcast) -> list[str]:
    """Every id that belongs to this user only."""
    sql = """SELECT id FROM sources WHERE podcast_id = :p UNION SELECT id FROM posts
        WHERE podcast_id = :p UNION SELECT id FROM articles WHERE podcast_id = :p"""
    found = await app.store.database.read(lambda s: s.fetch(sql, {"p": podcast.id}))
    return [user.id, podcast.id, *(row[0] for row in found)]


@asynccontextmanager
async def running_api_with_users(
    folder: Path,
    template: Mapping[str, Any],
    add: Callable[[FastAPI, App, LocalService], None] = lambda *_: None,
) -> AsyncIterator[ApiWithUsers]:
    """Serve a copy of the template database in a folder."""
    async with serving(settings_in(folder), add=add) as served:
        yield ApiWithUsers(served, template["anna"], template["bert"], dict(template["tokens"]))
