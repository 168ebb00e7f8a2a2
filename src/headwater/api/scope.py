"""Whose things a request is about: every id is looked up as its owner's, or not found (U2)."""

import asyncio
from typing import Annotated

from fastapi import Path, Request

from headwater.api.callers import caller_of
from headwater.errors import NotFound
from headwater.model import Podcast, Source, Subject, User
from headwater.store import Store

UserName = Annotated[str, Path(alias="u", max_length=200, description="A user's id or name.")]
PodcastName = Annotated[str, Path(alias="p", max_length=200, description="A podcast's id or name.")]
SourceId = Annotated[str, Path(alias="s", max_length=200, description="A source's id.")]


async def the_user(store: Store, request: Request, user_name: str) -> User:
    """The user with this id or name, if the caller may know of them."""
    caller = caller_of(request)
    if caller.user_id is None:
        return await store.people.user(user_name)
    own = await store.people.user(caller.user_id)
    if user_name not in (own.id, own.name):
        raise NotFound(f"there is no user {user_name!r}")
    return own


async def the_podcast(store: Store, request: Request, user_name: str, podcast_name: str) -> Podcast:
    """A user's podcast, if the caller may know of it."""
    only = caller_of(request).user_id
    return await store.people.podcast_of(user_name, podcast_name, only=only)


async def the_source(
    store: Store, request: Request, user_name: str, podcast_name: str, source_id: str
) -> Source:
    """A podcast's source, if the caller may know of it."""
    return (await the_subject(store, request, user_name, podcast_name, source_id)).source


async def the_subject(
    store: Store, request: Request, user_name: str, podcast_name: str, source_id: str
) -> Subject:
    """The same with what its podcast says."""
    podcast, subject = await asyncio.gather(
        the_podcast(store, request, user_name, podcast_name), store.sources.subject(source_id)
    )
    if subject is None or subject.source.podcast_id != podcast.id:
        raise NotFound(f"there is no source {source_id}")
    return subject


async def podcast_id(store: Store, request: Request, name: str) -> str:
    """The id of a podcast that is named without its user; administrators give the id itself."""
    user_id = caller_of(request).user_id
    if user_id is None:
        return (await store.people.podcast_with(name)).id
    return (await store.people.podcast(user_id, name)).id


async def source_id(store: Store, request: Request, wanted: str) -> str:
    """The id of a source that is named without its podcast, if the caller may know of it."""
    subject, user_id = await store.sources.subject(wanted), caller_of(request).user_id
    if subject is None or user_id not in (None, subject.user_id):
        raise NotFound(f"there is no source {wanted}")
    return subject.source.id
