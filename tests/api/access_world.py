"""Two people with one of everything each, an administrator and a revoked token, to walk routes."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from headwater.api.callers import FOR_PROGRAMS
from headwater.app import App, open_app
from headwater.engine.service import Service
from headwater.model import Podcast, User
from headwater.operations.articles import aggregate
from headwater.operations.people import add_podcast, add_user, set_key
from headwater.operations.tokens import add_token, revoke_token
from headwater.store import Session
from tests.api.conftest import Answer, Served, serving, settings_in
from tests.store.pieces import NOW, a_post, a_source, with_posts

UNKNOWN = "ffffffff-0000-4000-8000-00000000dead"  # nobody's id, host or name
TABLES = """users podcasts api_keys sources posts tombstones late_keys articles post_articles
    polls hosts facts tokens sessions""".split()
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class Things:
    """What somebody has, by the names that paths use."""

    u: str
    p: str
    s: str
    a: str
    host: str
    url: str
    names: Mapping[str, str]  # how user and podcast can be called besides their ids
    ids: tuple[str, ...]
    provider: str = "x"

    def path(self, template: str, **others: str) -> str:
        values = {name: getattr(self, name) for name in places_in(template)} | others
        return template.format(**values)


@dataclass
class World:
    """A running API with those people in it."""

    served: Served
    anna: Things
    bert: Things
    tokens: dict[str, str | None] = field(default_factory=dict)

    async def ask(
        self,
        caller: str,
        method: str,
        path: str,
        body: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask as somebody; every answer there is has the headers it must have (U4)."""
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
        assert_dressed(answer, path)
        return answer

    async def dump(self) -> dict[str, list[str]]:
        """Every row of every table."""

        def read(session: Session) -> dict[str, list[str]]:
            return {t: sorted(map(repr, session.fetch(f"SELECT * FROM {t}"))) for t in TABLES}

        return await self.served.app.store.database.read(read)

    async def rows_of(self, things: Things) -> dict[str, list[str]]:
        """The rows that mention something of somebody's."""
        dump = await self.dump()
        return {t: [r for r in rows if any(i in r for i in things.ids)] for t, rows in dump.items()}


def assert_dressed(answer: Answer, path: str) -> None:
    """Nothing of an answer is to be run, framed or guessed, and JSON is no page (U4)."""
    for name, value in HEADERS.items():
        assert answer.headers.getall(name) == [value], (path, name)  # type: ignore[attr-defined]
    policy = answer.headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "object-src 'none'", "base-uri 'none'"):
        assert part in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    kind = answer.headers.get("Content-Type", "")
    is_page = path.startswith("/api/docs") or not path.startswith(FOR_PROGRAMS)
    assert not kind.startswith("text/html") or is_page, path
    if answer.body[:1] in (b"{", b"["):
        assert re.match(r"application/([\w.-]+\+)?json\b", kind), (path, kind)


def places_in(template: str) -> list[str]:
    """Where ids stand in a path."""
    return re.findall(r"{(\w+)}", template)


def routes_in(routes: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path that an application answers, the paths with empty places."""
    for route in routes:
        if hasattr(route, "original_router"):
            within = prefix + route.include_context.prefix
            yield from routes_in(route.original_router.routes, within)
        else:
            yield from ((m, bare(prefix + route.path)) for m in route.methods if m != "HEAD")


def bare(path: str) -> str:
    """A path without the names of its places."""
    return re.sub(r"{[^}]+}", "{}", path)


async def make_template(folder: Path) -> dict[str, Any]:
    """Build the world once, in a database to copy; answers what is in it."""
    async with open_app(settings_in(folder)) as app:
        anna, bert = await _person(app, "anna", 1), await _person(app, "bert", 2)
        tokens: dict[str, str | None] = {"nobody": None}
        for name, things in (("anna", anna), ("bert", bert), ("admin", None), ("revoked", anna)):
            user = None if things is None else await app.store.people.user(things.u)
            made = await add_token(app.store, user, name, NOW)
            tokens[name] = made.secret
        await revoke_token(app.store, "revoked")
        return {"anna": anna, "bert": bert, "tokens": tokens}


async def _person(app: App, name: str, number: int) -> Things:
    store, now = app.store, app.clock.now()
    user = await add_user(store, name, now)
    podcast = await add_podcast(store, user, f"{name}-cast", now)
    await add_podcast(store, user, f"{name}-second", now)
    await set_key(store, app.vault, user, "x", f"{name}-key", now)
    sealed = app.vault.seal(f"{name}-old-key", user_id=user.id, provider="a")
    await store.people.set_key(user.id, "a", sealed, now)  # of a provider that is no more
    host = f"127.66.{number}.1"
    sources = [
        a_source(
            podcast_id=podcast.id,
            url=f"http://{host}:1/{name}/{n}",  # nobody listens there
            host=host,
            label=f"{name}-label-{n}",
            last_polled=now,
        )
        for n in (1, 2)
    ]
    other = a_source(
        podcast_id=podcast.id, url=f"http://127.67.{number}.1:1/", host=f"127.67.{number}.1"
    )
    await store.sources.add_many([*sources, other])
    for source in sources:
        await with_posts(store, source, *(_new_posts(app, source, name)))
        await with_posts(store, source)
    made = await aggregate(store, podcast, now, app.policy)
    await with_posts(store, sources[0], a_post(sources[0], f"{name} late", created_at=now))
    ids = await _ids(app, user, podcast)
    articles = [a async for a in store.articles.each(podcast.id, made.created)]
    article = next(a for a in articles if a.source_id == sources[0].id)
    return Things(
        u=user.id,
        p=podcast.id,
        s=sources[0].id,
        a=article.id,
        host=host,
        url=sources[0].url,
        names={"u": user.name, "p": podcast.name},
        ids=(*ids, host, other.host or "", f"{name}-"),
    )


def _new_posts(app: App, source: Any, name: str) -> list[Any]:
    now = app.clock.now()
    return [a_post(source, f"{name} news {n}", created_at=now, published_at=now) for n in (1, 2)]


async def _ids(app: App, user: User, podcast: Podcast) -> list[str]:
    """Every id that is this person's alone."""
    sql = """SELECT id FROM sources WHERE podcast_id = :p UNION SELECT id FROM posts
        WHERE podcast_id = :p UNION SELECT id FROM articles WHERE podcast_id = :p"""
    found = await app.store.database.read(lambda s: s.fetch(sql, {"p": podcast.id}))
    return [user.id, podcast.id, *(row[0] for row in found)]


@asynccontextmanager
async def running_world(
    folder: Path,
    template: Mapping[str, Any],
    add: Callable[[FastAPI, App, Service], None] = lambda *_: None,
) -> AsyncIterator[World]:
    """Serve a copy of the template that lies in a folder."""
    async with serving(settings_in(folder), add=add) as served:
        yield World(served, template["anna"], template["bert"], dict(template["tokens"]))
