"""Stores sources, posts and articles in a served database, without polls."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headwater.model import Podcast, Post, Source
from headwater.operations.articles import aggregate
from tests.api.conftest import Answer, Served
from tests.store.store_data import a_failure, a_post_of, a_success, stored

MINUTE = timedelta(minutes=1)


async def podcast_of(served: Served, name: str = "default") -> Podcast:
    """The podcast of the user who has the same name."""
    user = await served.app.store.accounts.user(name)
    return await served.app.store.accounts.podcast(user.id, name)


async def source_of(served: Served, name: str = "default", **changes: Any) -> Source:
    """Add a source to a user's podcast."""
    podcast = await podcast_of(served, name)
    return await stored(served.app.store, podcast_id=podcast.id, **changes)


async def posts_of(served: Served, source: Source, *bodies: str, **changes: Any) -> list[Post]:
    """Store posts as a poll at NOW would, each a minute older than the one before."""
    now = served.app.clock.now().replace(microsecond=0)
    posts = [
        a_post_of(source, body, created_at=now - n * MINUTE, published_at=None, **changes)
        for n, body in enumerate(bodies)
    ]
    outcome = a_success(await served.app.store.sources.get(source.id), posts)
    assert (await served.app.store.record(outcome)).recorded
    return posts


async def polled(served: Served, source: Source, **changes: Any) -> None:
    """Record a successful poll without new posts, with the given changes."""
    current = await served.app.store.sources.get(source.id)
    await served.app.store.record(replace(a_success(current), **changes))


async def failed(served: Served, source: Source, **changes: Any) -> None:
    """Record a failed poll with the given changes."""
    current = await served.app.store.sources.get(source.id)
    await served.app.store.record(replace(a_failure(current), **changes))


async def articles_of(served: Served, name: str = "default") -> list[str]:
    """Aggregate now and return the ids of the articles, newest first."""
    app, podcast = served.app, await podcast_of(served, name)
    made = await aggregate(app.store, podcast, app.clock.now(), app.policy)
    return sorted(made.created, reverse=True)


async def walked(served: Served, path: str, **options: Any) -> list[list[Any]]:
    """The items of all pages of a list."""
    pages: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        mark = "&" if "?" in path else "?"
        answer = await served.get(f"{path}{mark}cursor={cursor}" if cursor else path, **options)
        assert answer.status == 200, answer.body
        pages.append(answer.json["items"])
        cursor = answer.json["nextCursor"]
    return pages


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and message of a problem document."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status, answer.json["detail"]
